import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { ceilToNano, type Price } from "../../src/money.ts"
import type { Verdict } from "../../src/settlement/decide.ts"
import { costPico, priceVerdict } from "../../src/settlement/price.ts"
import type { Note } from "../../src/wire/call.ts"
import { MAX_TOKENS, type Usage } from "../../src/wire/usage.ts"
import { priceOf } from "../support/price.ts"
import { settledBy } from "./terms.ts"

/** USD 0.25, 0.025 and 2 per 1M tokens: 0.25, 0.025 and 2 nano a thousand tokens. */
const price: Price = priceOf(250_000n, 25_000n, 2_000_000n)
const free: Price = priceOf(0n, 0n, 0n)

type Triple = [prompt: number, cached: number, completion: number]
const usageOf = ([prompt_tokens, cached_tokens, completion_tokens]: Triple): Usage => ({
  prompt_tokens,
  cached_tokens,
  completion_tokens,
})

function settled(
  reported: Triple | null,
  prompt_tokens = 0,
  completion_tokens = 0,
  notes: Note[] = [],
): Verdict {
  const estimated = { prompt_tokens, completion_tokens }
  return settledBy({ basis: "partial", reported: reported && usageOf(reported), estimated, notes })
}

const THREE_SEARCHES = settled([9, 0, 2], 0, 3)

describe("a verdict is priced exactly, and rounded up once", () => {
  const rows: [string, Verdict, Price, amount_nano: bigint, charge_nano: bigint, Triple, Note[]][] = [
    ["a free model costs nothing", settled([9, 4, 2]), free, 1n, 0n, [9, 4, 2], []],
    [
      "the most usage at the highest price, exactly",
      settled([MAX_TOKENS, 0, MAX_TOKENS]),
      priceOf(999_999_999_999n, 0n, 999_999_999_999n),
      10n ** 20n,
      199_999_999_999_800_000n,
      [MAX_TOKENS, 0, MAX_TOKENS],
      [],
    ],
    ["D6 an estimate with the prompt's", settled(null, 50, 3), price, 20_000n, 18_500n, [50, 0, 3], []],
    ["D8 usage and later text", THREE_SEARCHES, price, 20_000n, 12_250n, [9, 0, 5], []],
    [
      "notes are kept",
      settled([9, 0, 2], 0, 0, ["cached_clamped"]),
      price,
      9_999n,
      6_250n,
      [9, 0, 2],
      ["cached_clamped"],
    ],

    ["D6 the prompt's estimate first", settled(null, 50, 3), price, 15_000n, 14_500n, [50, 0, 1], []],
    ["D6 of the prompt's as much as fits", settled(null, 50, 3), price, 1_000n, 1_000n, [4, 0, 0], []],
    ["D6 later text as far as it fits", THREE_SEARCHES, price, 11_000n, 10_250n, [9, 0, 4], []],
    ["D6 no room is left for later text", THREE_SEARCHES, price, 6_250n, 6_250n, [9, 0, 2], []],
    [
      "D6 a free model has room for any estimate",
      settled(null, 50, 1_000_000),
      free,
      1n,
      0n,
      [50, 0, 1_000_000],
      [],
    ],

    [
      "D11 reported usage is charged in full",
      settled([9, 0, 2]),
      price,
      6_249n,
      6_250n,
      [9, 0, 2],
      ["overage"],
    ],
    ["D11 just the reservation is no overage", settled([9, 0, 2]), price, 6_250n, 6_250n, [9, 0, 2], []],
    ["D11 nothing is estimated on top", THREE_SEARCHES, price, 1_000n, 6_250n, [9, 0, 2], ["overage"]],
    [
      "D11 beside other notes",
      settled([9, 0, 2], 0, 0, ["cached_malformed"]),
      price,
      1n,
      6_250n,
      [9, 0, 2],
      ["cached_malformed", "overage"],
    ],
  ]
  test.each(rows)("%s", (_, verdict, price, amount_nano, charge_nano, usage, notes) => {
    expect(priceVerdict(verdict, price, amount_nano)).toEqual({ charge_nano, usage: usageOf(usage), notes })
  })

  test("what is released costs nothing", () => {
    const verdict: Verdict = { outcome: "released", failure: "usage_invalid", notes: ["usage_placeholder"] }
    expect(priceVerdict(verdict, price, 10_000n)).toEqual({
      charge_nano: 0n,
      usage: null,
      notes: ["usage_placeholder"],
    })
  })
})

describe("properties", () => {
  const tokens = fc.nat(MAX_TOKENS)
  const usage = fc
    .tuple(tokens, tokens, tokens)
    .map(([a, b, completion]): Usage => usageOf([Math.max(a, b), Math.min(a, b), completion]))
  const pico = fc.bigInt({ min: 0n, max: 10n ** 12n - 1n })
  const priced = fc.record({
    input_pico: pico,
    cached_input_pico: pico,
    output_pico: pico,
    per_call_nano: fc.bigInt({ min: 0n, max: 10n ** 9n }),
  })
  const amount = fc.oneof(fc.bigInt({ min: 1n, max: 10n ** 6n }), fc.bigInt({ min: 1n, max: 10n ** 21n }))
  const verdict = fc
    .record({ reported: fc.option(usage), prompt: fc.nat(10 ** 7), completion: fc.nat(10 ** 9) })
    .map(({ reported, prompt, completion }): Verdict => {
      const { prompt_tokens, cached_tokens, completion_tokens } = reported ?? usageOf([0, 0, 0])
      return settled(reported && [prompt_tokens, cached_tokens, completion_tokens], prompt, completion)
    })
  const charge = (usage: Usage, price: Price) =>
    usage.prompt_tokens + usage.completion_tokens === 0 ? 0n : ceilToNano(costPico(usage, price))

  test("the tokens recorded are the tokens charged; what was reported is among them; estimates stay within", () => {
    fc.assert(
      fc.property(verdict, priced, amount, (verdict, price, amount_nano) => {
        const { charge_nano, usage, notes } = priceVerdict(verdict, price, amount_nano)
        if (usage === null || verdict.outcome === "released") throw new Error("it was settled")
        const reported = verdict.reported ?? usageOf([0, 0, 0])
        const least = charge(reported, price)
        expect(charge_nano).toBe(charge(usage, price))
        expect(charge_nano <= least || charge_nano <= amount_nano).toBe(true)
        expect(notes.includes("overage")).toBe(least > amount_nano)
        expect(usage.prompt_tokens).toBeGreaterThanOrEqual(reported.prompt_tokens)
        expect(usage.completion_tokens).toBeGreaterThanOrEqual(reported.completion_tokens)
        expect(usage.completion_tokens).toBeLessThanOrEqual(
          reported.completion_tokens + verdict.estimated.completion_tokens,
        )
        expect(usage.cached_tokens).toBe(reported.cached_tokens)
      }),
    )
  })

  test("an estimate takes all the room there is, to the last token", () => {
    fc.assert(
      fc.property(priced, amount, fc.nat(10 ** 9), (price, amount_nano, completion) => {
        const { usage } = priceVerdict(settled(null, 0, completion), price, amount_nano)
        const taken = usage?.completion_tokens ?? 0
        const next = BigInt(taken + 1) * price.output_pico + price.per_call_nano * 1_000n
        expect(taken === completion || next > amount_nano * 1_000n).toBe(true)
      }),
    )
  })
})
