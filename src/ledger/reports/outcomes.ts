import { sql } from "drizzle-orm"
import { amount, count, optionalText, type RowOf, RowShape, text } from "../database/row-shape.ts"
import { piecesOf, type Span, scan } from "../database/span.ts"
import type { Db, Row } from "../database/statement.ts"
import { changesOf } from "./changes.ts"

/** Count and total charge of calls, by how they ended. */
const sums = new RowShape({
  state: text,
  basis: text,
  failure: optionalText,
  calls: count,
  charge_nano: amount,
})

type OutcomeSums = RowOf<typeof sums>

/** The calls of a span by how they ended. A correction is no call: its difference is a charge of what was settled (D13). */
export async function outcomes(database: Db, span: Span): Promise<readonly OutcomeSums[]> {
  const rows = await scan(database, (transaction, until) => {
    const changes = changesOf(piecesOf(span, until), { with_holds: false }, { ...span, is_total: true })
    return transaction.execute<Row>(sql`
    SELECT x.outcome::text AS state, x.basis::text AS basis, x.failure::text AS failure, sum(x.calls)::text AS calls,
      sum(x.charge_nano)::text AS charge_nano
    FROM ${changes} x GROUP BY x.outcome, x.basis, x.failure ORDER BY 1, 2, 3`)
  })
  return rows.map((row) => sums.read(row))
}

/** Adds the sums of several shards (D74), the most frequent first. */
export function addOutcomes(parts: readonly (readonly OutcomeSums[])[]): readonly OutcomeSums[] {
  const wordsOf = ({ state, basis, failure }: OutcomeSums) => [state, basis, failure ?? LAST].join()
  return sums
    .merge(parts)
    .sort((one, other) => other.calls - one.calls || (wordsOf(one) < wordsOf(other) ? -1 : 1))
}

/** Comes after every word, as a null does in a database. */
const LAST = "~"
