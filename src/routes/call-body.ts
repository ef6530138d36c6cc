import type { CallRecord } from "../ledger/reports/calls.ts"
import { printPrice, printUsd } from "../money.ts"
import type { CallBody } from "../wire/admin.ts"
import { printTime } from "../wire/time.ts"
import type { Usage } from "../wire/usage.ts"

/** A call as operators are shown it. */
export function callBody(call: CallRecord): CallBody {
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
    ...outcomeOf(call),
    prices: {
      input: printPrice(call.input_pico),
      cached_input: printPrice(call.cached_input_pico),
      output: printPrice(call.output_pico),
      per_call: printUsd(call.per_call_nano),
    },
    started_at: printTime(call.held_at),
    settled_at: call.ended_at && printTime(call.ended_at),
    ttft_ms: call.ttft_ms,
    duration_ms: call.duration_ms,
  }
}

/** A checkpoint may have written to an open call: nothing of a charge is shown before there is one. */
function outcomeOf(
  call: CallRecord,
): Pick<CallBody, "basis" | "ending" | "failure" | "charge" | "overage" | "usage"> {
  const { amount_nano, charge_nano, basis, ending, failure } = call
  if (charge_nano === null) {
    return { basis: "none", ending: null, failure: null, charge: null, overage: null, usage: null }
  }
  return {
    basis: basis ?? "none",
    ending,
    failure,
    charge: printUsd(charge_nano),
    overage: printUsd(charge_nano > amount_nano ? charge_nano - amount_nano : 0n),
    usage: usageOf(call),
  }
}

function usageOf({ prompt_tokens, cached_tokens, completion_tokens }: CallRecord): Usage | null {
  if (prompt_tokens === null || cached_tokens === null || completion_tokens === null) return null
  return { prompt_tokens, cached_tokens, completion_tokens }
}
