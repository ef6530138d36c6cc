import { type SQL, sql } from "drizzle-orm"
import type { Db } from "../database/statement.ts"
import { months, seals } from "../schema/sums.ts"

/** Any number will do, as long as every gateway takes the same. */
const MONTHS_LOCK = 7_061_982
/** Months added ahead of the current one, so that a month without a running gateway does no harm. */
const AHEAD = 2
/** Longest wait for one lock. Calls do not wait behind it, because their locks do not conflict with it. */
const LOCK_MS = 2_000

export const JOURNAL_TABLES = ["holds", "ends", "corrections", "attempts"] as const
const TABLES = sql.raw(JOURNAL_TABLES.map((table) => `'${table}'`).join(", "))

/** The table with the entries of a month, given by its first day: attached or not. */
export const partitionOf = (table: string, month: string) =>
  `tollgate.${table}_${month.slice(0, 7).replace("-", "_")}`

/** Makes the partitions of this month and the next two (D71), and what earlier ones lack, without delaying calls. */
export async function addMonths(database: Db, ahead = AHEAD): Promise<void> {
  while (await addMonth(database, ahead)) {}
}

function addMonth(database: Db, ahead: number): Promise<boolean> {
  return database.transaction(async (transaction) => {
    await transaction.execute(sql`SELECT set_config('lock_timeout', ${`${LOCK_MS}ms`}, true)`)
    await transaction.execute(sql`SELECT pg_advisory_xact_lock(${MONTHS_LOCK})`)
    const added = await transaction.execute(sql`
      INSERT INTO ${months} (month, from_id, to_id)
      SELECT next.month, last.to_id, tollgate.month_id((next.month + interval '1 month')::date)
      FROM (SELECT month, to_id FROM ${months} ORDER BY month DESC LIMIT 1) last
        CROSS JOIN LATERAL (SELECT (last.month + interval '1 month')::date AS month) next
      WHERE next.month <= now() AT TIME ZONE 'UTC' + ${ahead}::int * interval '1 month'
      RETURNING month`)
    for (const partition of await missingIn(transaction)) await addPartition(transaction, partition)
    return added.length > 0
  })
}

interface Partition extends Record<string, unknown> {
  readonly table: string
  readonly month: string
  /** Null for the first month. */
  readonly from_id: string | null
  readonly to_id: string
  readonly is_sealed: boolean
  readonly is_detached: boolean
}

/** The partitions that the months lack. Their rows are locked, so that none of the months is dropped meanwhile. */
function missingIn(transaction: Db): Promise<readonly Partition[]> {
  return transaction.execute<Partition>(sql`
    SELECT t.name AS table, m.month::text AS month, m.from_id, m.to_id, m.detached_at IS NOT NULL AS is_detached,
      EXISTS (SELECT FROM ${seals} s WHERE s.month = m.month) AS is_sealed
    FROM ${months} m CROSS JOIN unnest(ARRAY[${TABLES}]) AS t (name)
    WHERE m.dropped_at IS NULL AND to_regclass('tollgate.' || t.name || '_' || to_char(m.month, 'YYYY_MM')) IS NULL
    ORDER BY m.month FOR UPDATE OF m`)
}

/** A sealed month refuses entries, and a detached one is not attached. */
async function addPartition(transaction: Db, added: Partition): Promise<void> {
  const { table, month, from_id, to_id, is_sealed, is_detached } = added
  const whole = sql.raw(`tollgate."${table}"`)
  const partition = sql.raw(partitionOf(table, month))
  const bounds = sql.raw(`${from_id === null ? "" : `id >= '${from_id}' AND `}id < '${to_id}'`)
  await transaction.execute(
    sql`CREATE TABLE ${partition} (LIKE ${whole} INCLUDING ALL, CONSTRAINT in_month CHECK (${bounds}))`,
  )
  // The parent's trigger does not fire for a statement that names the partition.
  await transaction.execute(sql`CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON ${partition}
    FOR EACH STATEMENT EXECUTE FUNCTION tollgate.refuse_change()`)
  if (is_sealed) await transaction.execute(refusingEntries(table, month))
  if (is_detached) return
  const range = sql.raw(`FROM (${from_id === null ? "MINVALUE" : `'${from_id}'`}) TO ('${to_id}')`)
  await transaction.execute(sql`ALTER TABLE ${whole} ATTACH PARTITION ${partition} FOR VALUES ${range}`)
}

export const refusingEntries = (table: string, month: string): SQL =>
  sql.raw(`CREATE TRIGGER month_is_sealed BEFORE INSERT ON ${partitionOf(table, month)}
    FOR EACH ROW EXECUTE FUNCTION tollgate.refuse_entry()`)
