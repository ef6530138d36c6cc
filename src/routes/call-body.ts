import type { CallRecord } from "../ledger/reports/calls.ts"
import { buckets, type Price, printUsd } from "../money.ts"
import { linesOf } from "../settlement/lines.ts"
import type { CallBody } from "../wire/admin.ts"
import { printTime } from "../wire/time.ts"
import type { Usage } from "../wire/usage.ts"
import { lineBody, pricesBody } from "./prices.ts"

/** A call as operators are shown it. */
export function callBody(call: CallRecord): CallBody {
  const price = priceOf(call)
  return {
    id: call.id,
    account_id: call.account_id,
    key_id: call.key_id,
    model: call.model,
    family: call.family,
    upstream: call.upstream,
    stream: call.stream,
    state: call.state,
    notes: call.notes,
    reserved: printUsd(call.amount_nano),
    ...outcomeOf(call, price),
    prices: pricesBody(price, call.above_tokens),
    started_at: printTime(call.held_at),
    settled_at: call.ended_at && printTime(call.ended_at),
    ttft_ms: call.ttft_ms,
    duration_ms: call.duration_ms,
  }
}

/** Nothing of a charge is shown before there is one. */
function outcomeOf(
  call: CallRecord,
  price: Price,
): Pick<CallBody, "basis" | "ending" | "failure" | "charge" | "overage" | "usage" | "lines"> {
  const { amount_nano, charge_nano, basis, ending, failure } = call
  if (charge_nano === null) {
    return { basis: "none", ending: null, failure: null, charge: null, overage: null, usage: null, lines: [] }
  }
  const usage = usageOf(call)
  return {
    basis: basis ?? "none",
    ending,
    failure,
    charge: printUsd(charge_nano),
    overage: printUsd(charge_nano > amount_nano ? charge_nano - amount_nano : 0n),
    usage: usage && countsOf(usage),
    lines: usage === null ? [] : linesOf(usage, price).map(lineBody),
  }
}

function usageOf({
  prompt_tokens,
  cached_tokens,
  completion_tokens,
  buckets: kept,
}: CallRecord): Usage | null {
  if (prompt_tokens === null || cached_tokens === null || completion_tokens === null) return null
  const counts = { prompt_tokens, cached_tokens, completion_tokens }
  if (kept === null) return counts
  return { ...counts, buckets: Object.fromEntries(buckets.map((bucket, at) => [bucket, kept[at] ?? 0])) }
}

function countsOf({ prompt_tokens, cached_tokens, completion_tokens }: Usage) {
  return { prompt_tokens, cached_tokens, completion_tokens }
}

function priceOf(call: CallRecord): Price {
  const { input_pico, cached_input_pico, output_pico, per_call_nano } = call
  const named = buckets.flatMap((bucket) => {
    const price_pico = call[`${bucket}_pico`]
    return price_pico === null ? [] : [[bucket, price_pico]]
  })
  return { input_pico, cached_input_pico, output_pico, per_call_nano, buckets: Object.fromEntries(named) }
}
