import { sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { months } from "../schema/sums.ts"

/** Any number will do, as long as every gateway takes the same. */
const MONTHS_LOCK = 7_061_982
/** Months added ahead of the current one, so that a month without a running gateway does no harm. */
const AHEAD = 2
/** Longest wait for one lock. Calls do not wait behind it, because their locks do not conflict with it. */
const LOCK_MS = 2_000

/** The tables of the journal that have a partition for each month. */
export const JOURNAL_TABLES = ["holds", "ends", "corrections", "attempts"] as const

/** The table with the entries of a month, given by its first day: attached or not. */
export const partitionOf = (table: string, month: string) =>
  `tollgate.${table}_${month.slice(0, 7).replace("-", "_")}`

/**
 * Makes the partitions of this month and the next two, by the database's clock (D71). A new table is empty, so it is attached
 * immediately, under a lock that calls do not wait for. Processes take turns.
 */
export async function addMonths(database: PostgresJsDatabase, ahead = AHEAD): Promise<void> {
  while (await addMonth(database, ahead)) {}
}

/** Adds the next month. False if there was none to add. */
function addMonth(database: PostgresJsDatabase, ahead: number): Promise<boolean> {
  return database.transaction(async (transaction) => {
    await transaction.execute(sql`SELECT set_config('lock_timeout', ${`${LOCK_MS}ms`}, true)`)
    await transaction.execute(sql`SELECT pg_advisory_xact_lock(${MONTHS_LOCK})`)
    const [due] = await transaction.execute<{ month: string; from_id: string; to_id: string }>(sql`
      SELECT to_char(next.month, 'YYYY-MM-DD') AS month, last.to_id AS from_id,
        tollgate.month_id((next.month + interval '1 month')::date) AS to_id
      FROM (SELECT month, to_id FROM ${months} ORDER BY month DESC LIMIT 1) last
        CROSS JOIN LATERAL (SELECT (last.month + interval '1 month')::date AS month) next
      WHERE next.month <= now() AT TIME ZONE 'UTC' + ${ahead}::int * interval '1 month'`)
    if (due === undefined) return false
    const { month, from_id, to_id } = due
    for (const table of JOURNAL_TABLES) {
      const whole = sql.raw(`tollgate."${table}"`)
      const partition = sql.raw(partitionOf(table, month))
      const [from, to] = [sql.raw(`'${from_id}'`), sql.raw(`'${to_id}'`)]
      await transaction.execute(sql`CREATE TABLE ${partition} (LIKE ${whole} INCLUDING ALL,
        CONSTRAINT in_month CHECK (id >= ${from} AND id < ${to}))`)
      // The parent's trigger does not fire for a statement that names the partition.
      await transaction.execute(sql`CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON ${partition}
        FOR EACH STATEMENT EXECUTE FUNCTION tollgate.refuse_change()`)
      await transaction.execute(
        sql`ALTER TABLE ${whole} ATTACH PARTITION ${partition} FOR VALUES FROM (${from}) TO (${to})`,
      )
    }
    await transaction.insert(months).values({ month, from_id, to_id })
    return true
  })
}
