import {
  type Bucket,
  buckets,
  ceilToNano,
  costWithin,
  PICO_PER_NANO,
  type Price,
  parentOf,
} from "../money.ts"
import type { Note } from "../wire/call.ts"
import type { Buckets, Usage } from "../wire/usage.ts"
import { bucketed } from "./buckets.ts"
import type { Verdict } from "./decide.ts"

/** What a call costs, and the tokens that cost it. */
export interface Priced {
  readonly charge_nano: bigint
  /** Reported plus estimated tokens, as charged; null when nothing is. */
  readonly usage: Usage | null
  readonly notes: readonly Note[]
}

type Settled = Extract<Verdict, { outcome: "settled" }>

/**
 * Prices a verdict: one sum, times the margin of the account (D69), one ceil. What the provider reported is charged in full, above the reservation too,
 * which is noted (D11); what the gateway estimated only as far as it fits under `amount_nano` (D6), so that the tokens
 * recorded are the tokens charged. `searches` is how many there were where the provider does not count them (D60).
 */
export function priceVerdict(
  verdict: Verdict,
  price: Price,
  amount_nano: bigint,
  searches = 0,
  margin_bp?: number,
): Priced {
  if (verdict.outcome === "released") return { charge_nano: 0n, usage: null, notes: verdict.notes }
  const reported = bucketed(verdict.reported ?? NOTHING, price, searches)
  const usage = withEstimate(reported.usage, verdict.estimated, price, costWithin(amount_nano, margin_bp))
  const charge_nano = isNothing(usage) ? 0n : ceilToNano(costPico(usage, price), margin_bp)
  const notes = [...verdict.notes, ...reported.notes]
  return { charge_nano, usage, notes: charge_nano > amount_nano ? [...notes, "overage"] : notes }
}

/** Usage of 0 charges nothing, the price of a call included (D2, D44). */
function isNothing({ prompt_tokens, completion_tokens }: Usage): boolean {
  return prompt_tokens === 0 && completion_tokens === 0
}

/**
 * The exact cost of a call that is charged, in pico-USD; cached tokens and those of buckets are part of the prompt's and of
 * the completion's (D3, D44, D60).
 */
export function costPico(usage: Usage, price: Price): bigint {
  const uncached = BigInt(usage.prompt_tokens - usage.cached_tokens)
  const cached = BigInt(usage.cached_tokens)
  const completion = BigInt(usage.completion_tokens)
  const tokens =
    uncached * price.input_pico + cached * price.cached_input_pico + completion * price.output_pico
  const difference = usage.buckets === undefined ? 0n : bucketsPico(usage.buckets, price)
  return tokens + difference + price.per_call_nano * PICO_PER_NANO
}

/** What buckets cost beyond what their tokens cost as a part of the prompt or the completion. */
function bucketsPico(counts: Buckets, price: Price): bigint {
  let sum_pico = 0n
  for (const bucket of buckets) {
    const price_pico = price.buckets?.[bucket]
    if (price_pico === undefined) continue
    sum_pico += BigInt(counts[bucket] ?? 0) * (price_pico - parentPico(bucket, price))
  }
  return sum_pico
}

function parentPico(bucket: Bucket, price: Price): bigint {
  const parent = parentOf[bucket]
  if (parent === null) return 0n
  return parent === "input" ? price.input_pico : price.output_pico
}

/** What was reported, plus as much of the estimate as fits under `amount_pico`: the prompt's first. */
function withEstimate(
  base: Usage,
  estimated: Settled["estimated"],
  price: Price,
  amount_pico: bigint,
): Usage {
  const prompt = fitting(estimated.prompt_tokens, price.input_pico, amount_pico - costPico(base, price))
  const asked = { ...base, prompt_tokens: base.prompt_tokens + prompt }
  const completion = fitting(
    estimated.completion_tokens,
    price.output_pico,
    amount_pico - costPico(asked, price),
  )
  return { ...asked, completion_tokens: asked.completion_tokens + completion }
}

const NOTHING: Usage = { prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0 }

/** As many of `tokens` as `room_pico` pays for. */
function fitting(tokens: number, price_pico: bigint, room_pico: bigint): number {
  if (BigInt(tokens) * price_pico <= room_pico) return tokens
  return room_pico > 0n ? Number(room_pico / price_pico) : 0
}
