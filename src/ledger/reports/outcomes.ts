import { sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { corrections, ends } from "../schema.ts"
import { endedWithin, type Span, scan } from "./span.ts"

/** How calls ended, how many, and what they were charged together. */
export interface Outcome {
  readonly state: string
  readonly basis: string
  readonly failure: string | null
  readonly calls: number
  readonly charge_nano: bigint
}

interface Row extends Record<string, unknown> {
  readonly state: string
  readonly basis: string | null
  readonly failure: string | null
  readonly calls: string
  readonly charge: string
}

const e = alias(ends, "e")
const c = alias(corrections, "c")

/** The calls of a span by how they ended, the most frequent first; a corrected one as it was settled in the end. */
export async function outcomes(database: PostgresJsDatabase, span: Span): Promise<readonly Outcome[]> {
  const rows = await scan(database, (transaction) =>
    transaction.execute<Row>(sql`
    SELECT CASE WHEN ${c.id} IS NULL THEN ${e.outcome}::text ELSE 'settled' END AS state,
      coalesce(${c.basis}, ${e.basis})::text AS basis,
      (CASE WHEN ${c.id} IS NULL THEN ${e.failure} ELSE ${c.failure} END)::text AS failure, count(*) AS calls,
      sum(coalesce(${c.charge_nano}, ${e.charge_nano}))::text AS charge
    FROM ${ends} ${e} LEFT JOIN ${corrections} ${c} ON ${c.id} = ${e.id} WHERE ${endedWithin(span)}
    GROUP BY 1, 2, 3 ORDER BY count(*) DESC, 1, 2, 3`),
  )
  return rows.map(({ state, basis, failure, calls, charge }) => ({
    state,
    basis: basis ?? "none",
    failure,
    calls: Number(calls),
    charge_nano: BigInt(charge),
  }))
}
