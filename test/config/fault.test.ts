// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the configuration writes its references like this
import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { ConfigError } from "../../src/config/config.ts"
import { loadConfig } from "../../src/config/load.ts"
import { parsePrice } from "../../src/money.ts"
import { and, contract, load, model, refusal, small, sources, upstream } from "./small.ts"

describe("a wrong file stops the start with the path of the key and what was expected", () => {
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

  const rows: [string, string, string][] = [
    ["a list instead of the file", "[]", "the file: expected a mapping"],
    ["a text instead of the file", "tollgate", "the file: expected a mapping"],
    ["no worker at all", and({ workers: 0 }), "workers: expected an integer from 1 to 16"],
    ["too many workers", and({ workers: 17 }), "workers: expected an integer from 1 to 16"],
    [
      "an unknown section",
      and({ model: [] }),
      "model: expected a known key: vendors, proxy, upstreams, models, tags, stream, limits, admin, cors, receipts, idempotency, lease, shutdown, workers, journal, shards",
    ],
    [
      "an unknown section without a value",
      "streams:\n",
      "streams: expected a known key: vendors, proxy, upstreams, models, tags, stream, limits, admin, cors, receipts, idempotency, lease, shutdown, workers, journal, shards",
    ],
    [
      "a key named __proto__",
      "__proto__: { models: [] }\n",
      "__proto__: expected a known key: vendors, proxy, upstreams, models, tags, stream, limits, admin, cors, receipts, idempotency, lease, shutdown, workers, journal, shards",
    ],
    [
      "an unknown key in a section",
      and({ stream: { keep_alive: "15s" } }),
      "stream.keep_alive: expected a known key: keepalive, commit_after, stall, finish_wait, leave_wait",
    ],
    [
      "an unknown key in a timeout",
      upstream({ timeouts: { read: "1s" } }),
      "upstreams.openai.timeouts.read: expected a known key: connect, first_byte, idle, total",
    ],
    [
      "a certificate without its key",
      upstream({ tls: { cert: "-----BEGIN" } }),
      "upstreams.openai.tls: expected both cert and key, or neither\nupstreams.openai.tls.cert: expected a certificate in PEM",
    ],
    [
      "an unknown way to authenticate",
      upstream({ auth: "basic" }),
      "upstreams.openai.auth: expected bearer, x-api-key, api-key or { header: NAME }",
    ],
    [
      "a header that frames the request",
      upstream({ headers: { "content-length": "0" } }),
      "upstreams.openai.headers.content-length: expected a lower-case header name other than those that the gateway sets itself",
    ],
    [
      "a change of a field that decides what a call can cost (D81)",
      upstream({ set: { n: 5 }, drop: ["max_tokens"] }),
      "upstreams.openai.set: expected no change of n, which decides what a call can cost\nupstreams.openai.drop: expected no change of max_tokens, which decides what a call can cost",
    ],
    [
      "an unknown key in a route",
      model({ upstreams: [{ use: "openai", share: 1 }] }),
      "models[0].upstreams[0].share: expected a known key: use, model, priority, weight",
    ],
    [
      "D44 a model without a price",
      model({ price: undefined }),
      "models[0].price: expected the prices of input and output, or `free: true` instead",
    ],
    [
      "D44 a price of nothing",
      model({ price: { input: "0", output: "0", cached_input: "0.00", per_call: "0" } }),
      "models[0].price: expected at least one price above zero, or `free: true` instead",
    ],
    [
      "D44 a price and free",
      model({ free: true }),
      "models[0].free: expected either `price` or `free`, not both",
    ],
    [
      "D44 free: false",
      model({ price: undefined, free: false }),
      "models[0].free: expected true, or no such key",
    ],
    [
      "D44 a call's price as a number",
      model({ price: { input: "1", output: "1", per_call: 0.5 } }),
      'models[0].price.per_call: expected USD as a quoted decimal with at most nine decimals, such as "0.002" (an unquoted number is not exact)',
    ],
    [
      "D43 answers that outlive their keys",
      and({ idempotency: { keep_answers: "25h" } }),
      "idempotency.keep_answers: expected at most 24h, the lifetime of an Idempotency-Key",
    ],
    [
      "D43 answers kept for no time",
      and({ idempotency: { keep_answers: "0s" } }),
      "idempotency.keep_answers: expected a duration above zero, such as 50ms, 15s, 5m or 1h (at most 99h)",
    ],
    [
      "an unknown key in a price",
      model({ price: { input: "1", output: "1", thinking: "1" } }),
      "models[0].price.thinking: expected a known key: input, cached_input, output, cache_write, cache_write_1h, reasoning, audio_input, audio_output, image_input, image_output, cached_audio_input, per_call, web_search, page, tool_run, tiers, service_tiers",
    ],
    [
      "a tier without a price that the model has",
      tiered([{ above: 5, input: "1", output: "1" }], { reasoning: "1" }),
      "models[0].price.tiers[0].reasoning: expected a price, because the model has one",
    ],
    [
      "a tier with a price that the model does not have",
      tiered([{ above: 5, input: "1", output: "1", cached_input: "1" }]),
      "models[0].price.tiers[0].cached_input: expected no such key, because the model itself has no such price",
    ],
    [
      "tiers that do not ascend",
      tiered([
        { above: 5, input: "1", output: "1" },
        { above: 5, input: "2", output: "2" },
      ]),
      "models[0].price.tiers[1].above: expected more than 5",
    ],
    [
      "a service tier without a price that the model has",
      served({ flex: { input: "1", output: "1" } }, { reasoning: "1" }),
      "models[0].price.service_tiers.flex.reasoning: expected a price, because the model has one",
    ],
    [
      "a service tier with a price per call",
      served({ flex: { input: "1", output: "1", per_call: "1" } }),
      "models[0].price.service_tiers.flex.per_call: expected a known key: input, cached_input, output, cache_write, cache_write_1h, reasoning, audio_input, audio_output, image_input, image_output, cached_audio_input, tiers",
    ],
    [
      "tiers of a service tier that do not ascend",
      served({
        flex: {
          input: "1",
          output: "1",
          tiers: [
            { above: 5, input: "1", output: "1" },
            { above: 4, input: "1", output: "1" },
          ],
        },
      }),
      "models[0].price.service_tiers.flex.tiers[1].above: expected more than 5",
    ],
    [
      "a price of the service tier that is the model's own",
      served({ default: { input: "1", output: "1" } }),
      "models[0].price.service_tiers.default: expected a name that matches ^(?!(?:auto|default)$)[a-z][a-z0-9_-]{0,31}$",
    ],
    ["a section that is a list", and({ stream: [] }), "stream: expected a mapping"],
    ["a section that is a text", and({ limits: "20MiB" }), "limits: expected a mapping"],
    [
      "upstreams as a list",
      and({ upstreams: [], models: [] }),
      "upstreams: expected a mapping from names to upstreams",
    ],
    ["models as a mapping", and({ models: {} }), "models: expected a list of models"],
    [
      "an alias of what it stands in",
      "vendors: &all [*all]\n",
      "vendors[0]: expected no alias to a value that contains it",
    ],

    ["a duration without a unit", and({ stream: { keepalive: 15 } }), `stream.keepalive: ${DURATION}`],
    [
      "a duration of another unit",
      and({ shutdown: { drain: "1d" } }),
      "shutdown.drain: expected a duration, such as 0s, 50ms, 15s, 5m or 1h (at most 99h)",
    ],
    ["a duration of nothing", and({ stream: { stall: "0s" } }), `stream.stall: ${DURATION}`],
    ["a duration that no timer can wait", and({ lease: { expire: "1000h" } }), `lease.expire: ${DURATION}`],
    [
      "a size without a unit",
      and({ limits: { body: 1_000_000 } }),
      "limits.body: expected a size, such as 64KiB, 20MiB or 8MB (at most 999MiB)",
    ],
    [
      "D77 a size of memory without a unit",
      and({ limits: { memory: "2G" } }),
      "limits.memory: expected a size, such as 512MiB or 4GiB (at most 999GiB)",
    ],
    [
      "a count that is a text",
      and({ limits: { in_flight: "100" } }),
      "limits.in_flight: expected an integer from 1 to 60000",
    ],
    [
      "a count of nothing",
      and({ limits: { in_flight: 0 } }),
      "limits.in_flight: expected an integer from 1 to 60000",
    ],
    [
      "more in flight than a process can",
      and({ limits: { in_flight: 65_536 } }),
      "limits.in_flight: expected an integer from 1 to 60000",
    ],
    [
      "D38 no call at all of a key",
      and({ limits: { per_key: { in_flight: 0 } } }),
      "limits.per_key.in_flight: expected an integer from 1 to 60000",
    ],
    [
      "D38 half a request a minute",
      and({ limits: { per_key: { requests_per_minute: 0.5 } } }),
      "limits.per_key.requests_per_minute: expected an integer from 1 to 10000000",
    ],
    [
      "D38 an unknown limit of a key",
      and({ limits: { per_key: { rpm: 5 } } }),
      "limits.per_key.rpm: expected a known key: in_flight, requests_per_minute, abandoned_per_minute",
    ],

    ["D39 admin as a port", and({ admin: 9090 }), "admin: expected a mapping of host and port"],
    ["D39 admin without a port", and({ admin: {} }), "admin.port: expected an integer from 0 to 65535"],
    [
      "D39 admin at a port that there is not",
      and({ admin: { port: 65_536 } }),
      "admin.port: expected an integer from 0 to 65535",
    ],
    [
      "D39 admin at a URL",
      and({ admin: { host: "http://localhost", port: 1 } }),
      "admin.host: expected a host name or an IP address",
    ],
    [
      "D39 a token in the file",
      and({ admin: { port: 1, token: "x" } }),
      "admin.token: expected a known key: host, port, open_metrics, oidc",
    ],

    [
      "D40 origins as a text",
      and({ cors: { origins: "*" } }),
      "cors.origins: expected a list of unique origins",
    ],
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
    ].map((origin): [string, string, string] => [
      `D40 the origin ${origin}`,
      and({ cors: { origins: ["https://app.example.com", origin] } }),
      "cors.origins[1]: expected an origin as browsers send it, such as https://app.example.com",
    ]),

    ["D21 a vendor that is a path", and({ vendors: ["v1"] }), `vendors[0]: ${VENDOR}`],
    ["D21 a vendor that is another path", and({ vendors: ["acme", "admin"] }), `vendors[1]: ${VENDOR}`],
    ["D21 a vendor in upper case", and({ vendors: ["Acme"] }), `vendors[0]: ${VENDOR}`],
    ["D21 a vendor with a slash", and({ vendors: ["a/b"] }), `vendors[0]: ${VENDOR}`],
    ["D21 a vendor of 33 letters", and({ vendors: ["a".repeat(33)] }), `vendors[0]: ${VENDOR}`],
    ["D21 a vendor with a line break", and({ vendors: ["acme\n"] }), `vendors[0]: ${VENDOR}`],
    ["D21 an empty vendor", and({ vendors: [""] }), `vendors[0]: ${VENDOR}`],
    [
      "D21 a vendor twice",
      and({ vendors: ["acme", "acme"] }),
      "vendors: expected a list of unique vendor names",
    ],
    ["vendors as a text", and({ vendors: "acme" }), "vendors: expected a list of unique vendor names"],

    [
      "an upstream without a family",
      upstream({ family: undefined }),
      "upstreams.openai.family: expected chat or messages",
    ],
    [
      "an upstream of another family",
      upstream({ family: "responses" }),
      "upstreams.openai.family: expected chat or messages",
    ],
    [
      "an upstream without a base_url",
      upstream({ base_url: undefined }),
      `upstreams.openai.base_url: ${URL}`,
    ],
    [
      "a base_url without a scheme",
      upstream({ base_url: "api.openai.com/v1" }),
      `upstreams.openai.base_url: ${URL}`,
    ],
    [
      "a base_url of another scheme",
      upstream({ base_url: "ftp://host" }),
      `upstreams.openai.base_url: ${URL}`,
    ],
    [
      "a base_url with credentials",
      upstream({ base_url: "https://user:SECRET@host" }),
      `upstreams.openai.base_url: ${URL}`,
    ],
    [
      "a base_url with a query",
      upstream({ base_url: "https://host/?key=SECRET" }),
      `upstreams.openai.base_url: ${URL}`,
    ],
    [
      "a base_url with a fragment",
      upstream({ base_url: "https://host/#SECRET" }),
      `upstreams.openai.base_url: ${URL}`,
    ],
    [
      "a base_url with a space",
      upstream({ base_url: "https://host/ v1" }),
      `upstreams.openai.base_url: ${URL}`,
    ],
    [
      "a base_url with an impossible port",
      upstream({ base_url: "https://host:99999" }),
      "upstreams.openai.base_url: expected a URL",
    ],
    [
      "a key that is a number",
      upstream({ api_key: 5 }),
      "upstreams.openai.api_key: expected printable ASCII without spaces",
    ],
    [
      "a policy that does not exist",
      upstream({ on_disconnect: { stream: "ignore" } }),
      "upstreams.openai.on_disconnect.stream: expected auto, abort or drain",
    ],
    [
      "an upstream's name with a space",
      and({ upstreams: { "a b": small.upstreams.openai } }),
      "upstreams.a b: expected a name that matches ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
    ],

    ["a model without a name", model({ name: undefined }), `models[0].name: ${NAME}`],
    ["a model's name that is a number", model({ name: 4 }), `models[0].name: ${NAME}`],
    ["a model's name with a space before", model({ name: " m" }), `models[0].name: ${NAME}`],
    ["a model's name with a line break", model({ name: "m\nn" }), `models[0].name: ${NAME}`],
    ["a model's name of 257 characters", model({ name: "m".repeat(257) }), `models[0].name: ${NAME}`],
    ["a model that is a text", and({ models: ["m"] }), "models[0]: expected a mapping"],
    [
      "a model without upstreams",
      model({ upstreams: undefined }),
      "models[0].upstreams: expected a list of at least one upstream, such as [{ use: openai }]",
    ],
    [
      "a model with no upstream in the list",
      model({ upstreams: [] }),
      "models[0].upstreams: expected a list of at least one upstream, such as [{ use: openai }]",
    ],
    [
      "an upstream by its mere name",
      model({ upstreams: ["openai"] }),
      "models[0].upstreams[0]: expected a mapping",
    ],
    [
      "an upstream that does not exist",
      model({ upstreams: [{ use: "openai" }, { use: "azure" }] }),
      "models[0].upstreams[1].use: expected an upstream of the family chat: openai",
    ],
    [
      "an upstream that every object has",
      model({ upstreams: [{ use: "constructor" }] }),
      "models[0].upstreams[0].use: expected an upstream of the family chat: openai",
    ],
    [
      "an upstream of the other family",
      model({ family: "messages" }),
      "models[0].upstreams[0].use: expected an upstream of the family messages, but none is configured; openai is for chat: add an upstream with family: messages",
    ],
    [
      "two models of one name",
      and({ models: [small.models[0], small.models[0]] }),
      "models[1].name: expected a name that no other chat model has",
    ],
    ["no price of input", model({ price: { output: "1" } }), `models[0].price.input: ${PRICE}`],
    [
      "a price that is a number",
      model({ price: { input: 0.25, output: "1" } }),
      `models[0].price.input: ${PRICE}`,
    ],
    [
      "a price that is a whole number",
      model({ price: { input: "1", output: 2 } }),
      `models[0].price.output: ${PRICE}`,
    ],
    ["a negative price", model({ price: { input: "-1", output: "1" } }), `models[0].price.input: ${PRICE}`],
    [
      "a price of seven decimals",
      model({ price: { input: "0.0000001", output: "1" } }),
      `models[0].price.input: ${PRICE}`,
    ],
    [
      "a price with a sign of currency",
      model({ price: { input: "$1", output: "1" } }),
      `models[0].price.input: ${PRICE}`,
    ],
    [
      "a price with a comma",
      model({ price: { input: "1", cached_input: "0,5", output: "1" } }),
      `models[0].price.cached_input: ${PRICE}`,
    ],
    [
      "a price in powers of ten",
      model({ price: { input: "1", output: "1e3" } }),
      `models[0].price.output: ${PRICE}`,
    ],
    [
      "no max_output_tokens",
      model({ max_output_tokens: undefined }),
      "models[0].max_output_tokens: expected an integer from 1 to 10000000",
    ],
    [
      "max_output_tokens of nothing",
      model({ max_output_tokens: 0 }),
      "models[0].max_output_tokens: expected an integer from 1 to 10000000",
    ],
    [
      "max_output_tokens that is a fraction",
      model({ max_output_tokens: 1.5 }),
      "models[0].max_output_tokens: expected an integer from 1 to 10000000",
    ],
    [
      "D12 holding more than the most",
      model({ hold_output_tokens: 101 }),
      "models[0].hold_output_tokens: expected at most max_output_tokens (100)",
    ],
    [
      "D12 part_tokens of nothing",
      model({ part_tokens: 0 }),
      "models[0].part_tokens: expected an integer from 1 to 10000000",
    ],
    [
      "D6 bytes_per_token of nothing",
      model({ bytes_per_token: 0 }),
      "models[0].bytes_per_token: expected a number from 0.5 to 100",
    ],
    [
      "D6 estimate.prompt that is a text",
      model({ estimate: { prompt: "yes" } }),
      "models[0].estimate.prompt: expected never, client_cut or always",
    ],
    [
      "D77 memory in which no body fits",
      and({ limits: { memory: "79MiB" } }),
      "limits.memory: expected at least 4 times limits.body, so that one body fits",
    ],
    [
      "a lease that one late renewal would lose",
      and({ lease: { renew: "10s" } }),
      "lease.expire: expected more than twice lease.renew, so that one late renewal does not lose the lease",
    ],
  ]
  test.each(rows)("%s", (_, text, message) => {
    expect(refusal(text)).toBe(message)
  })

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
    const text = contract
      .replace("${OPENAI_API_KEY}", "${NOPE}")
      .replace('"0.25"', "0.25")
      .replace("15s", "15")
      .replace("max_output_tokens: 64000", "max_tokens: 64000")
    expect(places(text)).toEqual([
      "upstreams.openai.api_key",
      "models[0].price.input",
      "models[1].max_tokens",
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
