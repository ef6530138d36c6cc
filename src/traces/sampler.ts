import type { Tracing } from "../config/tracing.ts"
import type { TraceContext } from "../wire/trace-context.ts"

/** Of a trace id the last 14 hex digits are random, so they are what a share of all traces is picked by. */
const RANDOM_DIGITS = 14

/** Whether a trace is recorded: as whoever asks does it, where that counts, else by its id. */
export function isSampled(
  { parent_based, ratio }: Tracing["sampler"],
  trace_id: string,
  context: TraceContext | null,
): boolean {
  if (parent_based && context !== null) return context.sampled
  return Number.parseInt(trace_id.slice(-RANDOM_DIGITS), 16) >= (1 - ratio) * 16 ** RANDOM_DIGITS
}
