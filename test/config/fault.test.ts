// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the configuration writes its references like this
import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { ConfigError } from "../../src/config/config.ts"
import { ConfigFile } from "../../src/config/file.ts"
import { loadConfig } from "../../src/config/load.ts"
import { parsePrice } from "../../src/money.ts"
import { EXPECTED } from "../../src/wire/fault.ts"
import { isObject } from "../../src/wire/usage.ts"
import { exampleConfiguration } from "../docs/blocks.ts"
import { keysOf } from "../docs/configuration-keys.ts"
import { and, load, model, refusal, rowsOf, small, sources, upstream } from "./small.ts"

describe("D6 D12 D21 D38 D39 D40 D43 D44 D77 D81 a wrong file stops the start with the path of the key and what was expected", () => {
  const DURATION = "expected a duration above zero, such as 50ms, 15s, 5m or 1h (at most 99h)"
  const PRICE =
    'expected USD per 1M tokens as a quoted decimal with at most six decimals, such as "0.25" (an unquoted number is not exact)'
  const NAME =
    "expected a name of 1 to 256 characters, without control characters and without spaces at its start or end"
  const URL = "expected an http or https URL without credentials, query or fragment"
  const VENDOR =
    "expected a name of up to 32 characters (a-z, 0-9, -) that starts with a letter and is not reserved (admin, chat, console, docs, embeddings, livez, metrics, models, readyz, v1)"

  const tiered = (tiers: readonly object[], price: object = {}) =>
    model({ price: { input: "1", output: "1", ...price, tiers } })

  const served = (service_tiers: object, price: object = {}) =>
    model({ price: { input: "1", output: "1", ...price, service_tiers } })

  /** What is said of a file, and files of which it is said. */
  const refused: Readonly<Record<string, string | readonly string[]>> = {
    "the file: expected a mapping": ["[]", "tollgate"],
    "__proto__: expected a known key: vendors, proxy, upstreams, models, tags, stream, limits, admin, cors, receipts, idempotency, lease, shutdown, workers, journal, shards":
      "__proto__: { models: [] }\n",
    "upstreams.openai.tls: expected both cert and key, or neither\nupstreams.openai.tls.cert: expected a certificate in PEM":
      upstream({ tls: { cert: "-----BEGIN" } }),
    "upstreams.openai.headers.content-length: expected a lower-case header name other than those that the gateway sets itself":
      upstream({ headers: { "content-length": "0" } }),
    "upstreams.openai.set: expected no change of n, which decides what a call can cost\nupstreams.openai.drop: expected no change of max_tokens, which decides what a call can cost":
      upstream({ set: { n: 5 }, drop: ["max_tokens"] }),
    "models[0].price: expected the prices of input and output, or `free: true` instead": model({
      price: undefined,
    }),
    "models[0].price: expected at least one price above zero, or `free: true` instead": model({
      price: { input: "0", output: "0", cached_input: "0.00", per_call: "0" },
    }),
    "models[0].free: expected either `price` or `free`, not both": model({ free: true }),
    "idempotency.keep_answers: expected at most 24h, the lifetime of an Idempotency-Key": and({
      idempotency: { keep_answers: "25h" },
    }),
    "models[0].price.tiers[0].reasoning: expected a price, because the model has one": tiered(
      [{ above: 5, input: "1", output: "1" }],
      { reasoning: "1" },
    ),
    "models[0].price.tiers[0].cached_input: expected no such key, because the model itself has no such price":
      tiered([{ above: 5, input: "1", output: "1", cached_input: "1" }]),
    "models[0].price.tiers[1].above: expected more than 5": tiered([
      { above: 5, input: "1", output: "1" },
      { above: 5, input: "2", output: "2" },
    ]),
    "models[0].price.service_tiers.flex.reasoning: expected a price, because the model has one": served(
      { flex: { input: "1", output: "1" } },
      { reasoning: "1" },
    ),
    "models[0].price.service_tiers.flex.per_call: expected a known key: input, cached_input, output, cache_write, cache_write_1h, reasoning, audio_input, audio_output, image_input, image_output, cached_audio_input, tiers":
      served({ flex: { input: "1", output: "1", per_call: "1" } }),
    "models[0].price.service_tiers.flex.tiers[1].above: expected more than 5": served({
      flex: {
        input: "1",
        output: "1",
        tiers: [
          { above: 5, input: "1", output: "1" },
          { above: 4, input: "1", output: "1" },
        ],
      },
    }),
    "models[0].price.service_tiers.default: expected a name that matches ^(?!(?:auto|default)$)[a-z][a-z0-9_-]{0,31}$":
      served({ default: { input: "1", output: "1" } }),
    "upstreams: expected a mapping from names to upstreams": and({ upstreams: [], models: [] }),
    "models: expected a list of models": and({ models: {} }),
    "vendors[0]: expected no alias to a value that contains it": "vendors: &all [*all]\n",
    "shutdown.drain: expected a duration, such as 0s, 50ms, 15s, 5m or 1h (at most 99h)": and({
      shutdown: { drain: "1d" },
    }),
    [`stream.stall: ${DURATION}`]: and({ stream: { stall: "0s" } }),
    [`lease.expire: ${DURATION}`]: and({ lease: { expire: "1000h" } }),
    "limits.body: expected a size, such as 64KiB, 20MiB or 8MB (at most 999MiB)": and({
      limits: { body: 1_000_000 },
    }),
    "limits.memory: expected a size, such as 512MiB or 4GiB (at most 999GiB)": and({
      limits: { memory: "2G" },
    }),
    "admin.host: expected a host name or an IP address": and({
      admin: { host: "http://localhost", port: 1 },
    }),
    "cors.origins[1]: expected an origin as browsers send it, such as https://app.example.com": [
      ...[
        "*",
        "null",
        "app.example.com",
        "https://app.example.com/",
        "https://App.example.com",
        "https://app.example.com:443",
        "https://user@app.example.com",
        "ftp://app.example.com",
        "file:///",
      ].map((origin) => and({ cors: { origins: ["https://app.example.com", origin] } })),
    ],
    [`vendors[0]: ${VENDOR}`]: [
      and({ vendors: ["v1"] }),
      and({ vendors: ["Acme"] }),
      and({ vendors: ["a/b"] }),
      and({ vendors: ["a".repeat(33)] }),
      and({ vendors: ["acme\n"] }),
      and({ vendors: [""] }),
    ],
    [`vendors[1]: ${VENDOR}`]: and({ vendors: ["acme", "admin"] }),
    "vendors: expected a list of unique vendor names": and({ vendors: ["acme", "acme"] }),
    [`upstreams.openai.base_url: ${URL}`]: [
      upstream({ base_url: "api.openai.com/v1" }),
      upstream({ base_url: "ftp://host" }),
      upstream({ base_url: "https://user:SECRET@host" }),
      upstream({ base_url: "https://host/?key=SECRET" }),
      upstream({ base_url: "https://host/#SECRET" }),
      upstream({ base_url: "https://host/ v1" }),
    ],
    "upstreams.openai.base_url: expected a URL": upstream({ base_url: "https://host:99999" }),
    "upstreams.a b: expected a name that matches ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$": and({
      upstreams: { "a b": small.upstreams.openai },
    }),
    [`models[0].name: ${NAME}`]: [
      model({ name: " m" }),
      model({ name: "m\nn" }),
      model({ name: "m".repeat(257) }),
    ],
    "models[0].upstreams[1].use: expected an upstream of the family chat: openai": model({
      upstreams: [{ use: "openai" }, { use: "azure" }],
    }),
    "models[0].upstreams[0].use: expected an upstream of the family chat: openai": model({
      upstreams: [{ use: "constructor" }],
    }),
    "models[0].upstreams[0].use: expected an upstream of the family messages, but none is configured; openai is for chat: add an upstream with family: messages":
      model({ family: "messages" }),
    "models[1].name: expected a name that no other chat model has": and({
      models: [small.models[0], small.models[0]],
    }),
    [`models[0].price.input: ${PRICE}`]: [
      model({ price: { input: 0.25, output: "1" } }),
      model({ price: { input: "-1", output: "1" } }),
      model({ price: { input: "0.0000001", output: "1" } }),
      model({ price: { input: "$1", output: "1" } }),
    ],
    [`models[0].price.output: ${PRICE}`]: [
      model({ price: { input: "1", output: 2 } }),
      model({ price: { input: "1", output: "1e3" } }),
    ],
    [`models[0].price.cached_input: ${PRICE}`]: model({
      price: { input: "1", cached_input: "0,5", output: "1" },
    }),
    "models[0].hold_output_tokens: expected at most max_output_tokens (100)": model({
      hold_output_tokens: 101,
    }),
    "limits.memory: expected at least 4 times limits.body, so that one body fits": and({
      limits: { memory: "79MiB" },
    }),
    "lease.expire: expected more than twice lease.renew, so that one late renewal does not lose the lease":
      and({ lease: { renew: "10s" } }),
  }
  test.each(rowsOf(refused))("%s: %j", (message, text) => {
    expect(refusal(text)).toBe(message)
  })

  test.each(
    keysOf(ConfigFile).map(({ part, name, schema }) => {
      const at = part.replace("NAME", "openai").replaceAll("[]", "[0]")
      return [at === "" ? name : `${at}.${name}`, at, schema] as const
    }),
  )(
    "%s of another kind or beyond its bounds, an unknown key beside it, and no mapping",
    (path, at, schema) => {
      if (at !== "") expect(refusal(withValue(at, 5))).toContain(`${at}: expected a mapping`)
      const { type, minimum, maximum } = schema
      const wrong: unknown[] = [type === "object" ? 5 : { another: "kind" }]
      if (minimum !== undefined) wrong.push(minimum - 1, maximum + 1, String(maximum))
      if (type === "integer") wrong.push(minimum + 0.5)
      for (const value of wrong) {
        expect(refusal(withValue(path, value)).split("\n")).toContain(`${path}: expected ${schema[EXPECTED]}`)
      }
      expect(refusal(withValue(`${path}_`, 1))).toContain(`${path}_: expected a known key: `)
    },
  )

  const places = (text: string) =>
    refusal(text)
      .split("\n")
      .map((line) => line.split(":")[0])

  test("of what is missing as a whole, each key that must be there", () => {
    expect(places(and({ models: [null] }))).toEqual([
      "models[0].name",
      "models[0].family",
      "models[0].upstreams",
    ])
    expect(places("upstreams: { openai: }")).toEqual(["upstreams.openai.family", "upstreams.openai.base_url"])
  })

  test("all faults of form at once, one line each, each place once", () => {
    const text = exampleConfiguration()
      .replace("${OPENAI_API_KEY}", "${NOPE}")
      .replace('"0.25"', "0.25")
      .replace("15s", "15")
      .replace("max_output_tokens: 64000", "max_tokens: 64000")
    expect(places(text)).toEqual([
      "upstreams.openai.api_key",
      "models[0].price.input",
      "models[2].max_tokens",
      "stream.keepalive",
    ])
  })

  test("all faults of sense at once", () => {
    const text = JSON.stringify({
      ...small,
      models: [
        { ...small.models[0], hold_output_tokens: 200, upstreams: [{ use: "x" }, { use: "y" }] },
        small.models[0],
      ],
      lease: { expire: "1s" },
    })
    expect(places(text)).toEqual([
      "models[0].hold_output_tokens",
      "models[0].upstreams[0].use",
      "models[0].upstreams[1].use",
      "models[1].name",
      "lease.expire",
    ])
  })

  test("nothing that stands in the file, the environment or a secret's file is shown", () => {
    const secrets = { ...sources, env: { KEY: "SECRET secret" }, readFile: () => "SECRET secret" }
    for (const api_key of ["SECRET secret", "${KEY}", "${file:x}"]) {
      expect(() => loadConfig(upstream({ api_key }), secrets)).toThrow(
        new ConfigError([{ path: "upstreams.openai.api_key", expected: "printable ASCII without spaces" }]),
      )
    }
  })
})

describe("what is no YAML stops the start with the line", () => {
  test.each([
    ["a bracket that is not closed", "vendors: [anthropic]\nlimits: { body: 20MiB\nlease: {}\n", 3],
    ["a quote that is not closed", 'a: 1\nb: "SECRET\nc: 2\nd: "e"\n', 2],
    ["wrong indentation", "a: 1\nb: 2\n c: 3\nd: 4\n", 2],
    ["a reserved character", "a: 1\nb: 2\nc: @SECRET\n", 3],
    ["a tab", "a:\n\t- b\n", 2],
    ["a second document", "a: 1\n---\nb: 2\n", 2],
    ["in the first line", "]", 1],
  ])("%s", (_, text, line) => {
    expect(refusal(text)).toBe(`line ${line}: expected valid YAML`)
  })

  test.each(["b: { key: ${SECRET} }", "b: [1, ${SECRET}]"])("an unquoted reference: %s", (line) => {
    expect(refusal(`a:\n  ${line}\n`)).toBe(
      'line 2: expected valid YAML; inside { } and [ ] quote a reference: "${NAME}"',
    )
  })

  test.each([
    ["an alias without an anchor", "vendors: *SECRET\n"],
    ["a merge of what is no mapping", "stream: { <<: SECRET }\n"],
  ])("%s", (_, text) => {
    expect(refusal(text)).toBe(
      "the file: expected valid YAML: an anchor before its aliases, and a mapping after each <<",
    )
  })
})

describe("a key that stands twice stops the start with its name and line", () => {
  const once = (line: number, key: string) =>
    `line ${line}: expected the key ${key} only once in this mapping`
  test.each([
    ["a section", "vendors: []\nlimits: {}\nvendors: [SECRET]\n", [once(3, "vendors")]],
    ["in braces", 'upstreams:\n  a: { family: chat, "family": messages }\n', [once(2, "family")]],
    ["an upstream", "upstreams:\n  a: {}\n  b: {}\n  'a': {}\n", [once(4, "a")]],
    ["in a model of a list", "models:\n  - name: m\n    price: {}\n    price: {}\n", [once(4, "price")]],
    ["in JSON", '{"workers": 1,\n"workers": 2}', [once(2, "workers")]],
    [
      "several",
      "a: { b: 1, b: 2 }\nc: 1\nc: 2\na: 1\na: 2\n",
      [once(3, "c"), once(4, "a"), once(5, "a"), once(1, "b")],
    ],
  ])("%s", (_, text, messages) => {
    expect(refusal(text)).toBe(messages.join("\n"))
  })

  test("but the same key may stand in several mappings, and besides one that is merged", () => {
    const text = "stream: &s { stall: 30s }\nlease: { renew: 5s }\nshutdown: { drain: 10m }\n"
    expect(load(`${text}upstreams: {}\n`).shutdown.drain_ms).toBe(600_000)
    expect(load(text.replace("&s { stall: 30s }", "{ <<: { stall: 1s }, stall: 2s }")).stream.stall_ms).toBe(
      2_000,
    )
  })
})

/** The smallest file, with this value at the path. */
function withValue(path: string, value: unknown): string {
  const put = (at: unknown, [key, ...rest]: readonly string[]): unknown => {
    if (key === undefined) return value
    if (key === "0") return [put(Array.isArray(at) ? at[0] : undefined, rest)]
    const all = isObject(at) ? at : {}
    return { ...all, [key]: put(all[key], rest) }
  }
  return JSON.stringify(put(small, path.replaceAll("[0]", ".0").split(".")))
}

test("a price is accepted by the file exactly when money can read it", () => {
  const digits = fc.string({ unit: fc.constantFrom(..."0123456789."), maxLength: 14 })
  fc.assert(
    fc.property(fc.oneof(digits, fc.string()), (text) => {
      fc.pre(!text.includes("${"))
      const read = () => load(model({ price: { input: text, output: "1" } }))
      const price_pico = parsePrice(text)
      if (price_pico === null) expect(read).toThrow(ConfigError)
      else expect(read().models[0]?.price.input_pico).toBe(price_pico)
    }),
  )
})
