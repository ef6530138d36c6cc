import { describe, expect, test } from "bun:test"
import { json, sse } from "../support/provider.ts"
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
    const [call] = await stage.gateway.endedCalls(id)
    const exact_pico = BigInt(400 * prompt_bytes + 300) * BigInt(price_multiplier_bp)
    expect(Math.round(Number(call?.held) * 1e9)).toBe(Number((exact_pico + 9_999_999n) / 10_000_000n))
  })
})
