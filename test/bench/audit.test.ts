import { expect, test } from "bun:test"
import type { CallLine } from "../../bench/admin.ts"
import { faultOf } from "../../bench/audit.ts"
import type { Generated } from "../../bench/provider.ts"
import { priceOf } from "../support/price.ts"

const price = priceOf(1_000_000n, 100_000n, 4_000_000n)
const terms = { price, bytes_per_token: 4, received_bytes: null }
/** 16 uncached, 4 cached and 50 output tokens: 16,000 + 400 + 200,000 nano-USD. */
const whole: Generated = {
  id: "a",
  whole: true,
  output_bytes: 250,
  prompt_tokens: 20,
  cached_tokens: 4,
  completion_tokens: 50,
}
const cut: Generated = { ...whole, whole: false, output_bytes: 100 }
const charged = (charge: string | null, basis = "usage"): CallLine => ({
  id: "a",
  state: "settled",
  basis,
  failure: null,
  charge,
})
const left = { ...terms, received_bytes: 40 }

test.each([
  ["rule 1: the usage to the last unit", charged("0.0002164"), whole, terms, null],
  ["rule 1: one unit less", charged("0.000216399"), whole, terms, "the provider counted 0.0002164"],
  ["rule 1: one unit more", charged("0.000216401"), whole, terms, "the provider counted 0.0002164"],
  ["an answer that is not charged", charged("0", "none"), whole, terms, "without the usage"],
  ["a call that nobody answered", charged("0.0002164"), undefined, terms, "knows nothing"],
  ["D13: a call that is not settled", charged(null), whole, terms, "not settled"],
  ["an estimate where nobody left", charged("0.00004", "estimate"), cut, terms, "without the usage"],
  ["rule 5: at least what the client had", charged("0.00004", "estimate"), cut, left, null],
  ["rule 5: at most what was sent", charged("0.0001", "estimate"), cut, left, null],
  ["rule 5: less than the client had", charged("0.000036", "estimate"), cut, left, "for between 40 and 100"],
  ["rule 5: more than was sent", charged("0.000104", "estimate"), cut, left, "for between 40 and 100"],
] as const)("a charge is judged by what the provider counted: %s", (_name, call, answer, by, fault) => {
  const found = faultOf(call, answer, by)
  if (fault === null) expect(found).toBeNull()
  else expect(found).toContain(fault)
})
