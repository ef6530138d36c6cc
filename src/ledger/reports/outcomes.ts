import { sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { piecesOf, type Span, scan } from "../database/span.ts"
import { nanoOf, type Row, textOf, textOrNull } from "../database/statement.ts"
import { changesOf } from "./changes.ts"

/** Count and total charge of calls, by how they ended. */
export interface OutcomeSums {
  readonly state: string
  readonly basis: string
  readonly failure: string | null
  readonly calls: number
  readonly charge_nano: bigint
}

/**
 * The calls of a span by how they ended, the most frequent first. A correction is no call: its difference is a charge of
 * what was settled (D13).
 */
export async function outcomes(database: PostgresJsDatabase, span: Span): Promise<readonly OutcomeSums[]> {
  const rows = await scan(database, (transaction, until) => {
    const changes = changesOf(piecesOf(span, until), { with_holds: false }, { ...span, is_total: true })
    return transaction.execute<Row>(sql`
    SELECT x.outcome::text AS state, x.basis::text AS basis, x.failure::text AS failure, sum(x.calls)::text AS calls,
      sum(x.charge_nano)::text AS charge
    FROM ${changes} x GROUP BY x.outcome, x.basis, x.failure ORDER BY sum(x.calls) DESC, 1, 2, 3`)
  })
  return rows.map((row) => ({
    state: textOf(row, "state"),
    basis: textOf(row, "basis"),
    failure: textOrNull(row, "failure"),
    calls: Number(textOf(row, "calls")),
    charge_nano: nanoOf(row, "charge"),
  }))
}
