import { sql } from "drizzle-orm"
import type { Connection } from "./connection.ts"
import { accounts, book, keys, reservations } from "./schema.ts"
import { type Statement, statement, textOf } from "./statement.ts"

const STATEMENT_MS = 5_000

/** Tables that are more than twice as large as the planner believes. */
const findGrown = statement(
  "tend",
  sql`
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = '${sql.raw(book.schemaName)}' AND c.relname IN ('accounts', 'keys', 'reservations')
  AND pg_relation_size(c.oid) > 2 * greatest(c.relpages, 8) * current_setting('block_size')::bigint
ORDER BY c.relname`,
)

const analyses: Readonly<Record<string, Statement>> = {
  accounts: statement("tend", sql`ANALYZE (SKIP_LOCKED) ${accounts}`),
  keys: statement("tend", sql`ANALYZE (SKIP_LOCKED) ${keys}`),
  reservations: statement("tend", sql`ANALYZE (SKIP_LOCKED) ${reservations}`),
}

/**
 * Tells the planner when a table has grown. Prepared statements keep the plan they were given while the table was small, a scan,
 * until the table is analysed; autovacuum comes within a minute, by which time a busy table has a hundred thousand rows.
 */
export async function tend(connection: Connection): Promise<void> {
  for (const row of await connection.run(findGrown, [], STATEMENT_MS)) {
    const analysis = analyses[textOf(row, "relname")]
    if (analysis !== undefined) await connection.run(analysis, [], STATEMENT_MS)
  }
}
