import type { Arrival, JobReport, Level } from "./job.ts"
import { Latencies } from "./latencies.ts"
import type { Recipe } from "./recipe.ts"
import type { TargetName } from "./rig.ts"
import type { Yardstick } from "./yardstick.ts"

/** How much of a scenario a run affords. */
export interface Size {
  readonly name: "quick" | "full"
  readonly rounds: number
  /** How long one target is measured in one round. */
  readonly measure_ms: number
  readonly warm_ms: number
}

/** What a figure is to reach; null is only reported. */
export type Goal = { readonly at_least: number } | { readonly at_most: number } | null

/** One number of a scenario, worked out anew in every round from what was measured side by side. */
export interface Figure<Round> {
  /** What it is: mostly, what is divided by what. */
  readonly name: string
  readonly unit: "times" | "ms" | "KiB"
  readonly goal: Goal
  value(round: Round): number
}

/** A row of the table: a load, the same on every target. */
export interface HttpScenario {
  readonly kind: "http"
  readonly name: string
  readonly title: string
  recipe(size: Size): Recipe
  /** The bytes of the prompt in each request. */
  readonly prompt_bytes: number
  arrival(size: Size): Arrival
  readonly level: Level
  /** Whether both gateways are started anew before each round. */
  readonly fresh: boolean
  /** What is timed alone in the same round; null for nothing. */
  readonly yardstick: Yardstick | null
  readonly figures: readonly Figure<HttpRound>[]
}

/** A row of the table: the books alone. */
export interface BooksScenario {
  readonly kind: "books"
  readonly name: string
  readonly title: string
  readonly accounts: number
  readonly in_flight: number
  readonly figures: readonly Figure<BooksRound>[]
}

/** A row of the table: the gateway as several processes on one port beside the gateway as one. */
export interface WorkersScenario {
  readonly kind: "workers"
  readonly name: string
  readonly title: string
  readonly workers: number
  recipe(size: Size): Recipe
  readonly prompt_bytes: number
  arrival(size: Size): Arrival
  readonly level: Level
  readonly figures: readonly Figure<WorkersRound>[]
}

export type Scenario = HttpScenario | BooksScenario | WorkersScenario

export type HttpRound = Readonly<Record<TargetName, Measured>> & { readonly yardstick_ms: number | null }

/** Hold and settle pairs per second. */
export interface BooksRound {
  readonly lanes: number
  readonly single: number
}

export interface WorkersRound {
  readonly one: Measured
  readonly several: Measured
}

/** What was found on one target in one round. */
export interface Measured {
  readonly report: JobReport
  readonly latency: Latencies
  readonly ttft: Latencies
  readonly inter_chunk: Latencies
  readonly lateness: Latencies
  readonly calls_per_s: number
  readonly good_per_s: number
  readonly events_per_s: number
  readonly output_tokens_per_s: number
  /** CPU of the target's process for each event, in microseconds. */
  readonly cpu_us_per_event: number
  /** What each connection has added to the memory of the target's process. */
  readonly bytes_per_connection: number
  /** The part of one core that the load generator itself took. */
  readonly load_cores: number
}

export function measuredOf(report: JobReport, arrival: Arrival): Measured {
  const seconds = report.measured_ms / 1000
  const { process } = report
  const grown_bytes = process === null ? 0 : process.resident_bytes - process.resident_before_bytes
  return {
    report,
    latency: Latencies.decode(report.latency),
    ttft: Latencies.decode(report.ttft),
    inter_chunk: Latencies.decode(report.inter_chunk),
    lateness: Latencies.decode(report.lateness),
    calls_per_s: report.calls / seconds,
    good_per_s: report.good / seconds,
    events_per_s: report.events / seconds,
    output_tokens_per_s: report.output_tokens / seconds,
    cpu_us_per_event: report.events === 0 ? 0 : ((process?.cpu_ms ?? 0) * 1000) / report.events,
    bytes_per_connection: "connections" in arrival ? grown_bytes / arrival.connections : 0,
    load_cores: report.load_cpu_ms / report.measured_ms,
  }
}

/** Whether a figure reaches its goal; with `slack`, as far as that many times off the mark. */
export function reaches(value: number, goal: Goal, slack = 1): boolean {
  if (goal === null) return true
  return "at_least" in goal ? value >= goal.at_least / slack : value <= goal.at_most * slack
}
