import { afterAll, beforeEach, describe, expect, test } from "bun:test"
import type { CallBody } from "../../src/wire/admin.ts"
import {
  CHAT,
  chat,
  chatModel,
  endSound,
  MESSAGES,
  PROVIDER_KEY,
  startGateway,
  until,
} from "../support/gateway.ts"
import { chatCompletion, chatWords, json, sse, startProvider, usage } from "../support/provider.ts"
import { type CollectedSpan, startCollector } from "./collector.ts"
import { tracing } from "./tracing.ts"

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
const CALLER = "00f067aa0ba902b7"
const SAMPLED = { traceparent: `00-${TRACE}-${CALLER}-01` }

/** Planted wherever a client or a provider can say something: no span may hold it. */
const CANARY = "canary-7d1f02"

const provider = await startProvider()
const collector = startCollector()
const base = { family: "chat", base_url: `${provider.url}/v1`, api_key: PROVIDER_KEY }
const gateway = await startGateway(
  provider,
  {
    upstreams: {
      first: base,
      second: base,
      counter: { family: "messages", base_url: provider.url, api_key: PROVIDER_KEY },
    },
    models: [
      chatModel(CHAT, {
        upstreams: [
          { use: "first", model: "upstream-model" },
          { use: "second", model: "other-model" },
        ],
      }),
      chatModel(MESSAGES, {
        family: "messages",
        upstreams: [{ use: "counter", model: "upstream-counter" }],
        price: { input: "1.00", output: "4.00" },
      }),
    ],
  },
  tracing(collector),
)
const account = await gateway.account("10")
beforeEach(() => {
  provider.reply(json(200, chatCompletion(CANARY, { usage: usage(10, 5, 4) })))
})
afterAll(async () => {
  await endSound(gateway, provider)
  await collector.stop()
  const said = [
    ...collector.posts.map(
      ({ bytes, headers }) => Buffer.from(bytes).toString("latin1") + JSON.stringify([...headers]),
    ),
    ...gateway.lines,
  ]
  expect(said.length).toBeGreaterThan(10)
  for (const secret of [CANARY, PROVIDER_KEY, account.key, account.key.slice(8, 30)]) {
    expect(said.filter((text) => text.includes(secret))).toEqual([])
  }
})

/** A call with canaries in all that a client may write. */
function call(body: object = {}, headers: Record<string, string> = {}): Promise<Response> {
  return chat(
    gateway,
    account.key,
    { messages: [{ role: "user", content: CANARY }], user: CANARY, metadata: { [CANARY]: CANARY }, ...body },
    {
      headers: {
        authorization: `Bearer ${account.key}`,
        "content-type": "application/json",
        "user-agent": CANARY,
        baggage: `secret=${CANARY}`,
        [`x-${CANARY}`]: CANARY,
        ...headers,
      },
    },
  )
}

/** The id of the request that was answered, once its answer has been read. */
async function answered(answer: Response): Promise<string> {
  await answer.text()
  return answer.headers.get("x-request-id") ?? ""
}

interface Traced {
  readonly server: CollectedSpan
  /** Beneath it, in the order in which they began. */
  readonly children: readonly CollectedSpan[]
}

async function traceOf(request_id: string): Promise<Traced> {
  const found = await until(
    () => collector.spans.find(({ attributes }) => attributes["tollgate.request_id"] === request_id),
    (span) => span !== undefined,
  )
  if (found === undefined) throw new Error("no trace")
  const children = collector.spans.filter(({ parent_id }) => parent_id === found.span_id)
  expect(new Set(children.map(({ trace_id }) => trace_id))).toEqual(new Set([found.trace_id]))
  for (const { began_nano, ended_nano } of children) {
    expect(began_nano >= found.began_nano && began_nano <= ended_nano && ended_nano <= found.ended_nano).toBe(
      true,
    )
  }
  return { server: found, children: children.sort((a, b) => (a.began_nano < b.began_nano ? -1 : 1)) }
}

const names = (spans: readonly CollectedSpan[]) => spans.map(({ name }) => name)
const nano = (usd: string | null | undefined) => BigInt(Math.round(Number(usd) * 1e9))
const lastRequest = () => provider.requests.at(-1)?.headers ?? {}

describe("D54 the trace of a call", () => {
  test("says what the ledger says: the call, its hold, its attempt and its settlement", async () => {
    const id = await answered(await call())
    const { server, children } = await traceOf(id)
    const recorded = await gateway.admin<CallBody>("GET", `/calls/${id}`)
    expect(server).toMatchObject({
      name: "POST /v1/chat/completions",
      kind: 2,
      parent_id: "",
      status: 0,
      scope: expect.stringMatching(/^tollgate \d/),
      events: [{ name: "first_output" }],
    })
    expect(server.attributes).toEqual({
      "http.request.method": "POST",
      "http.route": "/v1/chat/completions",
      "http.response.status_code": 200n,
      "tollgate.operation": "chat",
      "gen_ai.operation.name": "chat",
      "gen_ai.request.model": CHAT,
      "gen_ai.request.stream": false,
      "gen_ai.provider.name": "first",
      "gen_ai.usage.input_tokens": 10n,
      "gen_ai.usage.output_tokens": 5n,
      "gen_ai.usage.cache_read.input_tokens": 4n,
      "tollgate.request_id": id,
      "tollgate.account_id": account.id,
      "tollgate.key_id": recorded.key_id,
      "tollgate.held_nano_usd": nano(recorded.held),
      "tollgate.outcome": recorded.state,
      "tollgate.basis": recorded.basis ?? "",
      "tollgate.ending": recorded.ending ?? "",
      "tollgate.charge_nano_usd": nano(recorded.charge),
    })
    expect(nano(recorded.charge)).toBe(26_400n)
    expect(children.map(({ name, kind, status }) => ({ name, kind, status }))).toEqual([
      { name: "hold", kind: 1, status: 0 },
      { name: "chat upstream-model", kind: 3, status: 0 },
      { name: "settle", kind: 1, status: 0 },
    ])
    const [hold, attempt, settle] = children
    expect(hold?.attributes).toEqual({ "tollgate.held_nano_usd": nano(recorded.held) })
    expect(attempt?.attributes).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "first",
      "gen_ai.request.model": "upstream-model",
      "gen_ai.usage.input_tokens": 10n,
      "gen_ai.usage.output_tokens": 5n,
      "gen_ai.usage.cache_read.input_tokens": 4n,
      "http.request.method": "POST",
      "http.response.status_code": 200n,
      "server.address": "127.0.0.1",
      "server.port": BigInt(provider.port),
    })
    expect(settle?.attributes).toEqual({
      "tollgate.outcome": "settled",
      "tollgate.basis": "usage",
      "tollgate.charge_nano_usd": 26_400n,
      "tollgate.ending": "completed",
    })
  })

  test("of a stream ends when its last byte may leave; its attempt lasts as long as the answer", async () => {
    provider.replyOnce(sse(chatWords("one", "two"), { usage: usage(10, 5) }))
    const id = await answered(await call({ stream: true }))
    const { server, children } = await traceOf(id)
    expect(server.attributes).toMatchObject({
      "gen_ai.request.stream": true,
      "http.response.status_code": 200n,
      "tollgate.basis": "usage",
      "tollgate.ending": "completed",
    })
    expect(names(children)).toEqual(["hold", "chat upstream-model", "settle"])
    const [, attempt, settle] = children
    const first_output = server.events[0]?.at_nano ?? 0n
    expect(first_output > (attempt?.began_nano ?? 0n)).toBe(true)
    expect(first_output <= (settle?.began_nano ?? 0n)).toBe(true)
    expect((attempt?.ended_nano ?? 0n) <= (settle?.began_nano ?? 0n)).toBe(true)
  })

  test("D14 has a span for each attempt, with its status", async () => {
    provider.replyOnce(json(503, { error: { message: CANARY, code: CANARY } }))
    const id = await answered(await call())
    const { server, children } = await traceOf(id)
    expect(names(children)).toEqual(["hold", "chat upstream-model", "chat other-model", "settle"])
    expect(children[1]).toMatchObject({
      status: 2,
      attributes: { "gen_ai.provider.name": "first", "http.response.status_code": 503n, "error.type": "503" },
    })
    expect(children[2]).toMatchObject({ status: 0, attributes: { "gen_ai.provider.name": "second" } })
    expect(server).toMatchObject({ status: 0, attributes: { "gen_ai.provider.name": "second" } })
  })

  test("D28 of one that was released says why, and is an error", async () => {
    provider.replyOnce((exchange) => exchange.reset(), json(500, CANARY))
    const id = await answered(await call())
    const { server, children } = await traceOf(id)
    expect(server).toMatchObject({ status: 2, events: [] })
    expect(server.attributes).toMatchObject({
      "http.response.status_code": 502n,
      "error.type": "upstream_error",
      "tollgate.outcome": "released",
      "tollgate.basis": "none",
      "tollgate.failure": "upstream_error",
      "tollgate.charge_nano_usd": 0n,
    })
    expect(children.map(({ attributes }) => attributes["error.type"])).toEqual([
      undefined,
      "broken",
      "500",
      undefined,
    ])
  })

  test("rule 3 of an answer that is none: the attempt got its 200, and failed", async () => {
    provider.replyOnce(json(200, `<html>${CANARY}`))
    const { server, children } = await traceOf(await answered(await call()))
    expect(server).toMatchObject({ status: 2, attributes: { "tollgate.failure": "usage_invalid" } })
    expect(children[1]).toMatchObject({
      status: 2,
      attributes: { "http.response.status_code": 200n, "error.type": "usage_invalid" },
    })
  })

  test("D9 of a client that left is no error of anybody", async () => {
    const leaving = new AbortController()
    provider.replyOnce(async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(`data: ${JSON.stringify(chatWords("one")[1])}\n\n`)
    })
    const answer = await chat(gateway, account.key, { stream: true }, { signal: leaving.signal })
    const id = answer.headers.get("x-request-id") ?? ""
    await answer.body?.getReader().read()
    leaving.abort()
    const { server, children } = await traceOf(id)
    expect(server).toMatchObject({
      status: 0,
      attributes: { "tollgate.ending": "client_left", "error.type": "client_left" },
    })
    expect(children.map(({ status }) => status)).toEqual([0, 0, 0])
  })

  test("of one that was refused says the code and nothing of what was asked", async () => {
    const id = await answered(await call({ model: CANARY }))
    const { server, children } = await traceOf(id)
    expect(server.attributes).toEqual({
      "http.request.method": "POST",
      "http.route": "/v1/chat/completions",
      "http.response.status_code": 404n,
      "tollgate.request_id": id,
      "error.type": "model_not_found",
    })
    expect(server.status).toBe(0)
    expect(children.map(({ name, status, attributes }) => ({ name, status, attributes }))).toEqual([
      { name: "hold", status: 0, attributes: { "error.type": "model_not_found" } },
    ])
  })

  test("D22 of a token count has its attempt, and no money", async () => {
    provider.replyOnce(json(200, { input_tokens: 7 }))
    const answer = await fetch(`${gateway.url}/v1/messages/count_tokens`, {
      method: "POST",
      headers: {
        "x-api-key": account.key,
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        ...SAMPLED,
      },
      body: JSON.stringify({ model: MESSAGES, messages: [{ role: "user", content: CANARY }] }),
    })
    const { server, children } = await traceOf(await answered(answer))
    expect(server).toMatchObject({ name: "POST /v1/messages/count_tokens", trace_id: TRACE })
    expect(names(children)).toEqual(["count_tokens upstream-counter"])
    expect(lastRequest().traceparent).toBe(`00-${TRACE}-${children[0]?.span_id}-01`)
  })

  test("comes from a process that says who it is", async () => {
    const { server } = await traceOf(await answered(await call()))
    expect(server.resource).toMatchObject({
      "service.name": "edge",
      "service.version": expect.stringMatching(/^\d+\.\d+\.\d+$/),
      "process.pid": BigInt(process.pid),
      team: "acme",
    })
    expect(server.resource).not.toHaveProperty("tollgate.worker")
    expect(collector.posts[0]?.path).toBe("/v1/traces")
    expect(collector.posts[0]?.headers.get("api-key")).toBe("of-the-collector")
  })

  test("is named in the call's line of the log", async () => {
    const id = await answered(await call({}, SAMPLED))
    const lines = gateway.lines.map((line): { msg: string; request_id?: string; trace_id?: string } =>
      JSON.parse(line),
    )
    expect(lines.find(({ msg, request_id }) => msg === "call" && request_id === id)?.trace_id).toBe(TRACE)
  })
})

describe("D54 W3C Trace Context", () => {
  test("a client's trace is continued, and goes on to the provider: the attempt is its parent there", async () => {
    const id = await answered(await call({}, { ...SAMPLED, tracestate: "rojo=1,congo=t61" }))
    const { server, children } = await traceOf(id)
    expect(server).toMatchObject({
      trace_id: TRACE,
      parent_id: CALLER,
      tracestate: "rojo=1,congo=t61",
      flags: 0x301,
    })
    expect(children[1]).toMatchObject({ trace_id: TRACE, flags: 0x101 })
    expect(lastRequest()).toMatchObject({
      traceparent: `00-${TRACE}-${children[1]?.span_id}-01`,
      tracestate: "rojo=1,congo=t61",
    })
    expect(lastRequest()).not.toHaveProperty("baggage")
  })

  test("without one, or with an invalid one, a trace begins here", async () => {
    for (const headers of [
      {},
      { traceparent: `00-${TRACE.toUpperCase()}-${CALLER}-01`, tracestate: "a=b" },
    ]) {
      const { server, children } = await traceOf(await answered(await call({}, headers)))
      expect(server).toMatchObject({ parent_id: "", tracestate: "", flags: 0x101 })
      expect(server.trace_id).not.toBe(TRACE)
      expect(lastRequest().traceparent).toBe(`00-${server.trace_id}-${children[1]?.span_id}-01`)
      expect(lastRequest()).not.toHaveProperty("tracestate")
      expect(lastRequest()).not.toHaveProperty("baggage")
    }
  })

  test("each attempt has a parent of its own", async () => {
    const before = provider.requests.length
    provider.replyOnce(json(503, {}))
    const { children } = await traceOf(await answered(await call({}, SAMPLED)))
    const said = provider.requests.slice(before).map(({ headers }) => headers.traceparent)
    expect(said).toEqual(children.slice(1, 3).map(({ span_id }) => `00-${TRACE}-${span_id}-01`))
  })

  test("a client that does not record its trace is believed: nothing is exported, and its words go on as they are", async () => {
    const traceparent = `00-${TRACE.replace("4", "5")}-${CALLER}-00`
    const unseen = await answered(await call({}, { traceparent, tracestate: "a=b" }))
    expect(lastRequest()).toMatchObject({ traceparent, tracestate: "a=b" })
    await traceOf(await answered(await call()))
    expect(collector.spans.filter(({ attributes }) => attributes["tollgate.request_id"] === unseen)).toEqual(
      [],
    )
  })
})

test("D54 what is exported is counted, and only one request at a time goes to the collector", async () => {
  const read = async () => {
    const text = await gateway.metrics()
    return Number(/^tollgate_trace_spans_exported_total (\d+)$/m.exec(text)?.[1])
  }
  await Promise.all(Array.from({ length: 50 }, async () => traceOf(await answered(await call()))))
  await until(read, (count) => count === collector.spans.length)
  expect(collector.most_at_once).toBe(1)
})
