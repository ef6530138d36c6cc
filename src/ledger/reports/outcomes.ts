import { sql } from "drizzle-orm"
import { amount, count, optionalText, type RowOf, RowShape, text } from "../database/row-shape.ts"
import { piecesOf, type Span, scan } from "../database/span.ts"
import type { Db, Row } from "../database/statement.ts"
import { changesOf } from "./changes.ts"

/** Comes after every word, as a null does in a database. */
const LAST = "~"
const wordsOf = (sums: Readonly<Record<"state" | "basis" | "failure", string | null>>) =>
  [sums.state, sums.basis, sums.failure ?? LAST].join()

/** Count and total charge of calls, by how they ended, the most frequent first. */
export const outcomeSums = new RowShape(
  { state: text, basis: text, failure: optionalText, calls: count, charge_nano: amount },
  (one, other) => other.calls - one.calls || (wordsOf(one) < wordsOf(other) ? -1 : 1),
)

/** The calls of a span by how they ended. A correction is no call: its difference is a charge of what was settled (D13). */
export async function outcomes(database: Db, span: Span): Promise<RowOf<typeof outcomeSums>[]> {
  const rows = await scan(database, (transaction, until) => {
    const changes = changesOf(piecesOf(span, until), { with_holds: false }, { ...span, is_total: true })
    return transaction.execute<Row>(sql`
    SELECT x.outcome::text AS state, x.basis::text AS basis, x.failure::text AS failure, sum(x.calls)::text AS calls,
      sum(x.charge_nano)::text AS charge_nano
    FROM ${changes} x GROUP BY x.outcome, x.basis, x.failure ORDER BY 1, 2, 3`)
  })
  return rows.map((row) => outcomeSums.read(row))
}
