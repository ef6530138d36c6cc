import { describe, expect, test } from "bun:test"
import { ceilToNano, type Price } from "../../src/money.ts"
import { linesOf, priceVerdict } from "../../src/settlement/price.ts"
import { readUsage } from "../../src/usage/reading.ts"
import type { Note } from "../../src/wire/call.ts"
import { priceOf } from "../support/price.ts"
import { settledBy } from "./terms.ts"

/** D60: every kind of token at its own price, none of them twice, and none in silence. */

const plain: Price = priceOf(1_000n, 100n, 4_000n)
const card: Price = {
  ...plain,
  buckets: {
    cache_write: 1_250n,
    cache_write_1h: 2_000n,
    reasoning: 3_000n,
    audio_input: 16_000n,
    audio_output: 64_000n,
    image_input: 2_500n,
    web_search: 10_000_000_000n,
  },
}

function verdict(fields: object, prompt_tokens = 100, completion_tokens = 50) {
  const reading = readUsage({ prompt_tokens, completion_tokens, ...fields })
  if (reading.state !== "valid") throw new Error("the usage of a test is not valid")
  return settledBy({ reported: reading.usage, notes: reading.notes })
}

const prompt = (details: object) => ({ prompt_tokens_details: details })
const completion = (details: object) => ({ completion_tokens_details: details })
const AMOUNT = 10n ** 12n

/** What each kind costs is compared with a model of its own in `rate-card.test.ts`. */
describe("D60 a usage is charged bucket by bucket", () => {
  // Without any bucket: 100 x 1 + 50 x 4 = 300 nano-USD.
  const rows: [string, object, Price, charge_nano: bigint, Note[]][] = [
    [
      "cached tokens first, then each bucket as far as there are tokens",
      prompt({ cached_tokens: 90, cache_write_tokens: 8, audio_tokens: 5 }),
      card,
      // 90 x 0.1 + 8 x 1.25 + 2 x 16 + 200
      251n,
      ["details_clamped"],
    ],
    ["more reasoning than output", completion({ reasoning_tokens: 60 }), card, 250n, ["details_clamped"]],
    [
      "more searches than are believed",
      { num_search_queries: 1_001 },
      card,
      10_000_000_300n,
      ["details_clamped"],
    ],
    ["a write without a price is input", prompt({ cache_write_tokens: 40 }), plain, 300n, []],
    ["reasoning without a price is output", completion({ reasoning_tokens: 60 }), plain, 300n, []],
    ["audio without a price is noted", prompt({ audio_tokens: 10 }), plain, 300n, ["unpriced"]],
    ["spoken answers without a price are noted", completion({ audio_tokens: 10 }), plain, 300n, ["unpriced"]],
    ["images without a price are noted", prompt({ image_tokens: 10 }), plain, 300n, ["unpriced"]],
    ["searches without a price are noted", { num_search_queries: 1 }, plain, 300n, ["unpriced"]],
    ["no searches without a price are nothing", { num_search_queries: 0 }, plain, 300n, []],
    ["a free model is free of everything", prompt({ audio_tokens: 10 }), priceOf(0n, 0n, 0n), 0n, []],
  ]
  test.each(rows)("%s", (_, fields, price, charge_nano, notes) => {
    const priced = priceVerdict(verdict(fields), price, AMOUNT)
    expect([priced.charge_nano, priced.notes]).toEqual([charge_nano, notes])
    const lines = linesOf(priced.usage ?? { prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0 }, price)
    expect(ceilToNano(lines.reduce((sum, { cost_pico }) => sum + cost_pico, 0n))).toBe(charge_nano)
    for (const { count, price_pico, cost_pico } of lines) expect(BigInt(count) * price_pico).toBe(cost_pico)
  })

  test("only what the price names is recorded", () => {
    const reported = verdict({ ...completion({ reasoning_tokens: 20 }), ...prompt({ audio_tokens: 3 }) })
    expect(priceVerdict(reported, plain, AMOUNT).usage).toEqual({
      prompt_tokens: 100,
      cached_tokens: 0,
      completion_tokens: 50,
    })
    expect(priceVerdict(reported, card, AMOUNT).usage?.buckets).toEqual({ reasoning: 20, audio_input: 3 })
  })

  test("what is estimated on top is plain output, beside the buckets of what was reported", () => {
    const reported = verdict(completion({ reasoning_tokens: 50 }))
    const partial = { ...reported, estimated: { prompt_tokens: 0, completion_tokens: 10 } }
    expect(priceVerdict(partial, card, AMOUNT).charge_nano).toBe(100n + 150n + 40n)
    // Only one of the ten tokens fits.
    expect(priceVerdict(partial, card, 255n).charge_nano).toBe(254n)
  })
})

describe("D60 a search that was asked for and is not counted is one", () => {
  test.each([
    ["not counted", {}, 10_000_300n, ["searches_estimated"]],
    ["counted", { num_search_queries: 2 }, 20_000_300n, []],
    ["counted as none", { num_search_queries: 0 }, 300n, []],
  ])("%s", (_, fields, charge_nano, notes) => {
    const priced = priceVerdict(verdict(fields), card, AMOUNT, 1)
    expect([priced.charge_nano, priced.notes as readonly string[]]).toEqual([charge_nano, notes])
  })

  test("without a price there is nothing to charge, and nothing where the call is free", () => {
    expect(priceVerdict(verdict({}), plain, AMOUNT, 1)).toMatchObject({ charge_nano: 300n, notes: [] })
    expect(priceVerdict(verdict({}, 0, 0), card, AMOUNT, 1).charge_nano).toBe(0n)
  })
})
