import { describe, expect, test } from "bun:test"
import { soldAt, soldNow } from "../../src/admission/customer-prices.ts"
import { buckets, unitOf } from "../../src/kinds.ts"
import type { CustomerPrice, CustomerPriceTexts } from "../../src/ledger/entries.ts"
import type { Price } from "../../src/money.ts"
import { costPico } from "../../src/settlement/price.ts"
import { priceOf } from "../support/price.ts"
import { aModel } from "./model.ts"

/** D100: a model at the prices of one customer. */

const named = Object.fromEntries(buckets.map((bucket, at) => [bucket, BigInt(7 + at) * 100_000n]))
const price: Price = {
  ...priceOf(300_000n, 30_000n, 2_000_000n, 5n),
  buckets: named,
  tool_runs: { browser: 9_000_000n, shell: 1_000_000n },
}
const model = aModel({
  price,
  tiers: [{ above_tokens: 100, price: { ...price, output_pico: 3_000_000n } }],
  service_tiers: [{ name: "flex", price: { ...price, input_pico: 100_000n }, tiers: [] }],
})
const sold = (prices: CustomerPriceTexts, of = model) =>
  soldAt(of, { id: "", model: "m", price_multiplier_bp: null, prices })

describe("D100 each kind of price", () => {
  const rows: [kind: string, texts: CustomerPriceTexts, changed: Partial<Price>][] = [
    ["input", { input: "0.123457" }, { input_pico: 123_457n }],
    ["cached_input", { cached_input: "0.01" }, { cached_input_pico: 10_000n }],
    ["output", { output: "0" }, { output_pico: 0n }],
    ["per_call", { per_call: "0.000000007" }, { per_call_nano: 7n }],
    [
      "tool_run",
      { tool_run: { shell: "0.000003" } },
      { tool_runs: { browser: 9_000_000n, shell: 3_000_000n } },
    ],
    ...buckets.map((bucket): [string, CustomerPriceTexts, Partial<Price>] => {
      const pico = unitOf(bucket) === "token" ? 1_500_000n : 1_500_000_000_000n
      return [bucket, { [bucket]: "1.5" }, { buckets: { ...named, [bucket]: pico } }]
    }),
  ]
  test.each(rows)("%s replaces the configured one, and no other", (_, texts, changed) => {
    const { price: own, tiers, service_tiers } = sold(texts)
    expect(own).toEqual({ ...price, ...changed })
    expect(tiers[0]?.price).toEqual({ ...price, output_pico: 3_000_000n, ...changed })
    expect(service_tiers[0]?.price).toEqual({ ...price, input_pico: 100_000n, ...changed })
  })

  test("a kind that the configuration no longer prices stays without a price", () => {
    const plain = aModel({})
    expect(sold({ audio_input: "1", tool_run: { shell: "1" } }, plain).price).toEqual(plain.price)
  })

  test("cached input follows input where both cost the same, and only there", () => {
    const same = aModel({ price: { ...price, cached_input_pico: price.input_pico } })
    expect(sold({ input: "0.5" }, same).price.cached_input_pico).toBe(500_000n)
    expect(sold({ input: "0.5" }).price.cached_input_pico).toBe(30_000n)
  })

  test("a call costs its tokens at them", () => {
    const usage = { prompt_tokens: 10, cached_tokens: 4, completion_tokens: 5 }
    const { price: own } = sold({ input: "0.8", output: "3.0001" })
    expect(costPico(usage, own)).toBe(6n * 800_000n + 4n * 30_000n + 5n * 3_000_100n + 5_000n)
  })
})

test("D100 a price of the model comes before one of all models, and both before the account's multiplier", () => {
  const standing = {
    ...{ shard: 0, account_id: "a", key_id: "k", active: true, models: null, available_nano: 1n },
    ...{ account_suspended: false, key_suspended: false, spending: null, is_limited: true },
    price_multiplier_bp: 50_000,
  }
  const all = { id: "1", model: null, price_multiplier_bp: 9_000, prices: null }
  const own = { id: "2", model: "m", price_multiplier_bp: null, prices: { input: "0.5" } }
  const bp = (prices: readonly CustomerPrice[]) => {
    const now = soldNow(model, { ...standing, prices })
    return [now.standing.price_multiplier_bp, now.model.price.input_pico]
  }
  expect(soldNow(model, standing)).toEqual({ model, standing })
  expect(bp([all])).toEqual([9_000, 300_000n])
  expect(bp([all, own])).toEqual([undefined, 500_000n])
  expect(bp([{ ...own, model: "n" }, all])).toEqual([9_000, 300_000n])
  expect(bp([{ ...own, model: "n" }])).toEqual([50_000, 300_000n])
})
