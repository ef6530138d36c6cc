import type { Tracing } from "../config/tracing.ts"
import type { TraceContext } from "../wire/trace-context.ts"

/** The last 14 hex digits of a trace id are random, so sampling uses them. */
const RANDOM_DIGITS = 14

/** Whether a trace is recorded: by the decision of the caller if it counts, otherwise by its id. */
export function isSampled(
  { parent_based, ratio }: Tracing["sampler"],
  trace_id: string,
  context: TraceContext | null,
): boolean {
  if (parent_based && context !== null) return context.sampled
  return Number.parseInt(trace_id.slice(-RANDOM_DIGITS), 16) >= (1 - ratio) * 16 ** RANDOM_DIGITS
}
