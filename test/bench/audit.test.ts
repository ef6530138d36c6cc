import { expect, test } from "bun:test"
import type { CallLine } from "../../bench/admin.ts"
import { faultOf } from "../../bench/audit.ts"
import { priceOf } from "../support/price.ts"

const price = priceOf(1_000_000n, 100_000n, 4_000_000n)
/** 16 uncached, 4 cached and 50 output tokens: 16,000 + 400 + 200,000 nano-USD. */
const whole = { id: "a", prompt_tokens: 20, cached_tokens: 4, completion_tokens: 50 }
const charged = (charge: string | null, basis = "usage"): CallLine => ({
  id: "a",
  state: "settled",
  basis,
  failure: null,
  charge,
})

test.each([
  ["rule 1: the usage to the last unit", charged("0.0002164"), whole, null],
  ["rule 1: one unit less", charged("0.000216399"), whole, "the provider counted 0.0002164"],
  ["rule 1: one unit more", charged("0.000216401"), whole, "the provider counted 0.0002164"],
  ["an answer that is not charged", charged("0", "none"), whole, "without the usage"],
  ["an estimate", charged("0.0002164", "estimate"), whole, "without the usage"],
  ["a call that nobody answered", charged("0.0002164"), undefined, "knows nothing"],
  ["D13: a call that is not settled", charged(null), whole, "not settled"],
])("a charge is judged by what the provider counted: %s", (_name, call, answer, fault) => {
  const found = faultOf(call, answer, price)
  if (fault === null) expect(found).toBeNull()
  else expect(found).toContain(fault)
})
