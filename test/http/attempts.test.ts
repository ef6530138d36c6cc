import { describe, expect, test } from "bun:test"
import type { CallBody } from "../../src/wire/admin.ts"
import type { AttemptsBody } from "../../src/wire/attempts.ts"
import { chatModel, until } from "../support/gateway.ts"
import { chatCompletion, chatWords, json, type Script, silent, sse, usage } from "../support/provider.ts"
import { requestBytes } from "../support/request.ts"
import { chatDraft, testHarness } from "./harness.ts"

const KEYS = 20
const answers = (headers: Record<string, string> = {}) =>
  json(200, chatCompletion("hello", { usage: usage(10, 5) }), headers)
const refuses = (status: number, headers: Record<string, string> = {}) => json(status, "{}", headers)
/** Echoes our own id, as vLLM can. */
const echoes: Script = (exchange) =>
  answers({ "x-request-id": exchange.request.headers["x-request-id"] ?? "" })(exchange)

const harness = await testHarness(configuration)
const account = await harness.account()

/** Models that are named after the upstreams that they are tried at, in that order. */
function configuration(url: string) {
  const upstream = (name: string, settings: object = {}) => ({
    [name]: { family: "chat", base_url: `${url}/${name}`, ...settings },
  })
  const keysOf = (...names: string[]) => names.map((name) => ({ name, api_key: `sk-${name}` }))
  return {
    upstreams: {
      ...upstream("first"),
      ...upstream("second"),
      ...upstream("pair", { keys: keysOf("a", "b") }),
      ...upstream("many", { keys: keysOf(...Array.from({ length: KEYS }, (_, at) => `k${at}`)) }),
      ...upstream("hurried", { timeouts: { total: "100ms" } }),
      ...upstream("leaving", { on_disconnect: { json: "abort" } }),
      nowhere: { family: "chat", base_url: "http://127.0.0.1:1" },
    },
    models: ["first", "pair", "many", "hurried", "leaving", "first+second", "nowhere+second"].map((name) =>
      chatModel(name, { upstreams: name.split("+").map((use) => ({ use })) }),
    ),
  }
}

/** One call whose attempts are answered so: its record, and how the journal keeps it. */
async function called(model: string, scripts: readonly Script[], count = 0, fields: object = {}) {
  const from = harness.provider.requests.length
  harness.provider.reply((exchange) =>
    (scripts[harness.provider.requests.length - from - 1] ?? answers())(exchange),
  )
  const answer = await harness.chat(account.key, { model, ...fields })
  return await recordOf(answer.headers["x-request-id"] ?? "", count)
}

/** The call, once it has ended and has so many attempts, for which its end does not wait. */
async function recordOf(id: string, count: number) {
  const call = await until(
    () => harness.gateway.admin<CallBody>("GET", `/calls/${id}`),
    ({ state, attempts }) => state !== "open" && attempts.length >= count,
  )
  const { upstream, upstream_key, provider_request_id, attempts } = call
  return { id, upstream, upstream_key, provider_request_id, attempts, details: await detailsOf(id) }
}

async function detailsOf(id: string): Promise<unknown> {
  const [row] = await harness.gateway.sql<
    { details: unknown }[]
  >`SELECT details FROM tollgate.ends WHERE id = ${id}`
  return row?.details
}

const lost = (upstream: string, said: object) => ({
  upstream,
  upstream_key: null,
  provider_request_id: null,
  status: null,
  failure: null,
  ms: expect.any(Number),
  ...said,
})
interface Said {
  readonly attempts?: readonly unknown[]
  readonly [field: string]: unknown
}
const PLAIN = { upstream_key: null, provider_request_id: null, attempts: [] }

describe("D86, D93 what the journal says of the requests to providers", () => {
  const rows: readonly [what: string, model: string, scripts: readonly Script[], said: Said][] = [
    ["a plain call: nothing", "first", [answers()], { ...PLAIN, upstream: "first", details: null }],
    ["our own id: nothing", "first", [echoes], { ...PLAIN, details: null }],
    [
      "the provider's id",
      "first",
      [answers({ "x-request-id": "req_1" })],
      { ...PLAIN, provider_request_id: "req_1", details: { request_id: "req_1" } },
    ],
    ["Anthropic's", "first", [answers({ "request-id": "req_2" })], { provider_request_id: "req_2" }],
    ["AWS'", "first", [answers({ "x-amzn-RequestId": "a-b" })], { provider_request_id: "a-b" }],
    ["an id of 129 characters: nothing", "first", [answers({ "x-request-id": "x".repeat(129) })], PLAIN],
    ["an id that is a sentence: nothing", "first", [answers({ "x-request-id": "not an id" })], PLAIN],
    [
      "another upstream answers",
      "first+second",
      [refuses(503, { "x-request-id": "req_3" }), answers({ "x-request-id": "req_4" })],
      {
        upstream: "second",
        provider_request_id: "req_4",
        details: { request_id: "req_4" },
        attempts: [lost("first", { status: 503, provider_request_id: "req_3" })],
      },
    ],
    [
      "none answers",
      "first+second",
      [refuses(500), (exchange) => exchange.reset()],
      {
        ...PLAIN,
        details: null,
        attempts: [lost("first", { status: 500 }), lost("second", { failure: "broken" })],
      },
    ],
    ["nothing could be sent", "nowhere+second", [answers()], { ...PLAIN, upstream: "second", details: null }],
    [
      "no answer in time",
      "hurried",
      [silent()],
      { ...PLAIN, attempts: [lost("hurried", { failure: "timeout" })] },
    ],
  ]
  test.each(rows)("%s", async (_, model, scripts, said) => {
    expect(await called(model, scripts, said.attempts?.length)).toMatchObject(said)
  })

  test("of a stream", async () => {
    const streams = sse(chatWords("hello"), { usage: usage(10, 5) })
    expect(await called("first+second", [refuses(429), streams], 1, { stream: true })).toMatchObject({
      upstream: "second",
      attempts: [lost("first", { status: 429 })],
    })
  })

  test("which key answered, and which was refused", async () => {
    const from = harness.provider.requests.length
    const { upstream_key, attempts } = await called("pair", [refuses(401), answers()], 1)
    const asked = harness.provider.requests.slice(from).map(({ headers }) => headers.authorization)
    expect(asked).toEqual([`Bearer sk-${attempts[0]?.upstream_key}`, `Bearer sk-${upstream_key}`])
    expect(attempts).toEqual([lost("pair", { upstream_key: expect.stringMatching(/^[ab]$/), status: 401 })])
  })

  test("every attempt of a call, in their order", async () => {
    const from = harness.provider.requests.length
    const { attempts } = await called("many", Array(KEYS).fill(refuses(402)), KEYS)
    const asked = harness.provider.requests.slice(from).map(({ headers }) => headers.authorization)
    expect(asked).toEqual(attempts.map(({ upstream_key }) => `Bearer sk-${upstream_key}`))
  })

  test("a client that leaves before the answer", async () => {
    const from = harness.provider.requests.length
    harness.provider.reply(silent())
    const line = harness.dial()
    line.send(requestBytes(chatDraft(account.key, { model: "leaving" })))
    const exchange = await harness.provider.exchange(from + 1)
    line.leave()
    await exchange.closed
    const { attempts } = await recordOf(exchange.request.headers["x-request-id"] ?? "", 1)
    expect(attempts).toEqual([lost("leaving", { failure: "abandoned" })])
  })

  test("clients see none of it", async () => {
    const { id } = await called("first+second", [refuses(503), answers({ "x-request-id": "req_5" })])
    const answer = await harness.ask({
      target: `/v1/calls/${id}`,
      headers: [`authorization: Bearer ${account.key}`],
    })
    expect(answer.status).toBe(200)
    expect(answer.body).not.toMatch(/req_5|attempts|upstream|provider/)
  })
})

test("D93 operators count attempts by upstream, key, model and outcome", async () => {
  const { id, key } = await harness.account()
  harness.provider.reply((exchange) =>
    (exchange.request.path.startsWith("/second") ? answers() : refuses(503))(exchange),
  )
  for (let count = 0; count < 2; count += 1) await harness.chat(key, { model: "first+second" })
  const ask = (query: object) =>
    harness.gateway.admin<AttemptsBody>("GET", `/attempts?${new URLSearchParams({ account: id, ...query })}`)
  const { data } = await until(
    () => ask({}),
    (body) => body.data[0]?.attempts === 2,
  )
  const row = { upstream: "first", upstream_key: null, model: "first+second", status: 503, failure: null }
  expect(data).toEqual([{ ...row, attempts: 2, last_at: expect.any(String) }])
  expect((await ask({ upstream: "first", model: "first+second" })).data).toEqual(data)
  expect((await ask({ upstream: "second" })).data).toEqual([])
  expect((await ask({ to: "2026-01-01" })).data).toEqual([])
})
