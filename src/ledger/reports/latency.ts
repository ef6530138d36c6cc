import { sql } from "drizzle-orm"
import type { DistributionBody, LatencyBody } from "../../wire/statistics.ts"
import { piecesOf, type Span, scan } from "../database/span.ts"
import type { Db } from "../database/statement.ts"
import { latenciesOf } from "./changes.ts"

type CallsByDuration = readonly (readonly [ms: number, calls: number])[]

/** Five to a power of ten, as far apart from one another as whole milliseconds let them be. */
const STEPS = [1, 1.6, 2.5, 4, 6.3]
const BOUNDS_MS = [
  0,
  ...Array.from({ length: 8 }, (_, power) => STEPS.map((step) => Math.round(step * 10 ** power))).flat(),
].filter((bound, at, all) => bound !== all[at - 1])

/** Percentiles by the nearest rank, and a histogram with logarithmic buckets. */
export function distribution(counted: CallsByDuration): DistributionBody {
  const sorted = [...counted].sort(([left], [right]) => left - right)
  const calls = sorted.reduce((sum, [, count]) => sum + count, 0)
  return {
    calls,
    p50_ms: percentile(sorted, calls, 0.5),
    p90_ms: percentile(sorted, calls, 0.9),
    p99_ms: percentile(sorted, calls, 0.99),
    buckets: buckets(sorted),
  }
}

function percentile(sorted: CallsByDuration, calls: number, share: number): number | null {
  let rank = Math.ceil(calls * share)
  for (const [ms, count] of sorted) {
    rank -= count
    if (rank <= 0) return ms
  }
  return null
}

function buckets(sorted: CallsByDuration): DistributionBody["buckets"] {
  const counts = new Map<number, number>()
  for (const [ms, calls] of sorted) {
    const at = BOUNDS_MS.findLastIndex((bound) => bound <= ms)
    counts.set(at, (counts.get(at) ?? 0) + calls)
  }
  const indexes = [...counts.keys()]
  if (indexes.length === 0) return []
  const [first, last] = [Math.min(...indexes), Math.max(...indexes)]
  return BOUNDS_MS.slice(first, last + 1).map((from_ms, at) => ({
    from_ms,
    below_ms: BOUNDS_MS[first + at + 1] ?? from_ms * 10,
    calls: counts.get(first + at) ?? 0,
  }))
}

type Latency = Pick<LatencyBody, "ttft" | "duration">

interface LatencyRow extends Record<string, unknown> {
  readonly is_ttft: boolean
  readonly ms: number
  readonly calls: string
}

/** Distributions of the durations of a span's calls, counted in one pass by values of three digits. */
export async function latencies(
  database: Db,
  span: Span,
): Promise<Readonly<Record<keyof Latency, CallsByDuration>>> {
  const rows = await scan(database, (transaction, until) =>
    transaction.execute<LatencyRow>(sql`
    SELECT v.is_ttft, v.ms, sum(v.calls) AS calls FROM ${latenciesOf(piecesOf(span, until), { ...span, is_total: true })} v
    GROUP BY v.is_ttft, v.ms`),
  )
  const counted = (is_ttft: boolean) =>
    rows.filter((row) => row.is_ttft === is_ttft).map(({ ms, calls }) => [ms, Number(calls)] as const)
  return { ttft: counted(true), duration: counted(false) }
}

/** Adds the values of several shards (D74), before percentiles are read. */
export function addLatencies(parts: readonly Readonly<Record<keyof Latency, CallsByDuration>>[]): Latency {
  return {
    ttft: distribution(parts.flatMap(({ ttft }) => ttft)),
    duration: distribution(parts.flatMap(({ duration }) => duration)),
  }
}
