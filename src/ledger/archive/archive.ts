import { and, asc, eq, isNull, type SQL, sql } from "drizzle-orm"
import type { DatabaseConnection, Runner } from "../database/connection.ts"
import { errorCode } from "../database/database-errors.ts"
import { type Db, type Statement, statement, textOf } from "../database/statement.ts"
import { feed_epochs, isNative } from "../schema/feed.ts"
import { sinks } from "../schema/sinks.ts"
import { months, seals, summed } from "../schema/sums.ts"
import { JOURNAL_TABLES, partitionOf } from "./months.ts"

/** Longest wait for older transactions; then the next hour completes the detaching. */
const LOCK_MS = 2_000
/** Longer than `LOCK_MS`, so that a statement that waits for a lock ends by itself. */
const STATEMENT_MS = 30_000

/** Detaches the first month kept long enough (D75), on its own connection: it runs in no transaction. */
export async function detachMonth(
  database: Db,
  connect: () => DatabaseConnection,
  keep_months: number,
): Promise<string | null> {
  const month = await dueMonth(database, keep_months)
  if (month === null) return null
  if (await isAwaited(database, month)) return null
  // From here on nobody reads its entries.
  await database
    .update(months)
    .set({ detached_at: sql`now()`, ...lastOf(month) })
    .where(and(eq(months.month, month), isNull(months.detached_at)))
  const connection = connect()
  try {
    await connection.run(setLockTimeout, [], STATEMENT_MS)
    for (const table of JOURNAL_TABLES) await detach(connection, table, month)
  } finally {
    await connection.end()
  }
  return month
}

/**
 * True if a sink has not got all events of a month that is still attached (D96). A sink that reads restored entries is in the
 * series before its epoch's. One of an unknown epoch cannot go on, whatever is detached.
 */
async function isAwaited(database: Db, month: string): Promise<boolean> {
  const { last_series, last_xid } = lastOf(month)
  const waiting = await database.execute(sql`
    SELECT FROM ${months} m WHERE m.month = ${month}::date AND m.detached_at IS NULL
      AND EXISTS (SELECT FROM ${sinks} s JOIN ${feed_epochs} e ON e.id = s.epoch
        WHERE (e.series - s.is_restored::int, s.xid) <= (${last_series}, ${last_xid}))`)
  return waiting.length > 0
}

/** The last event of a month for readers of the feed (D96). Restored entries are in the series before. */
function lastOf(month: string) {
  const series = sql`(SELECT e.series + (NOT ${isNative("e")})::int FROM ${feed_epochs} e ORDER BY e.number DESC LIMIT 1)`
  const lastXid = (which: SQL) => {
    const lasts = ["ends", "corrections", "attempts"].map((table) => {
      const partition = sql.raw(partitionOf(table, month))
      return sql`(SELECT x.xid FROM ${partition} x WHERE x.xid IS NOT NULL AND ${which} ORDER BY x.xid DESC LIMIT 1)`
    })
    return sql`greatest(${sql.join(lasts, sql`, `)})`
  }
  const native = lastXid(sql`(${series} = 1 OR ${isNative("x")})`)
  return {
    last_xid: sql`coalesce(${native}, ${lastXid(sql`true`)})`,
    last_series: sql`(${series} - (${native} IS NULL)::int)`,
  }
}

const setLockTimeout = statement("sweep", sql.raw(`SET lock_timeout = '${LOCK_MS}ms'`))

const JOURNAL = sql.raw(JOURNAL_TABLES.map((table) => `'tollgate.${table}'`).join(", "))

/** The first month that is attached, and was kept long enough or is being detached already. */
async function dueMonth(database: Db, keep_months: number): Promise<string | null> {
  const [row] = await database.execute<{ month: string; due: boolean }>(sql`
    SELECT m.month::text AS month, m.detached_at IS NOT NULL OR (s.sealed_at < (SELECT labels_until FROM ${summed})
      AND (m.month + (1 + ${keep_months}::int) * interval '1 month') AT TIME ZONE 'UTC' <= now()) AS due
    FROM ${months} m LEFT JOIN ${seals} s ON s.month = m.month
    WHERE m.detached_at IS NULL OR EXISTS (SELECT FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid
      WHERE i.inhparent = ANY (ARRAY[${JOURNAL}]::regclass[])
        AND p.relname ~ (to_char(m.month, 'YYYY_MM') || '$'))
    ORDER BY m.month LIMIT 1`)
  return row?.due === true ? row.month : null
}

/** Names are in the texts, because those are rewritten for another schema (D74). */
const findAttached = (whole: string, partition: string): Statement =>
  statement(
    "sweep",
    sql.raw(`SELECT i.inhdetachpending::text AS pending FROM pg_inherits i
      WHERE i.inhrelid = to_regclass('${partition}') AND i.inhparent = to_regclass('${whole}')`),
  )

/** SQLSTATEs if another gateway does the same: a deadlock, detaching has begun already, or has ended. */
const RACED = new Set(["40P01", "55000", "42P01"])
const TRIES = 3

/** Detaches a table. If another gateway does the same, one of them finds it detached. */
async function detach(connection: Runner, table: string, month: string): Promise<void> {
  const [whole, partition] = [`tollgate.${table}`, partitionOf(table, month)]
  for (let tries = 1; ; tries += 1) {
    const [found] = await connection.run(findAttached(whole, partition), [], STATEMENT_MS)
    if (found === undefined) return
    const how = textOf(found, "pending") === "true" ? "FINALIZE" : "CONCURRENTLY"
    try {
      await connection.run(detaching(whole, partition, how), [], STATEMENT_MS)
      return
    } catch (error) {
      if (tries === TRIES || !RACED.has(errorCode(error))) throw error
    }
  }
}

const detaching = (whole: string, partition: string, how: string): Statement =>
  statement("sweep", sql.raw(`ALTER TABLE ${whole} DETACH PARTITION ${partition} ${how}`))

export type Archive = Pick<typeof months.$inferSelect, "month" | "archive">

/** The archive of a call with this id; null if its month is attached. */
export async function archiveOf(database: Db, id: string): Promise<Archive | null> {
  const [found] = await database
    .select({ month: months.month, archive: months.archive, detached_at: months.detached_at })
    .from(months)
    .where(sql`${months.to_id} > ${id}::uuid`)
    .orderBy(asc(months.to_id))
    .limit(1)
  return found === undefined || found.detached_at === null ? null : found
}

/** Result of a request about a month's dump. `unsealed`: there is no seal. `different`: the dump's hash is not the seal's. */
export type Archived = "done" | "unsealed" | "different" | "attached"

/** Records the hash and the location of a sealed month's dump. */
export async function noteDump(
  database: Db,
  month: string,
  dump: { readonly hash: string; readonly archive: string },
): Promise<Archived> {
  const [seal] = await database.select().from(seals).where(eq(seals.month, month))
  if (seal === undefined) return "unsealed"
  if (seal.hash !== dump.hash) return "different"
  await database
    .update(months)
    .set({ dump_hash: dump.hash, archive: dump.archive })
    .where(eq(months.month, month))
  return "done"
}

/** Drops the tables of a detached month whose dump has the hash of its seal. Idempotent. */
export async function dropMonth(database: Db, month: string): Promise<Archived> {
  return database.transaction(async (transaction) => {
    await transaction.execute(sql`SELECT set_config('lock_timeout', ${`${LOCK_MS}ms`}, true)`)
    const [found] = await transaction
      .select({ seal: seals.hash, dump: months.dump_hash, detached_at: months.detached_at })
      .from(months)
      .innerJoin(seals, eq(seals.month, months.month))
      .where(eq(months.month, month))
      .for("update")
    if (found === undefined) return "unsealed"
    if (found.dump !== found.seal) return "different"
    const partitions = JOURNAL_TABLES.map((table) => partitionOf(table, month))
    const tables = partitions.map((name) => `to_regclass('${name}')`).join(", ")
    const attached = await transaction.execute(
      sql.raw(`SELECT FROM pg_inherits WHERE inhrelid IN (${tables})`),
    )
    if (found.detached_at === null || attached.length > 0) return "attached"
    for (const name of partitions) await transaction.execute(sql.raw(`DROP TABLE IF EXISTS ${name}`))
    await transaction
      .update(months)
      .set({ dropped_at: sql`now()` })
      .where(and(eq(months.month, month), isNull(months.dropped_at)))
    return "done"
  })
}
