import { describe, expect, test } from "bun:test"
import { until } from "../support/gateway.ts"
import { json, type Script, sse, sseEvent } from "../support/provider.ts"
import { postJson } from "../support/request.ts"
import { dataUrl, png, wav } from "./files.ts"
import { callOf, cost, testCases } from "./stage.ts"

/** D5, D6, D8, D9, D24, D69, D70: more of each kind of wrong quantity in a delivery, through a real gateway. */

const stage = await testCases()

const HELLO = { messages: [{ role: "user", content: "hi" }], max_tokens: 1_000 }
const STREAM = { ...HELLO, stream: true }
const USAGE = { prompt_tokens: 40, completion_tokens: 7, total_tokens: 47 }
const CHARGE = cost({ input: 40, output: 7 })
const choice = (fields: object, index = 0) => ({ choices: [{ index, ...fields }] })
const says = (content: string, index = 0) => choice({ delta: { content }, finish_reason: null }, index)
const finish = (index = 0) => choice({ delta: {}, finish_reason: "stop" }, index)
const usageChunk = { choices: [], usage: USAGE }
const completion = (rest: object) => ({
  object: "chat.completion",
  ...choice({ message: { role: "assistant", content: "hello there" }, finish_reason: "stop" }),
  ...rest,
})

describe("Q13 a cheaper service tier needs the provider's word", () => {
  const [input, output] = [2_500 * 40, 10_000 * 7]
  test.each<[asked: string, said: object, nano: number]>([
    ["flex", {}, input + output],
    ["flex", { service_tier: "flex" }, (input + output) / 2],
    ["flex", { service_tier: "default" }, input + output],
    ["priority", {}, 2 * (input + output)],
    ["priority", { service_tier: "default" }, input + output],
  ])("%s asked, %p said", async (service_tier, said, nano) => {
    const { call } = await stage.run(
      callOf({
        model: "tiered",
        body: { ...HELLO, service_tier },
        script: json(200, completion({ ...said, usage: USAGE })),
      }),
    )
    expect(Math.round(Number(call.charge) * 1e9)).toBe(nano)
  })
})

test.each([
  ["a picture", dataUrl("image/png", Buffer.concat([png(64, 64), Buffer.alloc(300_000)]))],
  ["a sound", dataUrl("audio/wav", wav(30))],
])("Q14 media among texts that are embedded: %s", async (_, input) => {
  const script = json(200, { object: "list", data: [{ object: "embedding", index: 0, embedding: [0.5] }] })
  const { call } = await stage.run(callOf({ operation: "embeddings", body: { input }, script }))
  // 4,096 tokens for the medium, and the text around its data.
  const around = input.indexOf(",") + 3
  expect({ charge: call.charge, basis: call.basis }).toEqual({
    charge: cost({ input: Math.floor((4_096 + around) / 4) }),
    basis: "estimate",
  })
})

describe("Q16 usage and costs that nobody asked for do not pass", () => {
  const costly = { ...USAGE, cost: 0.00012345, cost_details: { upstream_inference_cost: 0.0001 } }
  const streams: Readonly<Record<string, readonly object[]>> = {
    "beside an empty delta": [finish(), { ...choice({ delta: {} }), usage: costly }],
    "beside the finish_reason": [{ ...finish(), usage: costly }],
    "within the choice": [choice({ delta: {}, finish_reason: "stop", usage: costly })],
    "in x_groq": [{ ...finish(), x_groq: { id: "q", usage: costly } }],
  }
  test.each(Object.entries(streams))("%s", async (_, events) => {
    const script = sse([says("hello there"), ...events])
    const { answer, call } = await stage.run(callOf({ body: STREAM, script }))
    expect(call.charge).toBe(CHARGE)
    expect(answer.body).toContain('"finish_reason":"stop"')
    expect(answer.body).not.toMatch(/prompt_tokens|cost/)
  })

  test("asked for, the usage passes without the provider's cost", async () => {
    const script = sse([says("hi"), { ...finish(), usage: costly }])
    const body = { ...STREAM, stream_options: { include_usage: true } }
    const { answer } = await stage.run(callOf({ body, script }))
    expect(answer.body).toContain('"prompt_tokens":40')
    expect(answer.body).not.toContain("cost")
  })

  test("nor in JSON", async () => {
    const script = json(200, completion({ usage: costly }))
    const { answer, call } = await stage.run(callOf({ body: HELLO, script }))
    expect(call.charge).toBe(CHARGE)
    expect(answer.json).toEqual(completion({ usage: USAGE }))
  })
})

test.each<[what: string, n: number, events: readonly object[]]>([
  ["one choice of two", 2, [says("hi"), finish(), usageChunk]],
  ["two choices of three", 3, [says("hi"), says("ho", 1), finish(1), finish(), usageChunk]],
])("Q17 final usage after all choices that began is the end: %s", async (_, n, events) => {
  const { answer, call } = await stage.run(
    callOf({ body: { ...STREAM, n }, script: sse(events, { done: false }) }),
  )
  const { charge, ending, failure } = call
  expect({ charge, ending, failure }).toEqual({ charge: CHARGE, ending: "completed", failure: null })
  expect(answer.body).toEndWith("data: [DONE]\n\n")
  expect(answer.body).not.toContain("error")
})

describe("Q18 answers over limits.response", () => {
  const large = JSON.stringify(
    completion({ usage: USAGE, choices: [{ index: 0, message: { content: "x".repeat(90_000) } }] }),
  )
  test.each<[what: string, body: object, text: string, record: { charge: string; notes: string[] }]>([
    ["whole, to a JSON call", HELLO, large, { charge: CHARGE, notes: ["response_too_large"] }],
    ["whole, to a stream", STREAM, large, { charge: CHARGE, notes: ["response_too_large"] }],
    ["truncated, to a JSON call", HELLO, large.slice(0, -2), { charge: "0", notes: [] }],
    ["truncated, to a stream", STREAM, large.slice(0, -2), { charge: "0", notes: [] }],
  ])("%s", async (_, body, text, record) => {
    const { call } = await stage.run(callOf({ body, script: json(200, text) }))
    expect({ charge: call.charge, notes: call.notes }).toEqual(record)
  })
})

describe("Q19 a hold with a margin is rounded once", () => {
  const prompt_bytes = Buffer.byteLength(JSON.stringify(HELLO.messages))
  test.each([
    ["1.1", 11_000],
    ["1.5", 15_000],
  ])("%s", async (margin, price_multiplier_bp) => {
    const { id, key } = await stage.gateway.account("1")
    await stage.gateway.admin("PATCH", `/accounts/${id}`, { price_multiplier: margin })
    stage.provider.replyOnce(json(200, completion({ usage: USAGE })))
    const response = await postJson(`${stage.gateway.url}/v1/chat/completions`, key, {
      model: "odd-price",
      ...HELLO,
      max_tokens: 1,
    })
    expect(response.status).toBe(200)
    const [call] = await until(
      () => stage.gateway.calls(`?account=${id}`),
      (calls) => calls[0]?.state === "settled",
    )
    const exact_pico = BigInt(400 * prompt_bytes + 300) * BigInt(price_multiplier_bp)
    expect(Math.round(Number(call?.held) * 1e9)).toBe(Number((exact_pico + 9_999_999n) / 10_000_000n))
  })
})

describe("R7 leaving one event before the end costs what staying costs", () => {
  const prompt = png(64, 64).toString("base64").repeat(700)
  const usage = { prompt_tokens: 28_000, completion_tokens: 16_000, total_tokens: 44_000 }
  const ends: Readonly<Record<string, readonly object[]>> = {
    "a usage chunk": [finish(), { choices: [], usage }],
    "usage beside the finish_reason": [{ ...finish(), usage }],
    "usage in the choice": [choice({ delta: {}, finish_reason: "stop", usage })],
  }
  test.each(Object.entries(ends))("%s", async (_, events) => {
    const left = Promise.withResolvers<void>()
    const script: Script = async (exchange) => {
      await exchange.head(200, { "content-type": "text/event-stream" })
      await exchange.chunk(sseEvent(says("hello there")))
      await left.promise
      for (const event of events) await exchange.chunk(sseEvent(event))
      await exchange.chunk("data: [DONE]\n\n")
      await exchange.end()
    }
    const body = { ...STREAM, messages: [{ role: "user", content: prompt }], max_tokens: 20_000 }
    const running = await stage.begin(callOf({ body, script }))
    await running.client.received("hello there")
    running.client.leave()
    left.resolve()
    const { call } = await running.sidesOnceClosed()
    expect({ charge: call.charge, basis: call.basis }).toEqual({
      charge: cost({ input: 28_000, output: 16_000 }),
      basis: "usage",
    })
  })
})
