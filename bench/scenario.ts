import type { Static } from "@sinclair/typebox"
import type { AnswerSpec } from "./answer-spec.ts"
import type { Arrival, JobReport } from "./job.ts"
import { Latencies } from "./latencies.ts"
import type { PairsAnswer } from "./ledger-load.ts"
import type { CpuTimes } from "./process-status.ts"
import type { Reference } from "./reference.ts"
import type { TargetName } from "./rig.ts"

/** How long and how often scenarios are measured. */
export interface Size {
  readonly name: "quick" | "full"
  readonly rounds: number
  /** How long one target is measured in one round. */
  readonly measure_ms: number
  readonly warm_ms: number
}

/** The goal of a figure; null when it is only reported. */
export type Goal = { readonly at_least: number } | { readonly at_most: number } | null

/** One number of a scenario, computed in every round from its side-by-side measurements. */
export interface Figure<Round> {
  /** Mostly a quotient: `this / that`. */
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
  spec(size: Size): AnswerSpec
  readonly prompt_bytes: number
  arrival(size: Size): Arrival
  /** Whether both gateways are restarted before each round. */
  readonly fresh: boolean
  /** What is timed alone in the same round; null for none. */
  readonly reference: Reference | null
  readonly figures: readonly Figure<HttpRound>[]
}

/** A row of the table: the ledger without a gateway. */
export interface LedgerScenario {
  readonly kind: "ledger"
  readonly name: string
  readonly title: string
  readonly accounts: number
  readonly in_flight: number
  readonly figures: readonly Figure<LedgerRound>[]
}

/** A row of the table: the gateway as several processes on one port beside the gateway as one. */
export interface WorkersScenario {
  readonly kind: "workers"
  readonly name: string
  readonly title: string
  readonly workers: number
  spec(size: Size): AnswerSpec
  readonly prompt_bytes: number
  arrival(size: Size): Arrival
  readonly figures: readonly Figure<WorkersRound>[]
}

/** A row of the table: the ledger without a gateway in two shards beside the ledger in one. */
export interface ShardsScenario {
  readonly kind: "shards"
  readonly name: string
  readonly title: string
  accounts(size: Size): number
  readonly in_flight: number
  readonly figures: readonly Figure<ShardsRound>[]
}

export type Scenario = HttpScenario | LedgerScenario | WorkersScenario | ShardsScenario

export type HttpRound = Readonly<Record<TargetName, Measured>> & { readonly reference_ms: number | null }

export interface LedgerRound {
  readonly batch_queues: Pairs
  readonly single: Pairs
}

/** Hold and settle pairs, without a gateway. */
export interface Pairs {
  readonly per_s: number
  /** CPU of the process that holds and settles, and of each Postgres that it uses, in microseconds for each pair. */
  readonly process_us: number
  readonly postgres_us: readonly number[]
}

export interface ShardsRound {
  readonly one: Pairs
  /** As many pairs in flight as with one shard, so half as many in each. */
  readonly two: Pairs
  /** Twice as many in flight, so as many in each as with one shard. */
  readonly two_full: Pairs
}

export interface WorkersRound {
  readonly one: Measured
  readonly several: Measured
}

/** The measurements of one target in one round. */
export interface Measured {
  readonly report: JobReport
  readonly latency: Latencies
  readonly ttft: Latencies
  readonly inter_chunk: Latencies
  readonly calls_per_s: number
  readonly events_per_s: number
  /** CPU for each call, or for each event of streams that run for as long as is measured. */
  readonly cpu_per: "call" | "event"
  readonly cpu_us: CpuTimes
  /** Memory of the target's process added per connection. */
  readonly bytes_per_connection: number
}

export function measuredOf(report: JobReport, arrival: Arrival): Measured {
  const seconds = report.measured_ms / 1000
  const { memory, cpu_ms } = report
  const grown_bytes = memory === null ? 0 : memory.resident_bytes - memory.resident_before_bytes
  const cpu_per = arrival.kind === "held" ? "event" : "call"
  const count = cpu_per === "event" ? report.events : report.calls
  const each_us = (ms: number) => (count === 0 ? 0 : (ms * 1000) / count)
  return {
    report,
    latency: Latencies.decode(report.latency),
    ttft: Latencies.decode(report.ttft),
    inter_chunk: Latencies.decode(report.inter_chunk),
    calls_per_s: report.calls / seconds,
    events_per_s: report.events / seconds,
    cpu_per,
    cpu_us: {
      load: each_us(cpu_ms.load),
      target: each_us(cpu_ms.target),
      postgres: each_us(cpu_ms.postgres),
    },
    bytes_per_connection: "connections" in arrival ? grown_bytes / arrival.connections : 0,
  }
}

export function pairsOf({ pairs, duration_ms, cpu_ms }: Static<typeof PairsAnswer>): Pairs {
  return {
    per_s: (pairs * 1000) / duration_ms,
    process_us: (cpu_ms.process * 1000) / pairs,
    postgres_us: cpu_ms.postgres.map((ms) => (ms * 1000) / pairs),
  }
}

/** Whether a figure reaches its goal; with `slack`, it may miss by that factor. */
export function reaches(value: number, goal: Goal, slack = 1): boolean {
  if (goal === null) return true
  return "at_least" in goal ? value >= goal.at_least / slack : value <= goal.at_most * slack
}
