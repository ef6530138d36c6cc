import { type Bucket, buckets, PICO_PER_NANO, type Price, parentOf } from "../money.ts"
import type { Usage } from "../wire/usage.ts"

/** A line of a receipt: what was charged of one kind, its price and the product (D60). */
export interface Line {
  readonly kind: Kind
  /** Tokens; searches of `web_search`, and 1 of `per_call`. */
  readonly count: number
  /** Of one. */
  readonly price_pico: bigint
  readonly cost_pico: bigint
}

export type Kind = "input" | "cached_input" | "output" | Bucket | "per_call"

/** The lines whose sum, rounded up once, is the charge: kinds without a count are left out, and all of them for usage of 0 (D2). */
export function linesOf(usage: Usage, price: Price): readonly Line[] {
  const { prompt_tokens, cached_tokens, completion_tokens } = usage
  if (prompt_tokens === 0 && completion_tokens === 0) return []
  const counts = usage.buckets ?? {}
  const within = (parent: "input" | "output") =>
    buckets.reduce((sum, bucket) => sum + (parentOf[bucket] === parent ? (counts[bucket] ?? 0) : 0), 0)
  const line = (kind: Kind, count: number, price_pico: bigint): Line[] =>
    count === 0 ? [] : [{ kind, count, price_pico, cost_pico: BigInt(count) * price_pico }]
  return [
    ...line("input", prompt_tokens - cached_tokens - within("input"), price.input_pico),
    ...line("cached_input", cached_tokens, price.cached_input_pico),
    ...line("output", completion_tokens - within("output"), price.output_pico),
    ...buckets.flatMap((bucket) => line(bucket, counts[bucket] ?? 0, price.buckets?.[bucket] ?? 0n)),
    ...(price.per_call_nano === 0n ? [] : line("per_call", 1, price.per_call_nano * PICO_PER_NANO)),
  ]
}
