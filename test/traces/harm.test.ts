import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { patiently } from "../ledger/test-database.ts"
import { chat, startGateway, type TestGateway, untilIs } from "../support/gateway.ts"
import { chatWords, HELLO, sse, startProvider, usage } from "../support/provider.ts"
import { type Answer, startCollector } from "./collector.ts"
import { tracing } from "./tracing.ts"

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
const TRACEPARENT = `00-${TRACE}-00f067aa0ba902b7-01`

// A busy machine refuses calls, too.
patiently()
const provider = await startProvider()
provider.reply(async (exchange) => {
  const stream = exchange.request.body.includes('"stream":true')
  const answer = stream ? sse(chatWords("hello"), { usage: usage(10, 5) }) : HELLO
  await answer(exchange)
})
afterAll(() => provider.stop())

/** Sixty calls; each is answered whole, and the account pays for every one of them. */
async function sixtyCalls(gateway: TestGateway): Promise<void> {
  const { id, key } = await gateway.account("1")
  await Promise.all(
    Array.from({ length: 60 }, async (_, at) => {
      const answer = await chat(gateway, key, { stream: at % 2 === 1 })
      expect(answer.status).toBe(200)
      expect(await answer.text()).toContain(at % 2 === 1 ? "[DONE]" : "hello")
    }),
  )
  expect(await untilIs(() => gateway.balance(id), { held: "0" })).toMatchObject({ balance: "0.9982" })
  expect(await gateway.audit()).toMatchObject({ open_holds: 0, violations: [] })
}

async function counted(gateway: TestGateway, metric: string): Promise<number> {
  const text = await gateway.metrics()
  const samples = text.matchAll(new RegExp(`^${metric}(?:\\{.*\\})? (\\d+)$`, "gm"))
  return [...samples].reduce((sum, [, value]) => sum + Number(value), 0)
}

const SMALL = { OTEL_BSP_MAX_QUEUE_SIZE: "16", OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "8" }

describe("D54 no call is harmed by a collector", () => {
  const answers: [string, Answer | null][] = [
    ["that is not there", null],
    ["that never answers", () => new Promise<Response>(() => {})],
    ["that refuses", () => new Response("no", { status: 400 })],
    ["that is always busy", () => new Response("later", { status: 503, headers: { "retry-after": "3600" } })],
    ["that fails", () => new Response("oh", { status: 500 })],
  ]
  test.each(answers)("%s", async (_, answer) => {
    const collector = startCollector()
    if (answer === null) await collector.stop()
    else collector.reply(answer)
    const gateway = await startGateway(provider, {}, tracing(collector, SMALL))
    await sixtyCalls(gateway)
    const [exported, dropped] = await Promise.all([
      counted(gateway, "tollgate_trace_spans_exported_total"),
      counted(gateway, "tollgate_trace_spans_dropped_total"),
    ])
    expect(exported).toBe(0)
    expect(dropped).toBeGreaterThan(100)
    await gateway.stop()
    expect(gateway.lines.filter((line) => line.includes("trace export is failing"))).toHaveLength(1)
    await collector.stop()
  })
})

describe("D54 without traces of its own", () => {
  let gateway: TestGateway
  let key: string
  beforeAll(async () => {
    gateway = await startGateway(provider)
    key = (await gateway.account("1")).key
  })
  afterAll(() => gateway.stop())

  async function passedOn(headers: Record<string, string>) {
    const answer = await chat(
      gateway,
      key,
      {},
      {
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
      },
    )
    await answer.text()
    const { traceparent, tracestate, baggage } = provider.requests.at(-1)?.headers ?? {}
    const line = gateway.lines.find((text) => text.includes(answer.headers.get("x-request-id") ?? "-"))
    const { trace_id } = JSON.parse(line ?? "{}")
    return { traceparent, tracestate, baggage, trace_id }
  }

  test("D25 a client's trace goes on to the provider as it is, and into the log", async () => {
    expect(await passedOn({ traceparent: TRACEPARENT, tracestate: "a=b", baggage: "user=1" })).toEqual({
      traceparent: TRACEPARENT,
      tracestate: "a=b",
      baggage: undefined,
      trace_id: TRACE,
    })
  })

  test("D25 an invalid one, or none, goes nowhere", async () => {
    const nothing = { traceparent: undefined, tracestate: undefined, baggage: undefined, trace_id: undefined }
    expect(await passedOn({})).toEqual(nothing)
    expect(await passedOn({ traceparent: "made-up", tracestate: "a=b", baggage: "user=1" })).toEqual(nothing)
    expect(await passedOn({ tracestate: "a=b" })).toEqual(nothing)
    const wrong_state = await passedOn({ traceparent: TRACEPARENT, tracestate: "A b" })
    expect(wrong_state).toEqual({ ...nothing, traceparent: TRACEPARENT, trace_id: TRACE })
  })
})
