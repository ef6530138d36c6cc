import { Counter, Gauge, Histogram, type Registry } from "prom-client"
import type { End } from "../ledger/entries.ts"
import { FIRST_TOKEN_S, OPERATION_S, PER_TOKEN_S, TOKENS } from "./buckets.ts"
import type { Later } from "./later.ts"

/** What the metrics say of a call besides its end: names of the configuration. */
export interface MeteredCall {
  readonly model: string
  /** The upstream that answered, else the first one of the model. */
  readonly upstream: string
  readonly stream: boolean
  readonly amount_nano: bigint
}

/** The calls that hold money now. */
export interface OpenCalls {
  readonly count: number
  readonly held_nano: bigint
}

/** What became of the calls, and what they cost. */
export function callMetrics(registry: Registry, later: Later) {
  const record = recorders(registry)
  const count = counters(registry)
  return {
    /** A call took its exit (D13). */
    ended: later((call: MeteredCall, end: End) => {
      count(call, end)
      record(call, end)
    }),
    /** Where the number of open calls and what they hold is read whenever the metrics are. */
    watchCalls(read: () => OpenCalls): void {
      const registers = [registry]
      new Gauge({
        name: "tollgate_open_reservations",
        help: "Calls of this process that hold money.",
        registers,
        collect() {
          this.set(read().count)
        },
      })
      new Gauge({
        name: "tollgate_held_nano_usd",
        help: "Money held by the open calls of this process, in billionths of a USD.",
        registers,
        collect() {
          this.set(Number(read().held_nano))
        },
      })
    },
  }
}

type Record = (call: MeteredCall, end: End) => void

/** What only this gateway knows: how calls were settled, and for how much. */
function counters(registry: Registry): Record {
  const registers = [registry]
  const settled = new Counter({
    name: "tollgate_calls_settled_total",
    help: "Calls charged, by model and what the charge rests on.",
    labelNames: ["model", "basis"],
    registers,
  })
  const released = new Counter({
    name: "tollgate_calls_released_total",
    help: "Calls released without a charge, by model and failure.",
    labelNames: ["model", "failure"],
    registers,
  })
  const ended = new Counter({
    name: "tollgate_calls_ended_total",
    help: "How the providers' answers ended, streams and others; none when there was no answer.",
    labelNames: ["stream", "ending"],
    registers,
  })
  const charged = new Counter({
    name: "tollgate_charged_nano_usd_total",
    help: "Money charged, in billionths of a USD, by model.",
    labelNames: ["model"],
    registers,
  })
  const overage = new Counter({
    name: "tollgate_overage_nano_usd_total",
    help: "Money charged above what was held, in billionths of a USD, by model.",
    labelNames: ["model"],
    registers,
  })
  const tokens = new Counter({
    name: "tollgate_tokens_total",
    help: "Tokens charged, by model and kind: prompt (cached ones included), cached, completion.",
    labelNames: ["model", "kind"],
    registers,
  })
  return ({ model, stream, amount_nano }, { outcome, basis, failure, ending, charge_nano, usage }) => {
    if (outcome === "settled") settled.inc({ model, basis })
    else released.inc({ model, failure: failure ?? "none" })
    ended.inc({ stream: String(stream), ending: ending ?? "none" })
    charged.inc({ model }, Number(charge_nano))
    if (charge_nano > amount_nano) overage.inc({ model }, Number(charge_nano - amount_nano))
    if (usage === null) return
    tokens.inc({ model, kind: "prompt" }, usage.prompt_tokens)
    tokens.inc({ model, kind: "cached" }, usage.cached_tokens)
    tokens.inc({ model, kind: "completion" }, usage.completion_tokens)
  }
}

/** OpenTelemetry's GenAI metrics (D53). The provider is the upstream's name, the model that of the configuration. */
function recorders(registry: Registry): Record {
  const registers = [registry]
  const genAi = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"] as const
  const duration = new Histogram({
    name: "gen_ai_client_operation_duration_seconds",
    help: "Calls from admission to settlement; error_type is the failure, if any.",
    labelNames: [...genAi, "error_type"],
    buckets: OPERATION_S,
    registers,
  })
  const usage = new Histogram({
    name: "gen_ai_client_token_usage",
    help: "Tokens charged per call, by type: input (cached ones included) and output.",
    labelNames: [...genAi, "gen_ai_token_type"],
    buckets: TOKENS,
    registers,
  })
  const first_token = new Histogram({
    name: "gen_ai_server_time_to_first_token_seconds",
    help: "Streams from admission to the first output, where there was some.",
    labelNames: genAi,
    buckets: FIRST_TOKEN_S,
    registers,
  })
  const per_token = new Histogram({
    name: "gen_ai_server_time_per_output_token_seconds",
    help: "Streams that were settled by their usage: the time after the first output per further token of it.",
    labelNames: genAi,
    buckets: PER_TOKEN_S,
    registers,
  })
  return ({ model, upstream, stream }, end) => {
    const { failure, duration_ms, ttft_ms } = end
    const labels = {
      gen_ai_operation_name: "chat",
      gen_ai_provider_name: upstream,
      gen_ai_request_model: model,
    }
    duration.observe(failure === null ? labels : { ...labels, error_type: failure }, duration_ms / 1_000)
    if (end.usage !== null) {
      const { prompt_tokens, completion_tokens } = end.usage
      usage.observe({ ...labels, gen_ai_token_type: "input" }, prompt_tokens)
      usage.observe({ ...labels, gen_ai_token_type: "output" }, completion_tokens)
    }
    if (!stream || ttft_ms === null) return
    first_token.observe(labels, ttft_ms / 1_000)
    const further_tokens = end.basis === "usage" ? (end.usage?.completion_tokens ?? 0) - 1 : 0
    if (further_tokens > 0) per_token.observe(labels, (duration_ms - ttft_ms) / further_tokens / 1_000)
  }
}
