import { expect, test } from "bun:test"
import { printUsd } from "../../src/money.ts"
import { MESSAGE_STOP, messageDelta, messageStart, messageUsage, textBlock } from "../support/messages.ts"
import { chatChunk, chatCompletion, usageChunk } from "../support/provider.ts"
import { callOf, type OperationName, scriptOf, testCases } from "./stage.ts"

/** D1, D4, D87: cases of real providers through a real gateway: what the client saw, what was charged, what was noted. */

const stage = await testCases()

interface UsageCase {
  readonly want_nano: number
  /** Of an answer in JSON; of a stream its events. */
  readonly usage?: object
  readonly stream?: readonly object[]
  readonly content?: string
  readonly note?: string
  readonly model?: string
  readonly operation?: OperationName
}

const LARGE_NANO = 200_020_000
/** A prompt of so many tokens. */
const LARGE = "word ".repeat(80_004)

function used(prompt_tokens: number, completion_tokens: number, more: object = {}) {
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens, ...more }
}
const thinking = (reasoning_tokens: number) => ({ completion_tokens_details: { reasoning_tokens } })
const BEGIN = chatChunk({ role: "assistant", content: "hi" })
const UNCOUNTED = { prompt_tokens: 80_004, total_tokens: 80_005, ...thinking(1) }

const cases: Readonly<Record<string, UsageCase>> = {
  "Q1: reasoning beside completion, the total says so": {
    want_nano: 140_170_000,
    // 32 + 9 + 14,000 = 14,041
    usage: used(32, 9, { total_tokens: 14_041, ...thinking(14_000) }),
  },
  "Q1: reasoning inside completion, the total says so": {
    want_nano: 140_170_000,
    // 32 + 14,009 = 14,041
    usage: used(32, 14_009, thinking(14_000)),
  },
  "Q1: reasoning without a total stays inside": {
    want_nano: 1_080_000,
    // no third number to hold against
    usage: { prompt_tokens: 32, completion_tokens: 100, ...thinking(60) },
  },
  "Q2: a total that nothing explains is noted and not charged": {
    want_nano: 2_915_000,
    // an unknown provider: named on the receipt, not guessed
    usage: used(758, 102, { total_tokens: 1_725 }),
    note: "total_unexplained",
  },
  "Q2: the same from a provider whose total is known to hold its thinking": {
    want_nano: 11_565_000,
    // 1725 - 758
    usage: used(758, 102, { total_tokens: 1_725 }),
    model: "gemini",
  },
  "Q3: no completion count: the prompt is trusted": {
    want_nano: LARGE_NANO,
    // total - prompt = reasoning = 1
    usage: UNCOUNTED,
    content: "",
  },
  "Q3: the same as a stream": {
    want_nano: LARGE_NANO,
    // not an empty 200 of rule 6: a trusted prompt count is usage
    stream: [chatChunk({ role: "assistant" }), chatChunk({}, "length"), usageChunk(UNCOUNTED)],
  },
  "Q4: cache hits and misses at the top level": {
    want_nano: 800_000,
    // hits are part of the prompt
    usage: used(1_000, 10, { prompt_cache_hit_tokens: 800, prompt_cache_miss_tokens: 200 }),
  },
  "Q4: cached_tokens at the top level": {
    want_nano: 800_000,
    // part of the prompt
    usage: used(1_000, 10, { cached_tokens: 800 }),
  },
  "Q4: both spellings of the same": {
    want_nano: 800_000,
    // counted once
    usage: used(1_000, 10, { cached_tokens: 800, prompt_tokens_details: { cached_tokens: 800 } }),
  },
  "Q5: usage in the choice of the last chunk": {
    want_nano: 800_000,
    // the place differs, the words do not
    stream: [
      BEGIN,
      {
        choices: [
          { index: 0, delta: {}, finish_reason: "stop", usage: used(1_000, 10, { cached_tokens: 800 }) },
        ],
      },
    ],
  },
  "Q6: image output has its own price": {
    want_nano: 36_100_000,
    // price.image_output: 30.00; 1,120 of the 1,345
    usage: used(100, 1_345, { completion_tokens_details: { image_tokens: 1_120 } }),
  },
  "Q7: usage of a chat stream in two parts": {
    want_nano: 3_000_000,
    // a zero erases nothing that was known
    stream: [usageChunk(used(1_000, 0)), BEGIN, chatChunk({}, "stop"), usageChunk(used(0, 50))],
  },
  "Q7: a zero in a delta of messages erases nothing": {
    want_nano: 3_850_000,
    // message_start said 1,500
    operation: "messages",
    stream: [
      messageStart(messageUsage(1_500, 1)),
      ...textBlock(0, "hi"),
      messageDelta({ input_tokens: 0, output_tokens: 10 }),
      MESSAGE_STOP,
    ],
  },
  "Q9: cached larger than the prompt is beside it": {
    want_nano: 4_945_250,
    // 8 + 18,901 + 20 = 18,929
    usage: used(8, 20, { total_tokens: 18_929, prompt_tokens_details: { cached_tokens: 18_901 } }),
  },
  "Q10: cache writes without a split": {
    want_nano: 30_725_000,
    // part of the prompt
    usage: used(10_000, 10, {
      prompt_tokens_details: { cached_tokens: 0, cache_creation_input_tokens: 9_000 },
    }),
  },
  "Q11: a positive number nobody reads is named": {
    want_nano: 350_000,
    // receipt: unread ["odd_vendor_units.gpu_seconds"]
    usage: used(100, 10, { odd_vendor_units: { gpu_seconds: 7 } }),
    note: "usage_unread",
  },
}

test.each(Object.entries(cases))(
  "%s",
  async (_, { want_nano, usage, stream, operation = "chat", ...one }) => {
    const said = usage && chatCompletion(one.content ?? "hi", { usage })
    const events = operation === "chat" ? stream && [...stream, "[DONE]"] : stream
    const content = want_nano === LARGE_NANO ? LARGE : "Say hello."
    const { answer, call, balance } = await stage.run(
      callOf({
        operation,
        model: one.model ?? "default",
        body: {
          messages: [{ role: "user", content }],
          max_tokens: 20_000,
          ...(stream !== undefined && { stream: true }),
        },
        script: scriptOf(said, events),
      }),
    )
    expect(answer.status).toBe(200)
    const { charge, state, notes } = call
    expect({ charge, state, notes }).toEqual({
      charge: printUsd(BigInt(want_nano)),
      state: "settled",
      notes: one.note === undefined ? [] : [one.note],
    })
    expect(balance).toBe(printUsd(100_000_000_000n - BigInt(want_nano)))
    if (said !== undefined) expect(answer.json).toEqual(said)
    else if (operation === "chat") expect(answer.body).not.toContain("prompt_tokens")
  },
)
