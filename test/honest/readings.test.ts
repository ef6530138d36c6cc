import { describe, expect, test } from "bun:test"
import { parseUsd, printUsd } from "../../src/money.ts"
import { json, sse } from "../support/provider.ts"
import { postJson } from "../support/request.ts"
import { chatSums, sums } from "../usage/sums.ts"
import { dataUrl, png, wav } from "./files.ts"
import { type CaseCall, callOf, cost, recordOf, scriptOf, testCases } from "./stage.ts"

/** D1, D3, D4, D5, D6, D8, D66, D69, D87: quantities in an answer that only a whole gateway can get wrong. */

const stage = await testCases()

interface Row extends Omit<CaseCall, "script" | "body"> {
  readonly body?: object
  readonly usage?: object
  readonly answer?: object
  readonly stream?: readonly unknown[]
  readonly charge: string
  readonly notes?: readonly string[]
  /** What the receipt says besides. */
  readonly unexplained?: number
}

/** What the account of each call has. */
const CREDIT_NANO = 100_000_000_000n
const ASKED = { messages: [{ role: "user", content: "Say hello." }], max_tokens: 20_000 }
const INPUT = { input: "Say hello.", max_output_tokens: 20_000 }

const choice = (fields: object) => ({ choices: [{ index: 0, ...fields }] })
const role = choice({ delta: { role: "assistant" }, finish_reason: null })
const says = (content: string) => choice({ delta: { content }, finish_reason: null })
const STOP = { delta: {}, finish_reason: "stop" }
const finish = choice(STOP)
const tells = (usage: object) => ({ choices: [], usage })
const completion = (usage?: object) => ({
  id: "x",
  object: "chat.completion",
  ...choice({ message: { role: "assistant", content: "hi" }, finish_reason: "stop" }),
  ...(usage !== undefined && { usage }),
})
const response = (usage: object) => ({
  id: "r",
  object: "response",
  status: "completed",
  output: [{ type: "message", id: "m", role: "assistant", content: [{ type: "output_text", text: "hi" }] }],
  usage,
})
const thought = (reasoning_tokens: number) => ({ completion_tokens_details: { reasoning_tokens } })

/** A prompt of 80,004 tokens, whose answer has no count of its output. */
const LARGE = { ...ASKED, messages: [{ role: "user", content: "word ".repeat(80_004) }] }
const UNCOUNTED = { prompt_tokens: 80_004, total_tokens: 80_005, ...thought(1) }

const ROWS: Readonly<Record<string, Row>> = {
  "Q2 a total that nothing explains is noted and not charged": {
    usage: chatSums(758, 102, 1_725),
    charge: cost({ input: 758, output: 102 }),
    notes: ["total_unexplained"],
    unexplained: 865,
  },
  "Q2 the same from a provider whose total is known to hold its thinking": {
    usage: chatSums(758, 102, 1_725),
    model: "gemini",
    charge: cost({ input: 758, output: 967 }),
  },
  "Q3 the same as a stream, which is not an empty one (rule 6)": {
    body: LARGE,
    stream: [role, choice({ delta: {}, finish_reason: "length" }), tells(UNCOUNTED), "[DONE]"],
    charge: cost({ input: 80_004, output: 1 }),
  },
  "Q7 usage of a chat stream in two parts": {
    stream: [
      tells(chatSums(1_000, 0, 1_000)),
      says("hello there"),
      finish,
      tells(chatSums(0, 50, 50)),
      "[DONE]",
    ],
    charge: cost({ input: 1_000, output: 50 }),
  },
  "Q1 all of the output is reasoning, beside 0": {
    stream: [role, says("hi"), finish, tells({ ...chatSums(7, 0, 519), ...thought(512) }), "[DONE]"],
    charge: cost({ input: 7, output: 512 }),
  },
  "Q6 images of a response that have no price": {
    operation: "responses",
    model: "without-images",
    body: INPUT,
    answer: response({
      ...sums(20, 1300, 1320),
      output_tokens_details: { image_tokens: 1290 },
    }),
    charge: cost({ input: 20, output: 1300 }),
    notes: ["unpriced"],
  },
  "Q8 a text in two places counts once": {
    stream: [
      choice({ text: "x".repeat(40), delta: { content: "x".repeat(40) }, finish_reason: null }),
      finish,
      "[DONE]",
    ],
    charge: cost({ output: 10 }),
  },
  "Q8 a last frame with the whole message counts once": {
    stream: [
      says("y".repeat(24)),
      says("y".repeat(24)),
      choice({ message: { role: "assistant", content: "y".repeat(48) }, finish_reason: "stop" }),
      "[DONE]",
    ],
    charge: cost({ output: 12 }),
  },
}

test.each(Object.entries(ROWS))("what an answer cost: %s", async (_, row) => {
  const { stream, operation = "chat", model = "default" } = row
  const said = row.answer ?? completion(row.usage)
  const body = { ...(row.body ?? ASKED), ...(stream !== undefined && { stream: true }) }
  const sides = await stage.run(callOf({ operation, model, body, script: scriptOf(said, stream) }))
  expect(recordOf(sides)).toEqual({ charge: row.charge, notes: row.notes ?? [], state: "settled" })
  expect(sides).toMatchObject({ held: "0", balance: printUsd(CREDIT_NANO - (parseUsd(row.charge) ?? 0n)) })
  expect(sides.call.unexplained_tokens).toBe(row.unexplained ?? 0)
  expect(sides.answer.status).toBe(200)
  if (row.usage !== undefined) expect(sides.answer.json).toEqual(said)
  else if (stream !== undefined && operation === "chat")
    expect(sides.answer.body).not.toContain('"prompt_tokens"')
  expect(sides.requests).toHaveLength(1)
})

const HELLO = { messages: [{ role: "user", content: "hi" }], max_tokens: 1_000 }
const USAGE = { prompt_tokens: 40, completion_tokens: 7, total_tokens: 47 }
const at = (index: number, fields: object) => ({ choices: [{ index, finish_reason: null, ...fields }] })

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
  ["one choice of two", 2, [says("hi"), finish, tells(USAGE)]],
  [
    "two choices of three",
    3,
    [says("hi"), at(1, { delta: { content: "ho" } }), at(1, STOP), finish, tells(USAGE)],
  ],
])("Q17 final usage after all choices that began is the end: %s", async (_, n, events) => {
  const { answer, call } = await stage.run(
    callOf({ body: { ...HELLO, stream: true, n }, script: sse(events, { done: false }) }),
  )
  const { charge, ending, failure } = call
  expect({ charge, ending, failure }).toEqual({
    charge: cost({ input: 40, output: 7 }),
    ending: "completed",
    failure: null,
  })
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
    stage.provider.replyOnce(json(200, completion(USAGE)))
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
