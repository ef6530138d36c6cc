import { afterAll, describe, expect, test } from "bun:test"
import { inspectUpstreams } from "../../src/cli/inspect-upstreams.ts"
import { loadConfig } from "../../src/config/load.ts"
import { shown } from "../presets/page.ts"
import { scriptOf } from "../presets/scripted.ts"
import { messagesServers, type Server, servers } from "../presets/servers.ts"
import {
  chatChunk,
  json,
  type RecordedRequest,
  type Script,
  sse,
  startProvider,
  usageChunk,
} from "../support/provider.ts"

/** D84: what `tollgate check` says of the upstreams. */

const KEY = "sk-a-canary-of-the-check"
const provider = await startProvider()
afterAll(() => provider.stop())

interface Changes {
  readonly upstream?: object
  readonly model?: object
}

function configOf({ upstream = {}, model = {} }: Changes) {
  const family = "family" in upstream ? upstream.family : "chat"
  return loadConfig(
    JSON.stringify({
      upstreams: { first: { family, base_url: `${provider.url}/v1`, api_key: KEY, ...upstream } },
      models: [
        {
          name: "sold",
          family,
          upstreams: [{ use: "first", model: "theirs" }],
          free: true,
          max_output_tokens: 9,
          ...model,
        },
      ],
    }),
    { env: {}, readFile: () => "" },
  )
}

/** What is found, in the words that are printed. */
async function check(changes: Changes, calls: boolean): Promise<readonly string[]> {
  const findings = await inspectUpstreams(configOf(changes), calls)
  const lines = findings.map(
    ({ ok, what, found, fix }) => `${ok} ${what}: ${found}${fix === null ? "" : ` | ${fix}`}`,
  )
  expect(lines.join("\n")).not.toContain(KEY)
  return lines
}

/** Lists a model, and answers calls with `script`. */
const calledBy =
  (script: Script): Script =>
  (exchange) =>
    (exchange.request.method === "GET" ? json(200, { data: [{ id: "theirs" }] }) : script)(exchange)

const NO_PRESET = "; no provider of docs/providers.md has this address"
const HERE = /http:\/\/127\.0\.0\.1:\d+/g
const USAGE = { prompt_tokens: 8, completion_tokens: 1, total_tokens: 9 }
const streamed = (usage: object) =>
  sse([chatChunk({ content: "H" }), chatChunk({}, "length"), usageChunk(usage)])
const refused = (status: number, message: string, more: object = {}) =>
  json(status, { error: { message, ...more } })

describe("D84 the smallest request that costs nothing", () => {
  const rows: [found: string, script: Script, changes?: Changes][] = [
    [
      `true upstream first: reachable, and lists its models, but the list may be public; --call tests the key${NO_PRESET}`,
      json(200, { data: [{ id: "models/theirs" }] }),
    ],
    [
      `true upstream first: reachable, without a key${NO_PRESET}`,
      json(200, { data: [] }),
      { upstream: { api_key: undefined } },
    ],
    [
      `true upstream first: reachable, but its answer to GET /models is not a list of models: check base_url${NO_PRESET}`,
      json(200, {}),
    ],
    [
      "true upstream first: reachable, and accepts the key; it does not list theirs; preset groq, by provider",
      json(200, { data: [{ id: "another" }] }),
      { upstream: { provider: "groq" } },
    ],
    [
      "true upstream first: reachable, and accepts the key; preset azure, by provider",
      json(200, { data: [{ id: "another" }] }),
      { upstream: { provider: "azure" } },
    ],
    [
      "false upstream first: refuses the key (status 400): API key not valid. Please pass a valid API key.; preset gemini, by provider | Correct upstreams.first.api_key.",
      refused(400, "API key not valid. Please pass a valid API key.", {
        details: [{ reason: "API_KEY_INVALID" }],
      }),
      { upstream: { provider: "gemini" } },
    ],
    [
      `false upstream first: refuses the key (status 401): please check [redacted]: ([redacted]) [redacted]${NO_PRESET} | Correct upstreams.first.api_key.`,
      refused(401, "please check k: (k) k"),
      { upstream: { api_key: "k" } },
    ],
    [
      "true upstream first: reachable, and accepts the key; preset groq, by provider",
      json(200, {}),
      { upstream: { provider: "groq" } },
    ],
    [
      `false upstream first: refuses the key (status 401): Incorrect key [redacted]${NO_PRESET} | Correct upstreams.first.api_key.`,
      refused(401, `Incorrect key ${KEY}`),
    ],
    [
      "false upstream first: refuses the account (status 412): Account acme is suspended, possibly; preset fireworks, by provider | Settle the account at the provider. Correct upstreams.first.api_key.",
      refused(412, "Account acme is suspended, possibly"),
      { upstream: { provider: "fireworks" } },
    ],
    [
      `false upstream first: base_url ends with /v1, and the gateway appends /v1/messages to it${NO_PRESET} | Remove /v1 from the end of upstreams.first.base_url.`,
      json(404, {}),
      { upstream: { family: "messages" } },
    ],
    [
      `false upstream first: answers with an error (status 500): oops${NO_PRESET} | Try again later, or ask the provider.`,
      refused(500, "oops"),
    ],
    [`true upstream first: reachable, but the key is rate-limited now${NO_PRESET}`, refused(429, "slow")],
    [
      `false upstream first, key b: refuses the key (status 401)${NO_PRESET} | Correct this key.`,
      json(401, {}),
      { upstream: { api_key: undefined, keys: [{ name: "b", api_key: KEY }] } },
    ],
  ]
  test.each(rows)("%s", async (found, script, changes = {}) => {
    provider.reply(script)
    expect(await check(changes, false)).toEqual([found])
    expect(provider.requests.at(-1)?.method).toBe("GET")
  })

  test("a preset that the host of base_url names", async () => {
    provider.reply(json(200, {}))
    const config = configOf({ upstream: { base_url: "https://api.openai.com/v1" } })
    const upstreams = config.upstreams.map((upstream) => ({ ...upstream, base_url: provider.url }))
    const [finding] = await inspectUpstreams({ ...config, upstreams }, false)
    expect(finding?.found).toEndWith("; preset openai, by the host of base_url")
  })

  const probes: [entry: object, target: string][] = [
    [{ provider: "azure" }, "/openai/models?api-version=2024-10-21"],
    [{ provider: "openrouter" }, "/api/v1/key"],
    [{ provider: "openrouter", family: "messages" }, "/api/v1/key"],
    [{ provider: "deepseek", family: "messages" }, "/models"],
    [{ provider: "databricks" }, "/api/2.0/serving-endpoints"],
    [{ provider: "cohere" }, "/v1/models"],
    [{ provider: "groq" }, "/openai/v1/models"],
    [{ provider: "vllm", family: "messages" }, "/v1/models"],
  ]
  test.each(probes)("%j: GET %s", async (entry, target) => {
    provider.reply(json(200, {}))
    await check({ upstream: { family: "chat", ...entry, base_url: provider.url } }, false)
    expect(provider.requests.at(-1)?.path).toBe(target)
  })

  test("a server without TLS", async () => {
    const data = (socket: Bun.Socket<undefined>) => void socket.end("HTTP/1.1 400 Bad\r\n\r\n")
    const plain = Bun.listen<undefined>({ hostname: "127.0.0.1", port: 0, socket: { data } })
    const base_url = `https://127.0.0.1:${plain.port}/v1`
    const [line] = await check({ upstream: { base_url } }, true)
    expect(line).toMatch(
      /^false upstream first: not reachable \(\w+\); no provider of docs\/providers\.md has this address \| The server does not speak TLS there/,
    )
    plain.stop(true)
  })

  test("a port that is silent in the TLS handshake costs timeouts.connect, and no call is tried", async () => {
    const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } })
    const upstream = { base_url: `https://127.0.0.1:${silent.port}/v1`, timeouts: { connect: "100ms" } }
    expect(await check({ upstream }, true)).toEqual([
      "false upstream first: no connection within 0.1 s; no provider of docs/providers.md has this address | Correct upstreams.first.base_url, or check the network and the firewall.",
    ])
    silent.stop(true)
  })
})

describe("D84 a call", () => {
  const rows: [found: string, script: Script, changes?: Changes][] = [
    ["true answers as theirs; usage 8 tokens in, 1 out", streamed(USAGE)],
    [
      "false answers as theirs; usage 8 tokens in, 1 out, with unknown numbers: odd_tokens | Ask the provider what the numbers cost, and report the names to the project.",
      streamed({ ...USAGE, odd_tokens: 5 }),
    ],
    [
      "false answers as theirs; usage 8 tokens in, 1 out, but its parts do not add up to its total | If the provider reports thinking only in the total, set `usage: gemini` at the upstream.",
      streamed({ ...USAGE, total_tokens: 90 }),
    ],
    [
      "false answers as theirs, but its usage is missing, so estimates are charged | Ask the provider how it reports the usage of a stream; docs/billing.md says what is charged without it.",
      sse([chatChunk({ content: "H" })]),
    ],
    [
      "false has no /chat/completions below HERE/v1 (status 404): Not Found | Correct base_url or family of upstreams.first, or the operations of the model sold.",
      json(404, { detail: "Not Found" }),
    ],
    [
      "false has no /chat/completions below HERE/v1 (status 404): Resource not found | Correct base_url, query.api-version or family of upstreams.first, or the operations of the model sold.",
      json(404, { error: { code: "404", message: "Resource not found" } }),
      { upstream: { query: { "api-version": "2020" } } },
    ],
    [
      "false base_url has no path, and the gateway appends /chat/completions to it | Add the path of the provider's API to upstreams.first.base_url: usually /v1.",
      json(404, {}),
      { upstream: { base_url: "HERE" } },
    ],
    [
      "false refuses the key (status 401): No [redacted] | Correct upstreams.first.api_key.",
      refused(401, `No ${KEY}`),
    ],
    [
      "false refuses the account (status 429): No credit | Settle the account at the provider. Correct upstreams.first.api_key.",
      refused(429, "No credit", { code: "insufficient_quota" }),
    ],
    [
      "false does not know the model theirs (status 404): The model `theirs` does not exist | Correct `model` of this upstream in the model sold.",
      refused(404, "The model `theirs` does not exist", { code: "model_not_found" }),
    ],
    [
      "false does not know the model theirs (status 404): models/theirs is not found for API version v1main | Correct `model` of this upstream in the model sold.",
      json(404, [{ error: { message: "models/theirs is not found for API version v1main" } }]),
    ],
    [
      "false refuses the request (status 422): body.stream_options: Extra inputs are not permitted | Add `drop: [stream_options]` to upstreams.first.",
      json(422, { detail: [{ loc: ["body", "stream_options"], msg: "Extra inputs are not permitted" }] }),
    ],
    ["true is rate-limited now, so the call was not made", refused(429, "slow")],
    [
      "false answers with an error (status 500): oops | Try again later, or ask the provider.",
      refused(500, "oops"),
    ],
    [
      "false fails after status 200: overloaded | Try again later, or ask the provider.",
      sse([{ error: { message: "overloaded" } }]),
    ],
    [
      "false answers, but neither with JSON nor with events | Correct upstreams.first.base_url: this is not the address of an API.",
      json(200, "<!doctype html>"),
    ],
    [
      "true answers as theirs, but needs more than one token",
      refused(400, "Could not finish the message because max_tokens or model output limit was reached."),
    ],
    [
      "false no answer: broken (ECONNRESET) | Try again later, or ask the provider.",
      (exchange) => exchange.reset(),
    ],
  ]
  test.each(rows)("%s", async (found, script, { upstream = {} } = {}) => {
    provider.reply(calledBy(script))
    const placed = JSON.parse(JSON.stringify({ upstream }).replace("HERE", provider.url))
    const [, call] = await check(placed, true)
    expect(call?.replace(HERE, "HERE").replace(" call of upstream first, model theirs:", "")).toBe(found)
  })

  test("takes the newer name of the limit where the provider asks for it", async () => {
    const hint = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    const asked: unknown[] = []
    provider.reply(
      calledBy((exchange) => {
        asked.push(exchange.request.json)
        return (asked.length === 1 ? refused(400, hint) : streamed(USAGE))(exchange)
      }),
    )
    expect((await check({}, true))[1]).toStartWith("true")
    expect(asked).toMatchObject([{ max_tokens: 1 }, { max_completion_tokens: 1 }])
    expect(asked[1]).not.toHaveProperty("max_tokens")
  })

  test("is made once for each of the upstream's names, and the rest is named", async () => {
    const names = Array.from({ length: 12 }, (_, at) => `m${at}`)
    const called: unknown[] = []
    provider.reply(
      calledBy((exchange) => {
        called.push(exchange.request.json)
        return streamed(USAGE)(exchange)
      }),
    )
    const { models, ...config } = configOf({})
    const each = models.flatMap((model) =>
      ["m0", ...names].map((name) => ({ ...model, routes: [{ ...model.routes[0], model: name }] as const })),
    )
    const findings = await inspectUpstreams({ ...config, models: each }, true)
    expect(findings.slice(1).map(({ what }) => what)).toEqual([
      ...names.slice(0, 10).map((name) => `call of upstream first, model ${name}`),
      "calls of upstream first",
    ])
    expect(findings.at(-1)?.found).toBe("not tried (at most 10 models): m10, m11")
    expect(called).toHaveLength(10)
  })

  test("is not made to an upstream that no model uses", async () => {
    provider.reply(json(200, {}))
    const { upstreams } = configOf({})
    expect(await inspectUpstreams({ ...configOf({}), upstreams, models: [] }, true)).toHaveLength(1)
  })
})

describe("D84 each provider of docs/providers.md", () => {
  const entries = Object.fromEntries(shown.map(({ name, entry }) => [name, entry]))
  const all: [name: string, server: Server, entry: object][] = [
    ...Object.entries(servers).map(([name, server]): [string, Server, object] => [
      name,
      server,
      entries[name] ?? {},
    ]),
    ...Object.entries(messagesServers).map(([name, server]): [string, Server, object] => [
      `${name} messages`,
      server,
      { ...entries[name], family: "messages" },
    ]),
  ]
  test.each(all)("%s: nothing is wrong", async (_name, server, entry) => {
    provider.reply((exchange) =>
      isProbe(exchange.request) ? json(200, {})(exchange) : scriptOf(server, () => null)(exchange),
    )
    const { base_url = "", ...others }: { base_url?: string } = entry
    const path = base_url === "" ? "" : new URL(base_url).pathname.replace(/\/$/, "")
    const family = server.operation === "messages" ? "messages" : "chat"
    const changes = {
      upstream: { ...others, family, base_url: provider.url + path, api_key: KEY },
      model: { operations: [server.operation], upstreams: [{ use: "first", model: server.model }] },
    }
    expect((await check(changes, true)).map((line) => line.split(" ")[0])).toEqual(["true", "true"])
  })
})

const isProbe = ({ method }: RecordedRequest) => method === "GET"
