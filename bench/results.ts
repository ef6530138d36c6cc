import { Latencies, type LatencySummary } from "./latencies.ts"
import type { RunFacts } from "./machine.ts"
import { type Goal, type Measured, reaches, type Scenario } from "./scenario.ts"
import { type Spread, spread } from "./statistics.ts"

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
  readonly figures: readonly FigureResult[]
  /** What was measured side by side, by name. */
  readonly sides: Readonly<Record<string, SideResult>>
  readonly reference: { readonly name: string; readonly ms: Spread } | null
}

export interface FigureResult extends Spread {
  readonly name: string
  readonly unit: "times" | "KiB"
  readonly goal: Goal
  readonly by_round: readonly number[]
  readonly reached: boolean
}

export interface SideResult {
  readonly per: Measured["per"]
  /** Calls or pairs. */
  readonly throughput_per_s: Spread
  readonly events_per_s: Spread
  readonly latency_ms: LatencySummary
  readonly time_to_first_token_ms: LatencySummary
  readonly inter_chunk_latency_ms: LatencySummary
  readonly cpu: CpuResult
  readonly failures: Readonly<Record<string, number>>
}

/** CPU microseconds for each call, event or pair. */
export interface CpuResult {
  readonly target_us: Spread
  /** Of each Postgres. */
  readonly postgres_us: readonly Spread[]
  readonly load_us: Spread
  /** The load generator's CPU by the target's, over all rounds. */
  readonly load_share: number
}

/** The sides of one round, and the time of the reference. */
export interface Round {
  readonly measured: ReadonlyMap<string, Measured>
  readonly reference_ms: number | null
}

export function resultOf(scenario: Scenario, rounds: readonly Round[]): ScenarioResult {
  const { name, title, figures, sides } = scenario
  const reference = scenario.kind === "http" ? scenario.reference : null
  return {
    name,
    title,
    figures: figures.map(({ name, unit, goal, value }) => {
      const by_round = rounds.map((round) =>
        value((side) => sideOf(round, side), round.reference_ms ?? Number.NaN),
      )
      const together = spread(by_round)
      return { name, unit, goal, by_round, ...together, reached: reaches(together.median, goal) }
    }),
    sides: Object.fromEntries(
      sides.map((side) => [side.name, sideResult(rounds.map((round) => sideOf(round, side.name)))]),
    ),
    reference: reference && {
      name: reference.name,
      ms: spread(rounds.flatMap(({ reference_ms }) => reference_ms ?? [])),
    },
  }
}

function sideOf({ measured }: Round, side: string): Measured {
  const found = measured.get(side)
  if (found === undefined) throw new Error(`${side} was not measured`)
  return found
}

export function sideResult(rounds: readonly Measured[]): SideResult {
  const over = (value: (measured: Measured) => number) => spread(rounds.map(value))
  const merged = (of: "latency" | "ttft" | "inter_chunk") =>
    Latencies.merged(rounds.map((measured) => measured[of])).summary
  const sum_ms = (whose: "load" | "target") => rounds.reduce((sum, { cpu_ms }) => sum + cpu_ms[whose], 0)
  const [first] = rounds
  return {
    per: first?.per ?? "call",
    throughput_per_s: over(({ per_s }) => per_s),
    events_per_s: over(({ events_per_s }) => events_per_s),
    latency_ms: merged("latency"),
    time_to_first_token_ms: merged("ttft"),
    inter_chunk_latency_ms: merged("inter_chunk"),
    cpu: {
      target_us: over(({ cpu_us }) => cpu_us.target),
      postgres_us: (first?.cpu_us.postgres ?? []).map((_, at) =>
        over(({ cpu_us }) => cpu_us.postgres[at] ?? 0),
      ),
      load_us: over(({ cpu_us }) => cpu_us.load),
      load_share: sum_ms("load") / sum_ms("target"),
    },
    failures: summed(rounds.map(({ failures }) => failures)),
  }
}

function summed(counts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const [what, count] of counts.flatMap((each) => Object.entries(each)))
    sums[what] = (sums[what] ?? 0) + count
  return sums
}
