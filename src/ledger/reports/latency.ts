import { type SQL, sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { ends } from "../schema.ts"
import { type Distribution, distribution } from "./distribution.ts"
import { endedWithin, type Span, scan } from "./span.ts"

const e = alias(ends, "e")

export interface Latency {
  /** From admission to the first output, of the calls that had some. */
  readonly ttft: Distribution
  /** From admission to the settlement; the calls of a dead gateway have none. */
  readonly duration: Distribution
}

interface Row extends Record<string, unknown> {
  readonly kind: "ttft" | "duration"
  readonly ms: number
  readonly calls: string
}

/** How long the calls of a span took, counted in one pass by values of three digits. */
export async function latency(database: PostgresJsDatabase, span: Span): Promise<Latency> {
  const rows = await scan(database, (transaction) =>
    transaction.execute<Row>(sql`
    SELECT CASE grouping(ttft) WHEN 0 THEN 'ttft' ELSE 'duration' END AS kind,
      CASE grouping(ttft) WHEN 0 THEN ttft ELSE duration END AS ms, count(*) AS calls
    FROM (
      SELECT ${rounded(sql`${e.ttft_ms}`)} AS ttft, ${rounded(sql`${e.duration_ms}`)} AS duration
      FROM ${ends} ${e} WHERE ${endedWithin(span)}
    ) AS call
    GROUP BY GROUPING SETS ((ttft), (duration))
    HAVING CASE grouping(ttft) WHEN 0 THEN ttft ELSE duration END IS NOT NULL`),
  )
  const counted = (kind: Row["kind"]) =>
    distribution(rows.filter((row) => row.kind === kind).map(({ ms, calls }) => [ms, Number(calls)]))
  return { ttft: counted("ttft"), duration: counted("duration") }
}

/** Rounded down to three digits: some thousand values at most, whatever the calls. */
function rounded(ms: SQL): SQL {
  return sql`CASE WHEN ${ms} < 1000 THEN ${ms} WHEN ${ms} < 10000 THEN ${ms} / 10 * 10
    WHEN ${ms} < 100000 THEN ${ms} / 100 * 100 ELSE ${ms} / 1000 * 1000 END`
}
