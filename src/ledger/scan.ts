import { sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"

/** How long the books may be kept busy with one question. */
const STATEMENT_MS = 8_000

/** Asks what may read much of the books: on one core of the database at most, for the other is for the calls, and not for long. */
export function scan<Answer>(
  database: PostgresJsDatabase,
  ask: (books: Pick<PostgresJsDatabase, "execute">) => Promise<Answer>,
): Promise<Answer> {
  return database.transaction(async (transaction) => {
    await transaction.execute(sql`SELECT set_config('max_parallel_workers_per_gather', '0', true),
      set_config('statement_timeout', ${String(STATEMENT_MS)}, true)`)
    return await ask(transaction)
  })
}
