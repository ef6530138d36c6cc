import type { AnswerSpec } from "./answer-spec.ts"
import type { Arrival, Report } from "./job.ts"
import { Latencies } from "./latencies.ts"
import type { Pairs } from "./ledger-load.ts"
import type { CpuTimes } from "./process-status.ts"
import type { Reference } from "./reference.ts"
import type { TargetName } from "./rig.ts"

/** How long and how often scenarios are measured. */
export interface Size {
  readonly name: "quick" | "full"
  readonly rounds: number
  /** How long one side is measured in one round. */
  readonly measure_ms: number
  readonly warm_ms: number
}

/** The goal of a figure; null when it is only reported. */
export type Goal = { readonly at_least: number } | { readonly at_most: number } | null

/** One number of a scenario, computed in every round from its side-by-side measurements. */
export interface Figure<Side extends string> {
  /** Mostly a quotient: `this / that`. */
  readonly name: string
  readonly unit: "times" | "KiB"
  readonly goal: Goal
  /** From what was measured of each side, and the time of the reference, which is NaN without one. */
  value(of: (side: Side) => Measured, reference_ms: number): number
}

interface Row<Side extends string> {
  readonly name: string
  readonly title: string
  readonly figures: readonly Figure<Side>[]
}

/** A row of the table: a load over HTTP, the same on every side. */
export interface HttpScenario<Side extends string> extends Row<Side> {
  readonly kind: "http"
  /** Measured in this order in each round. */
  readonly sides: readonly HttpSide<Side>[]
  spec(size: Size): AnswerSpec
  readonly prompt_bytes: number
  arrival(size: Size): Arrival
  /** True if both gateways are restarted before each round. */
  readonly fresh: boolean
  /** What is timed alone in the same round; null for none. */
  readonly reference: Reference | null
}

export interface HttpSide<Side extends string> {
  readonly name: Side
  readonly target: TargetName
  /** Restarts the gateway with so many workers; null leaves it as it is. */
  readonly workers: number | null
}

/** A row of the table: pairs of hold and settlement in the ledger, without a gateway. */
export interface PairsScenario<Side extends string> extends Row<Side> {
  readonly kind: "pairs"
  readonly sides: readonly PairsSide<Side>[]
  accounts(size: Size): number
}

/** Sides with as many shards have one process, and one Postgres for each shard. */
export interface PairsSide<Side extends string> {
  readonly name: Side
  readonly shards: number
  readonly how: Pairs["how"]
  readonly in_flight: number
}

export type Scenario = HttpScenario<string> | PairsScenario<string>

/** The measurements of one side in one round. */
export interface Measured {
  /** What CPU and rate are of: calls, events of streams that run for as long as is measured, or pairs of hold and settlement. */
  readonly per: "call" | "event" | "pair"
  /** Calls or pairs. */
  readonly per_s: number
  readonly events_per_s: number
  readonly latency: Latencies
  readonly ttft: Latencies
  readonly inter_chunk: Latencies
  readonly cpu_ms: CpuTimes
  /** CPU for each call, event or pair, in microseconds. */
  readonly cpu_us: CpuTimes
  /** Memory of the target's process added per connection. */
  readonly bytes_per_connection: number
  readonly failures: Readonly<Record<string, number>>
}

export function measuredOf(report: Report, per: Measured["per"], connections: number): Measured {
  const seconds = report.measured_ms / 1000
  const { cpu_ms, calls, events, failures } = report
  const count = per === "event" ? events : calls
  const each_us = (ms: number) => (count === 0 ? 0 : (ms * 1000) / count)
  return {
    per,
    per_s: calls / seconds,
    events_per_s: events / seconds,
    latency: Latencies.decode(report.latency),
    ttft: Latencies.decode(report.ttft),
    inter_chunk: Latencies.decode(report.inter_chunk),
    cpu_ms,
    cpu_us: {
      load: each_us(cpu_ms.load),
      target: each_us(cpu_ms.target),
      postgres: cpu_ms.postgres.map(each_us),
    },
    bytes_per_connection: report.grown_bytes / connections,
    failures,
  }
}

/** True if a figure reaches its goal; with `slack`, it may miss by that factor. */
export function reaches(value: number, goal: Goal, slack = 1): boolean {
  if (goal === null) return true
  return "at_least" in goal ? value >= goal.at_least / slack : value <= goal.at_most * slack
}
