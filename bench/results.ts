import type { LatencySummary } from "./latencies.ts"
import type { RunFacts } from "./machine.ts"
import type { Goal } from "./scenario.ts"
import type { Spread } from "./statistics.ts"

/** The results of a run, as in its JSON file. Units come last in names. */
export interface Results extends RunFacts {
  readonly kind: "suite"
  readonly size: string
  readonly scenarios: readonly ScenarioResult[]
  readonly audit: AuditResult
  /** Limits of the figures: where the load generator used too much CPU. */
  readonly warnings: readonly string[]
  /** Why the run failed; empty when it did not. */
  readonly faults: readonly string[]
}

export interface AuditResult {
  readonly calls: number
  /** USD, all accounts together. */
  readonly charged: string
  /** Empty when every charge and balance is right. */
  readonly faults: readonly string[]
}

export interface ScenarioResult {
  readonly name: string
  readonly title: string
  readonly load: string
  readonly rounds: number
  readonly figures: readonly FigureResult[]
  /** The targets that were loaded side by side, by name. Null when only the ledger was loaded. */
  readonly targets: Readonly<Record<string, TargetResult>> | null
  /** The ways to hold and settle without a gateway that were measured side by side, by name; the first is Tollgate's own. */
  readonly pairs: Readonly<Record<string, PairsResult>> | null
  readonly reference: { readonly name: string; readonly ms: Spread } | null
}

export interface FigureResult extends Spread {
  readonly name: string
  readonly unit: "times" | "ms" | "KiB"
  readonly goal: Goal
  readonly by_round: readonly number[]
  readonly reached: boolean
}

export interface TargetResult {
  readonly request_throughput_per_s: Spread
  readonly events_per_s: Spread
  readonly request_latency_ms: LatencySummary
  readonly time_to_first_token_ms: LatencySummary
  readonly inter_chunk_latency_ms: LatencySummary
  readonly cpu: CpuResult
  readonly failures: Readonly<Record<string, number>>
}

/** CPU microseconds for each call or event. */
export interface CpuResult {
  readonly per: "call" | "event"
  /** All processes of the target; 0 when they are not known. */
  readonly target_us: Spread
  /** All processes of its Postgres; 0 when it has none. */
  readonly postgres_us: Spread
  readonly load_us: Spread
  /** The load generator's CPU by the target's, over all rounds; null when the target's is not known. */
  readonly load_share: number | null
}

/** Hold and settle pairs without a gateway. */
export interface PairsResult {
  readonly per_s: Spread
  readonly process_us: Spread
  readonly postgres_us: readonly Spread[]
}
