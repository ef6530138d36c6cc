import { type SQL, sql } from "drizzle-orm"
import type { Db, Row } from "./statement.ts"

/** Reads in one snapshot, with limits to each statement (`limitStatements`). */
export function inSnapshot<Answer>(
  database: Db,
  statement_ms: number,
  read: (transaction: Db) => Promise<Answer>,
  more?: Readonly<Record<string, string>>,
): Promise<Answer> {
  return database.transaction(
    async (transaction) => {
      await limitStatements(transaction, statement_ms, more)
      return await read(transaction)
    },
    { isolationLevel: "repeatable read", accessMode: "read only" },
  )
}

/** Limits each statement to `statement_ms` and one core, so that calls keep the others. `more`: settings. */
export async function limitStatements(
  transaction: Db,
  statement_ms: number,
  more: Readonly<Record<string, string>> = {},
): Promise<void> {
  const settings = { max_parallel_workers_per_gather: "0", statement_timeout: String(statement_ms), ...more }
  const set = Object.entries(settings).map(([name, value]) => sql`set_config(${name}, ${value}, true)`)
  await transaction.execute(sql`SELECT ${sql.join(set, sql.raw(", "))}`)
}

const ROWS_AT_ONCE = sql.raw("1000")

/** The rows of a query in a transaction, 1,000 at a time. One query of a transaction can be read so. */
export async function* inPages(transaction: Db, query: SQL): AsyncGenerator<readonly Row[], void, void> {
  await transaction.execute(sql`DECLARE pages CURSOR FOR ${query}`)
  for (;;) {
    const rows = await transaction.execute<Row>(sql`FETCH ${ROWS_AT_ONCE} FROM pages`)
    if (rows.length === 0) return
    yield rows
  }
}
