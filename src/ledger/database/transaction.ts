import { sql } from "drizzle-orm"
import type { Db } from "./statement.ts"

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
