import { sql } from "drizzle-orm"
import type { Db } from "../database/db.ts"
import { piecesOf, type Span, scan } from "../database/span.ts"
import { latenciesOf } from "./changes.ts"
import { type CallsByDuration, type Distribution, distribution } from "./distribution.ts"

interface Latency {
  /** From admission to the first output, of the calls that had some. */
  readonly ttft: Distribution
  /** From admission to the settlement; the calls of a dead gateway have none. */
  readonly duration: Distribution
}

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
