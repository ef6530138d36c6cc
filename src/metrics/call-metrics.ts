import type { End } from "../ledger/entries.ts"
import { genAiOperation, type OperationName, usageNotes } from "../wire/call.ts"
import type { Registry } from "./registry.ts"

/** Buckets, in the unit of the metric, as the OpenTelemetry GenAI conventions recommend (D53). */
export const OPERATION_S = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
]
const FIRST_TOKEN_S = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const PER_TOKEN_S = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5]
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power)

export interface MeteredCall {
  readonly model: string
  readonly operation: OperationName
  /** The upstream that answered, or the first one of the model if none did. */
  readonly upstream: string
  readonly stream: boolean
  readonly amount_nano: bigint
}

export function callMetrics(registry: Registry) {
  const metrics = { ...counters(registry), ...genAi(registry) }
  return {
    /** Counts the end of a call (D13). */
    ended: (call: MeteredCall, end: End): void => countEnd(metrics, call, end),
    /** Counts a call that was charged less than the provider says that it costs (D90). */
    belowCost(model: string): void {
      metrics.below_cost.of(model).add()
    },
    /** Sets the source of the open calls, which is read at each scrape. */
    watchCalls(read: () => { readonly count: number; readonly held_nano: bigint }): void {
      registry.gauge("tollgate_open_holds", () => read().count)
      registry.gauge("tollgate_held_nano_usd", () => Number(read().held_nano))
    },
  }
}

type CallMetrics = ReturnType<typeof counters> & ReturnType<typeof genAi>

function countEnd(metrics: CallMetrics, call: MeteredCall, end: End): void {
  const { model, operation, upstream, stream, amount_nano } = call
  const { outcome, basis, failure, ending, charge_nano, usage, duration_ms, ttft_ms } = end
  const gen_ai = [genAiOperation(operation), upstream, model] as const
  if (outcome === "settled") metrics.settled.of(model, operation, basis).add()
  else metrics.released.of(model, operation, failure ?? "none").add()
  metrics.ended.of(String(stream), ending ?? "none").add()
  metrics.charged.of(model).add(Number(charge_nano))
  if (charge_nano > amount_nano) metrics.overage.of(model).add(Number(charge_nano - amount_nano))
  metrics.duration.of(...gen_ai, failure ?? undefined).observe(duration_ms / 1_000)
  if (usage !== null) {
    const { prompt_tokens, cached_tokens, completion_tokens } = usage
    metrics.tokens.of(model, "prompt").add(prompt_tokens)
    metrics.tokens.of(model, "cached").add(cached_tokens)
    metrics.tokens.of(model, "completion").add(completion_tokens)
    metrics.usage.of(...gen_ai, "input").observe(prompt_tokens)
    metrics.usage.of(...gen_ai, "output").observe(completion_tokens)
  }
  for (const note of end.notes) if (USAGE_NOTES.has(note)) metrics.notes.of(model, note).add()
  if (!stream || ttft_ms === null) return
  metrics.first_token.of(...gen_ai).observe(ttft_ms / 1_000)
  const further_tokens = basis === "usage" ? (usage?.completion_tokens ?? 0) - 1 : 0
  if (further_tokens > 0)
    metrics.per_token.of(...gen_ai).observe((duration_ms - ttft_ms) / further_tokens / 1_000)
}

const USAGE_NOTES: ReadonlySet<string> = new Set(usageNotes)

function counters(registry: Registry) {
  return {
    settled: registry.counter("tollgate_calls_settled_total{model,operation,basis}"),
    released: registry.counter("tollgate_calls_released_total{model,operation,failure}"),
    ended: registry.counter("tollgate_calls_ended_total{stream,ending}"),
    charged: registry.counter("tollgate_charged_nano_usd_total{model}"),
    overage: registry.counter("tollgate_overage_nano_usd_total{model}"),
    notes: registry.counter("tollgate_usage_notes_total{model,note}"),
    below_cost: registry.counter("tollgate_charges_below_cost_total{model}"),
    tokens: registry.counter("tollgate_tokens_total{model,kind}"),
  }
}

/** OpenTelemetry's GenAI metrics (D53). The provider is the upstream's name, the model that of the configuration. */
function genAi(registry: Registry) {
  return {
    duration: registry.histogram(
      "gen_ai_client_operation_duration_seconds{gen_ai_operation_name,gen_ai_provider_name,gen_ai_request_model,error_type}",
      OPERATION_S,
    ),
    usage: registry.histogram(
      "gen_ai_client_token_usage{gen_ai_operation_name,gen_ai_provider_name,gen_ai_request_model,gen_ai_token_type}",
      TOKENS,
    ),
    first_token: registry.histogram(
      "gen_ai_server_time_to_first_token_seconds{gen_ai_operation_name,gen_ai_provider_name,gen_ai_request_model}",
      FIRST_TOKEN_S,
    ),
    per_token: registry.histogram(
      "gen_ai_server_time_per_output_token_seconds{gen_ai_operation_name,gen_ai_provider_name,gen_ai_request_model}",
      PER_TOKEN_S,
    ),
  }
}
