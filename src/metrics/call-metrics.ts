import { Gauge, type Registry } from "prom-client"
import type { End } from "../ledger/entries.ts"
import { type Failure, genAiOperation, type OperationName, usageNotes } from "../wire/call.ts"
import type { Usage } from "../wire/usage.ts"
import {
  CellCounter,
  CellHistogram,
  type CounterCell,
  FIRST_TOKEN_S,
  type HistogramCell,
  OPERATION_S,
  PER_TOKEN_S,
  TOKENS,
  Tree,
} from "./cells.ts"

/** The labels of a call: names from the configuration. */
export interface MeteredCall {
  readonly model: string
  readonly operation: OperationName
  /** The upstream that answered, or the first one of the model if none did. */
  readonly upstream: string
  readonly stream: boolean
  readonly amount_nano: bigint
}

/** The open calls. */
interface OpenCalls {
  readonly count: number
  readonly held_nano: bigint
}

/** Metrics of calls: their outcomes and charges. */
export function callMetrics(registry: Registry) {
  const metrics = { ...counters(registry), ...genAi(registry) }
  const cells = new Tree<CallCells>()
  const cellsOf = (call: MeteredCall): CallCells => {
    const words = [call.operation, String(call.stream), call.upstream, call.model]
    let known = cells.get(words)
    if (known === undefined) {
      known = new CallCells(metrics, call)
      cells.set(words, known)
    }
    return known
  }
  return {
    /** Counts the end of a call (D13). */
    ended: (call: MeteredCall, end: End): void => cellsOf(call).count(call, end),
    /** Counts a call that was charged less than the provider says that it costs (D90). */
    belowCost(model: string): void {
      metrics.below_cost.cell(model).value += 1
    },
    /** Sets the source of the open calls, which is read at each scrape. */
    watchCalls(read: () => OpenCalls): void {
      const registers = [registry]
      new Gauge({
        name: "tollgate_open_holds",
        help: "Open calls of this process.",
        registers,
        collect() {
          this.set(read().count)
        },
      })
      new Gauge({
        name: "tollgate_held_nano_usd",
        help: "Amount held by the open calls of this process, in nano-USD.",
        registers,
        collect() {
          this.set(Number(read().held_nano))
        },
      })
    },
  }
}

type CallMetrics = ReturnType<typeof counters> & ReturnType<typeof genAi>

/** The cells of all calls with the same model, upstream and stream flag: looked up once, then incremented. */
class CallCells {
  readonly #metrics: CallMetrics
  readonly #model: string
  readonly #operation: OperationName
  readonly #genAi: readonly [operation: string, provider: string, model: string]
  readonly #stream: string
  readonly #charged: CounterCell
  /** Created on first use, because an existing cell is printed even at 0. */
  #tokens: Readonly<Record<"prompt" | "cached" | "completion", CounterCell>> | null = null
  readonly #usage: Readonly<Record<"input" | "output", HistogramCell>>
  readonly #durations = new Map<Failure | null, HistogramCell>()
  readonly #first_token: HistogramCell
  readonly #per_token: HistogramCell

  constructor(metrics: CallMetrics, { model, operation, upstream, stream }: MeteredCall) {
    this.#metrics = metrics
    this.#model = model
    this.#operation = operation
    this.#genAi = [genAiOperation(operation), upstream, model]
    this.#stream = String(stream)
    this.#charged = metrics.charged.cell(model)
    const usage = (type: string) => metrics.usage.cell(...this.#genAi, type)
    this.#usage = { input: usage("input"), output: usage("output") }
    this.#first_token = metrics.first_token.cell(...this.#genAi)
    this.#per_token = metrics.per_token.cell(...this.#genAi)
  }

  count({ stream, amount_nano }: MeteredCall, end: End): void {
    const { outcome, basis, failure, ending, charge_nano, usage, duration_ms, ttft_ms } = end
    const metrics = this.#metrics
    if (outcome === "settled") metrics.settled.cell(this.#model, this.#operation, basis).value += 1
    else metrics.released.cell(this.#model, this.#operation, failure ?? "none").value += 1
    metrics.ended.cell(this.#stream, ending ?? "none").value += 1
    this.#charged.value += Number(charge_nano)
    if (charge_nano > amount_nano)
      metrics.overage.cell(this.#model).value += Number(charge_nano - amount_nano)
    this.#duration(failure).observe(duration_ms / 1_000)
    if (usage !== null) this.#countTokens(usage)
    for (const note of end.notes) if (USAGE_NOTES.has(note)) metrics.notes.cell(this.#model, note).value += 1
    if (!stream || ttft_ms === null) return
    this.#first_token.observe(ttft_ms / 1_000)
    const further_tokens = basis === "usage" ? (usage?.completion_tokens ?? 0) - 1 : 0
    if (further_tokens > 0) this.#per_token.observe((duration_ms - ttft_ms) / further_tokens / 1_000)
  }

  #duration(failure: Failure | null): HistogramCell {
    let cell = this.#durations.get(failure)
    if (cell === undefined) {
      cell = this.#metrics.duration.cell(...this.#genAi, failure ?? undefined)
      this.#durations.set(failure, cell)
    }
    return cell
  }

  #countTokens({ prompt_tokens, cached_tokens, completion_tokens }: Usage): void {
    this.#tokens ??= this.#tokenCells()
    this.#tokens.prompt.value += prompt_tokens
    this.#tokens.cached.value += cached_tokens
    this.#tokens.completion.value += completion_tokens
    this.#usage.input.observe(prompt_tokens)
    this.#usage.output.observe(completion_tokens)
  }

  #tokenCells() {
    const cell = (kind: string) => this.#metrics.tokens.cell(this.#model, kind)
    return { prompt: cell("prompt"), cached: cell("cached"), completion: cell("completion") }
  }
}

const USAGE_NOTES: ReadonlySet<string> = new Set(usageNotes)

/** The gateway's own metrics: how calls were settled, and for how much. */
function counters(registry: Registry) {
  return {
    settled: new CellCounter({
      name: "tollgate_calls_settled_total",
      help: "Calls that were charged, by model, operation and basis of the charge.",
      labelNames: ["model", "operation", "basis"],
      registry,
    }),
    released: new CellCounter({
      name: "tollgate_calls_released_total",
      help: "Calls that were released without a charge, by model, operation and failure.",
      labelNames: ["model", "operation", "failure"],
      registry,
    }),
    ended: new CellCounter({
      name: "tollgate_calls_ended_total",
      help: "Ended calls, by whether they streamed and how the provider's response ended (none: no response).",
      labelNames: ["stream", "ending"],
      registry,
    }),
    charged: new CellCounter({
      name: "tollgate_charged_nano_usd_total",
      help: "Amount charged, in nano-USD, by model.",
      labelNames: ["model"],
      registry,
    }),
    overage: new CellCounter({
      name: "tollgate_overage_nano_usd_total",
      help: "Amount charged beyond the hold, in nano-USD, by model.",
      labelNames: ["model"],
      registry,
    }),
    notes: new CellCounter({
      name: "tollgate_usage_notes_total",
      help: "Calls with a note that their charge may not be what the provider bills, by model and note.",
      labelNames: ["model", "note"],
      registry,
    }),
    below_cost: new CellCounter({
      name: "tollgate_charges_below_cost_total",
      help: "Calls that were charged less than the provider says that they cost, by model.",
      labelNames: ["model"],
      registry,
    }),
    tokens: new CellCounter({
      name: "tollgate_tokens_total",
      help: "Tokens charged, by model and kind: prompt (including cached), cached, completion.",
      labelNames: ["model", "kind"],
      registry,
    }),
  }
}

const GEN_AI = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"] as const

/** OpenTelemetry's GenAI metrics (D53). The provider is the upstream's name, the model that of the configuration. */
function genAi(registry: Registry) {
  return {
    duration: new CellHistogram({
      name: "gen_ai_client_operation_duration_seconds",
      help: "Duration of calls, from admission to settlement; error_type is the failure, if any.",
      labelNames: [...GEN_AI, "error_type"],
      buckets: OPERATION_S,
      registry,
    }),
    usage: new CellHistogram({
      name: "gen_ai_client_token_usage",
      help: "Tokens charged per call, by type: input (including cached) and output.",
      labelNames: [...GEN_AI, "gen_ai_token_type"],
      buckets: TOKENS,
      registry,
    }),
    first_token: new CellHistogram({
      name: "gen_ai_server_time_to_first_token_seconds",
      help: "Time from admission to the first output, for streams with output.",
      labelNames: GEN_AI,
      buckets: FIRST_TOKEN_S,
      registry,
    }),
    per_token: new CellHistogram({
      name: "gen_ai_server_time_per_output_token_seconds",
      help: "Time per output token after the first output, for streams that were charged by their usage.",
      labelNames: GEN_AI,
      buckets: PER_TOKEN_S,
      registry,
    }),
  }
}
