import { expect, test } from "bun:test"
import { parseUsd, printUsd } from "../../src/money.ts"
import { chatSums, sums } from "../usage/sums.ts"
import { type CaseCall, callOf, cost, recordOf, scriptOf, testCases } from "./stage.ts"

/** D1, D3, D4, D6, D64, D66, D87: more of each kind of wrong quantity in an answer, through a real gateway. */

const stage = await testCases()

interface Row extends Omit<CaseCall, "script" | "body"> {
  readonly body?: object
  readonly usage?: object
  readonly answer?: object
  readonly stream?: readonly unknown[]
  readonly charge: string
  readonly notes?: readonly string[]
  /** What the receipt says besides. */
  readonly aside?: { unread?: string[]; unexplained_tokens?: number; provider_cost?: string }
}

/** What the account of each call has. */
const CREDIT_NANO = 100_000_000_000n
const ASKED = { messages: [{ role: "user", content: "Say hello." }], max_tokens: 20_000 }
const INPUT = { input: "Say hello.", max_output_tokens: 20_000 }

const choice = (fields: object) => ({ choices: [{ index: 0, ...fields }] })
const role = choice({ delta: { role: "assistant" }, finish_reason: null })
const says = (content: string) => choice({ delta: { content }, finish_reason: null })
const finish = choice({ delta: {}, finish_reason: "stop" })
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
const messageStart = (usage: object) => ({
  type: "message_start",
  message: { id: "m", type: "message", role: "assistant", model: "p", content: [], usage },
})
const messageEnd = (usage: object) => [
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "hi" } },
  { type: "content_block_stop", index: 0 },
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage },
  { type: "message_stop" },
]
const thought = (reasoning_tokens: number) => ({ completion_tokens_details: { reasoning_tokens } })

/** A prompt of 80,004 tokens, whose answer has no count of its output. */
const LARGE = { ...ASKED, messages: [{ role: "user", content: "word ".repeat(80_004) }] }
const UNCOUNTED = { prompt_tokens: 80_004, total_tokens: 80_005, ...thought(1) }
const TOP_LEVEL = { ...chatSums(1_000, 10, 1_010), cached_tokens: 800 }
const CACHED = cost({ input: 200, cached: 800, output: 10 })

const ROWS: Readonly<Record<string, Row>> = {
  "Q1 reasoning beside completion, the total says so": {
    usage: { ...chatSums(32, 9, 14_041), ...thought(14_000) },
    charge: cost({ input: 32, output: 14_009 }),
  },
  "Q1 reasoning inside completion, the total says so": {
    usage: { ...chatSums(32, 14_009, 14_041), ...thought(14_000) },
    charge: cost({ input: 32, output: 14_009 }),
  },
  "Q1 reasoning without a total stays inside": {
    usage: { prompt_tokens: 32, completion_tokens: 100, ...thought(60) },
    charge: cost({ input: 32, output: 100 }),
  },
  "Q2 a total that nothing explains is noted and not charged": {
    usage: chatSums(758, 102, 1_725),
    charge: cost({ input: 758, output: 102 }),
    notes: ["total_unexplained"],
    aside: { unexplained_tokens: 865 },
  },
  "Q2 the same from a provider whose total is known to hold its thinking": {
    usage: chatSums(758, 102, 1_725),
    model: "gemini",
    charge: cost({ input: 758, output: 967 }),
  },
  "Q3 no completion count: the prompt is trusted": {
    body: LARGE,
    answer: { ...choice({ message: { content: "" }, finish_reason: "length" }), usage: UNCOUNTED },
    charge: cost({ input: 80_004, output: 1 }),
  },
  "Q3 the same as a stream, which is not an empty one (rule 6)": {
    body: LARGE,
    stream: [role, choice({ delta: {}, finish_reason: "length" }), tells(UNCOUNTED), "[DONE]"],
    charge: cost({ input: 80_004, output: 1 }),
  },
  "Q4 cache hits and misses at the top level": {
    usage: { ...chatSums(1_000, 10, 1_010), prompt_cache_hit_tokens: 800, prompt_cache_miss_tokens: 200 },
    charge: CACHED,
  },
  "Q4 cached_tokens at the top level": { usage: TOP_LEVEL, charge: CACHED },
  "Q4 both spellings of the same": {
    usage: { ...TOP_LEVEL, prompt_tokens_details: { cached_tokens: 800 } },
    charge: CACHED,
  },
  "Q5 usage in the choice of the last chunk": {
    stream: [says("hi"), choice({ delta: {}, finish_reason: "stop", usage: TOP_LEVEL }), "[DONE]"],
    charge: CACHED,
  },
  "Q6 image output has its own price": {
    usage: { ...chatSums(100, 1_345, 1_445), completion_tokens_details: { image_tokens: 1_120 } },
    charge: cost({ input: 100, output: 225, images: 1_120 }),
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
  "Q7 a zero in a delta of messages erases nothing": {
    operation: "messages",
    stream: [
      messageStart({ input_tokens: 1_500, output_tokens: 1 }),
      ...messageEnd({ input_tokens: 0, output_tokens: 10 }),
    ],
    charge: cost({ input: 1_500, output: 10 }),
  },
  "Q9 cached larger than the prompt is beside it": {
    usage: { ...chatSums(8, 20, 18_929), prompt_tokens_details: { cached_tokens: 18_901 } },
    charge: cost({ input: 8, cached: 18_901, output: 20 }),
  },
  "Q10 cache writes without a split": {
    usage: {
      ...chatSums(10_000, 10, 10_010),
      prompt_tokens_details: { cached_tokens: 0, cache_creation_input_tokens: 9_000 },
    },
    charge: cost({ input: 1_000, written: 9_000, output: 10 }),
  },
  "Q11 a positive number nobody reads is named": {
    usage: { ...chatSums(100, 10, 110), odd_vendor_units: { gpu_seconds: 7 } },
    charge: cost({ input: 100, output: 10 }),
    notes: ["usage_unread"],
    aside: { unread: ["odd_vendor_units.gpu_seconds"] },
  },
  "Q1 all of the output is reasoning, beside 0": {
    stream: [role, says("hi"), finish, tells({ ...chatSums(7, 0, 519), ...thought(512) }), "[DONE]"],
    charge: cost({ input: 7, output: 512 }),
  },
  "Q1 reasoning beside, cached inside": {
    usage: { ...chatSums(216, 3, 559), prompt_tokens_details: { cached_tokens: 100 }, ...thought(340) },
    charge: cost({ input: 116, cached: 100, output: 343 }),
  },
  "Q2 thinking only in the total of a stream": {
    model: "gemini",
    stream: [says("hi"), { ...finish, usage: chatSums(1200, 40, 2048) }, "[DONE]"],
    charge: cost({ input: 1200, output: 848 }),
  },
  "Q2 prompts of tools that only the total has": {
    operation: "responses",
    body: INPUT,
    answer: response(sums(100, 20, 500)),
    charge: cost({ input: 100, output: 20 }),
    notes: ["total_unexplained"],
    aside: { unexplained_tokens: 380 },
  },
  "Q3 no output count in a response": {
    operation: "responses",
    body: INPUT,
    answer: response({ input_tokens: 900, total_tokens: 1000 }),
    charge: cost({ input: 900, output: 100 }),
  },
  "Q3 no output count and no total is invalid": {
    usage: { prompt_tokens: 900 },
    charge: cost({ output: 1 }),
  },
  "Q4 cached tokens of Databricks inside the prompt": {
    usage: { ...chatSums(5000, 12, 5012), cache_read_input_tokens: 4096, cache_creation_input_tokens: 512 },
    charge: cost({ input: 392, cached: 4096, written: 512, output: 12 }),
  },
  "Q4 cached tokens at the top level without a total": {
    stream: [
      says("hi"),
      finish,
      tells({ prompt_tokens: 640, completion_tokens: 2, cached_tokens: 512 }),
      "[DONE]",
    ],
    charge: cost({ input: 128, cached: 512, output: 2 }),
  },
  "Q5 usage only in x_groq": {
    stream: [says("hi"), { ...finish, x_groq: { id: "r", usage: chatSums(31, 2, 33) } }, "[DONE]"],
    charge: cost({ input: 31, output: 2 }),
  },
  "Q5 the words of another family": {
    usage: { input_tokens: 400, output_tokens: 9, input_tokens_details: { cached_tokens: 300 } },
    charge: cost({ input: 100, cached: 300, output: 9 }),
  },
  "Q6 images beside reasoning, in a stream": {
    stream: [
      says("hi"),
      finish,
      tells({
        ...chatSums(20, 1500, 1520),
        completion_tokens_details: { image_tokens: 1290, reasoning_tokens: 200 },
      }),
      "[DONE]",
    ],
    charge: cost({ input: 20, output: 210, images: 1290 }),
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
  "Q7 usage in three parts": {
    stream: [
      tells({ prompt_tokens: 1000, completion_tokens: 0 }),
      says("hello there"),
      { ...finish, usage: { prompt_tokens: 0, completion_tokens: 30 } },
      tells({ prompt_tokens: 0, completion_tokens: 50 }),
      "[DONE]",
    ],
    charge: cost({ input: 1000, output: 50 }),
  },
  "Q7 a zero beside the real count of cached tokens erases": {
    operation: "messages",
    stream: [
      messageStart({ input_tokens: 1500, output_tokens: 1 }),
      ...messageEnd({ input_tokens: 0, cache_read_input_tokens: 1500, output_tokens: 10 }),
    ],
    charge: cost({ cached: 1500, output: 10 }),
  },
  "Q7 zeros of cached tokens erase nothing": {
    operation: "messages",
    stream: [
      messageStart({ input_tokens: 4, cache_read_input_tokens: 5000, output_tokens: 1 }),
      ...messageEnd({
        input_tokens: 0,
        cache_read_input_tokens: 0,
        cache_creation_input_tokens: 0,
        output_tokens: 6,
      }),
    ],
    charge: cost({ input: 4, cached: 5000, output: 6 }),
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
  "Q9 cached larger than the prompt without a total is clamped": {
    usage: { prompt_tokens: 8, completion_tokens: 20, prompt_tokens_details: { cached_tokens: 18_901 } },
    charge: cost({ cached: 8, output: 20 }),
    notes: ["cached_clamped"],
  },
  "Q9 reads and writes beside the prompt, as the total says": {
    usage: { ...chatSums(10, 5, 1115), cache_read_input_tokens: 900, cache_creation_input_tokens: 200 },
    charge: cost({ input: 10, cached: 900, written: 200, output: 5 }),
  },
  "Q10 writes under another name": {
    usage: {
      ...chatSums(3000, 5, 3005),
      prompt_tokens_details: { cached_tokens: 100, cache_creation_tokens: 2800 },
    },
    charge: cost({ input: 100, cached: 100, written: 2800, output: 5 }),
  },
  "Q10 audio from the cache": {
    model: "with-tools",
    usage: {
      ...chatSums(1_000, 5, 1_005),
      prompt_tokens_details: {
        cached_tokens: 700,
        audio_tokens: 600,
        cached_tokens_details: { audio_tokens: 500, text_tokens: 200 },
      },
    },
    // 300 fresh, of which 100 are audio; 700 cached, of which 500 are audio.
    charge: printUsd(200n * 2_500n + 100n * 40_000n + 200n * 250n + 500n * 400n + 5n * 10_000n),
  },
  "Q10 writes of a response": {
    operation: "responses",
    body: INPUT,
    answer: response({
      ...sums(3300, 50, 3350),
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 3207 },
    }),
    charge: cost({ input: 93, written: 3207, output: 50 }),
  },
  "Q11 citations": {
    usage: { ...chatSums(33, 9, 42), citation_tokens: 20_016 },
    charge: cost({ input: 33, output: 9 }),
    notes: ["usage_unread"],
    aside: { unread: ["citation_tokens"] },
  },
  "Q11 seconds of audio, deep in a list": {
    usage: {
      ...chatSums(33, 9, 42),
      media: { clips: [{ seconds: 0 }, { seconds: 30 }] },
    },
    charge: cost({ input: 33, output: 9 }),
    notes: ["usage_unread"],
    aside: { unread: ["media.clips[].seconds"] },
  },
  "Q12 ticks of a dollar, which would have shown Q1": {
    stream: [
      says("hi"),
      finish,
      tells({
        ...chatSums(12, 2, 354),
        ...thought(340),
        cost_in_usd_ticks: 1_721_250,
      }),
      "[DONE]",
    ],
    charge: cost({ input: 12, output: 342 }),
    aside: { provider_cost: "0.000172125" },
  },
  "Q12 a cost in parts, and in an exponent": {
    operation: "responses",
    body: INPUT,
    answer: response({
      ...sums(8, 4, 12),
      cost: { input_tokens_cost: 1e-6, total_cost: 2.5e-6 },
    }),
    charge: cost({ input: 8, output: 4 }),
    aside: { provider_cost: "0.0000025" },
  },
}

test.each(Object.entries(ROWS))("what an answer cost: %s", async (_, row) => {
  const { stream, operation = "chat", model = "default" } = row
  const said = row.answer ?? completion(row.usage)
  const body = { ...(row.body ?? ASKED), ...(stream !== undefined && { stream: true }) }
  const sides = await stage.run(callOf({ operation, model, body, script: scriptOf(said, stream) }))
  expect(recordOf(sides)).toEqual({ charge: row.charge, notes: row.notes ?? [], state: "settled" })
  expect(sides).toMatchObject({ held: "0", balance: printUsd(CREDIT_NANO - (parseUsd(row.charge) ?? 0n)) })
  const { unread, unexplained_tokens, provider_cost } = sides.call
  const nothing = { unread: [], unexplained_tokens: 0, provider_cost: null }
  expect({ unread, unexplained_tokens, provider_cost }).toEqual({ ...nothing, ...row.aside })
  expect(sides.answer.status).toBe(200)
  if (row.usage !== undefined) expect(sides.answer.json).toEqual(said)
  else if (stream !== undefined && operation === "chat")
    expect(sides.answer.body).not.toContain('"prompt_tokens"')
  expect(sides.requests).toHaveLength(1)
})
