import { sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { scan } from "./scan.ts"
import { reservations } from "./schema.ts"
import { endedWithin, type Span } from "./span.ts"

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

/** The calls of a span by how they ended, the most frequent first. */
export async function outcomes(database: PostgresJsDatabase, span: Span): Promise<readonly Outcome[]> {
  const rows = await scan(database, (books) =>
    books.execute<Row>(sql`
    SELECT state, basis, failure, count(*) AS calls, sum(charge_nano)::text AS charge
    FROM ${reservations} WHERE ${endedWithin(span)}
    GROUP BY state, basis, failure ORDER BY count(*) DESC, state, basis, failure`),
  )
  return rows.map(({ state, basis, failure, calls, charge }) => ({
    state,
    basis: basis ?? "none",
    failure,
    calls: Number(calls),
    charge_nano: BigInt(charge),
  }))
}
