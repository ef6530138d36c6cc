import { desc, eq, type SQL, sql } from "drizzle-orm"
import { floorId, madeMs, NIL_ID } from "../../id.ts"
import { recordOf } from "../../kinds.ts"
import { HOUR_MS } from "../database/span.ts"
import { type Db, firstRow } from "../database/statement.ts"
import { inSnapshot, limitStatements } from "../database/transaction.ts"
import type { OfShard } from "../entries.ts"
import { months, seal_hours, seal_sums, seals } from "../schema/sums.ts"
import { corrections, ends, holds } from "../schema/tables.ts"
import { areRight } from "./audit.ts"
import { JOURNAL_TABLES, partitionOf, refusingEntries } from "./months.ts"
import { type Ids, paceOf, readSlice, slicesOf, type WorkPace, within } from "./slices.ts"

/** Minimum time between a month's end and its seal, so that spooled entries can arrive. */
const SEAL_AFTER_MS = 7 * 24 * HOUR_MS
/** Any number will do, as long as every gateway takes the same. */
const SEALS_LOCK = 7_061_983
/** Longest wait for one lock, because writers of an old month wait behind it. */
const LOCK_MS = 200
const STATEMENT_MS = 60_000
/** Share of the time in which sealing works, so that calls keep the rest of the database. */
const SHARE = 0.25
const CHUNK = 5_000

interface SealedMonth extends Ids {
  readonly month: string
}

/** `open`: calls have not ended. `wrong`: the audit lists violations. `busy`: another process seals, or stop. */
export type Sealed = "sealed" | "open" | "wrong" | "busy"

/** Seals the first month that is over (D71); null without one. First its partitions refuse new entries. */
export async function sealMonth(
  database: Db,
  stopped: () => boolean,
  after_ms = SEAL_AFTER_MS,
  share = SHARE,
): Promise<{ month: string; sealed: Sealed } | null> {
  const month = await dueMonth(database, after_ms)
  if (month === null) return null
  const sealed = await sealOne(database, month, paceOf(share, stopped))
  return { month: month.month, sealed }
}

async function sealOne(database: Db, month: SealedMonth, pace: WorkPace): Promise<Sealed> {
  // Checked first, so that nothing is refused in a month that cannot be sealed.
  const obstacle = await obstacleIn(database, month, pace)
  if (obstacle !== null) return obstacle
  for (const table of JOURNAL_TABLES) if (!(await refuseEntries(database, table, month))) return "busy"
  const late = await obstacleIn(database, month, pace)
  if (late !== null) return late
  for (let step: "next" | "last" | "busy" = "next"; step !== "last"; ) {
    if (pace.stopped()) return "busy"
    step = await database.transaction((transaction) => sealHour(transaction, month))
    if (step === "busy") return "busy"
    await pace.rest()
  }
  const sums = await sumsOf(database, month, pace)
  if (sums === null) return "busy"
  return database.transaction(async (transaction) => {
    if (!(await lockSeals(transaction)) || (await isSealed(transaction, month))) return "busy"
    for (let at = 0; at < sums.length; at += CHUNK)
      await transaction.insert(seal_sums).values(sums.slice(at, at + CHUNK))
    await transaction.execute(sql`
      INSERT INTO ${seals} (month, entries, calls, charge_nano, hash)
      SELECT ${month.month}::date, (SELECT sum(entries) FROM ${seal_hours} WHERE month = ${month.month}::date),
        coalesce(sum(calls), 0), coalesce(sum(charge_nano), 0), ${hashOfSeal(month.month)}
      FROM ${seal_sums} WHERE month = ${month.month}::date`)
    return "sealed"
  })
}

/** The reason that a month cannot be sealed now; null if it can. Searches slice by slice. */
async function obstacleIn(
  database: Db,
  month: SealedMonth,
  pace: WorkPace,
): Promise<Exclude<Sealed, "sealed"> | null> {
  const is_mine = await database.transaction(
    async (transaction) => (await lockSeals(transaction)) && !(await isSealed(transaction, month)),
  )
  if (!is_mine) return "busy"
  let is_right = true
  for await (const slice of slicesOf(database, month)) {
    if (pace.stopped()) return "busy"
    if (await hasOpenCalls(database, slice)) return "open"
    is_right &&= await areRight(database, slice)
    await pace.rest()
  }
  return is_right ? null : "wrong"
}

async function isSealed(transaction: Db, { month }: SealedMonth): Promise<boolean> {
  return (await transaction.select().from(seals).where(eq(seals.month, month))).length > 0
}

async function hasOpenCalls(database: Db, ids: Ids): Promise<boolean> {
  const open = await readSlice(
    database,
    sql`
    SELECT FROM ${holds} h WHERE ${within(sql`h.id`, ids)}
      AND NOT EXISTS (SELECT FROM ${ends} e WHERE e.id = h.id AND ${within(sql`e.id`, ids)}) LIMIT 1`,
  )
  return open.length > 0
}

/** A month of the journal; `seal` is null for one that is not sealed. */
export interface ListedMonth
  extends OfShard,
    Pick<typeof months.$inferSelect, "month" | "detached_at" | "dropped_at" | "archive"> {
  readonly seal: typeof seals.$inferSelect | null
}

/** All months, latest first. */
export async function listMonths(database: Db): Promise<ListedMonth[]> {
  return database
    .select({
      month: months.month,
      seal: seals,
      detached_at: months.detached_at,
      dropped_at: months.dropped_at,
      archive: months.archive,
    })
    .from(months)
    .leftJoin(seals, eq(seals.month, months.month))
    .orderBy(desc(months.month))
}

/**
 * Compares a sealed hour, by default the first of the month, with its seal. Null if there is no such hour. `matches`: true if its entries
 * are those that were sealed; for the first hour, also if the seal itself is intact. `next`: the next hour; null after the last one.
 */
export async function checkSeal(database: Db, month: string, from_id: string | null) {
  return readEntries(database, async (transaction) => {
    const [hour] = await transaction.execute<{
      from_id: string
      next: string | null
      to_id: string
      hash: string
    }>(sql`
        SELECT h.from_id, h.next, coalesce(h.next, m.to_id) AS to_id, h.hash
        FROM (SELECT from_id, hash, lead(from_id) OVER (ORDER BY from_id) AS next FROM ${seal_hours} WHERE month = ${month}::date) h
          JOIN ${months} m ON m.month = ${month}::date AND m.dropped_at IS NULL JOIN ${seals} s ON s.month = m.month
        WHERE ${from_id === null ? sql`true` : sql`h.from_id = ${from_id}::uuid`} ORDER BY h.from_id LIMIT 1`)
    if (hour === undefined) return null
    const found = await hashOfEntries(transaction, month, hour)
    const matches = found.hash === hour.hash && (from_id !== null || (await isWhole(transaction, month)))
    return { entries: BigInt(found.entries), matches, next: hour.next }
  })
}

async function isWhole(transaction: Db, month: string): Promise<boolean> {
  const [row] = await transaction.execute<{ whole: boolean }>(sql`
    SELECT hash = ${hashOfSeal(month)}
      AND entries = (SELECT sum(entries) FROM ${seal_hours} WHERE month = ${month}::date)
      AND (calls, charge_nano) = (SELECT coalesce(sum(calls), 0), coalesce(sum(charge_nano), 0)
        FROM ${seal_sums} WHERE month = ${month}::date) AS whole
    FROM ${seals} WHERE month = ${month}::date`)
  return row?.whole === true
}

/** The first month without a seal. Months are sealed in their order, so seals alone prove everything before an open month. */
function dueMonth(database: Db, after_ms: number): Promise<SealedMonth | null> {
  const due = database.execute<{ month: string; from_id: string; to_id: string }>(sql`
    SELECT next.month::text AS month, coalesce(next.from_id, ${NIL_ID}) AS from_id, next.to_id
    FROM (SELECT m.* FROM ${months} m WHERE NOT EXISTS (SELECT FROM ${seals} s WHERE s.month = m.month)
      ORDER BY m.month LIMIT 1) next
    WHERE (next.month + interval '1 month') AT TIME ZONE 'UTC' + ${after_ms}::float8 * interval '1 millisecond' < now()`)
  return firstRow(due)
}

/** Makes a partition refuse new entries. False if another process seals. The lock waits for running writers. */
async function refuseEntries(database: Db, table: string, month: SealedMonth) {
  return database.transaction(async (transaction) => {
    await transaction.execute(sql`SELECT set_config('lock_timeout', ${`${LOCK_MS}ms`}, true)`)
    if (!(await lockSeals(transaction))) return false
    const partition = partitionOf(table, month.month)
    const there = await transaction.execute(
      sql`SELECT FROM pg_trigger WHERE tgrelid = ${sql.raw(`'${partition}'`)}::regclass AND tgname = 'month_is_sealed'`,
    )
    if (there.length > 0) return true
    await transaction.execute(refusingEntries(table, month.month))
    return true
  })
}

async function lockSeals(transaction: Db): Promise<boolean> {
  await limitStatements(transaction, STATEMENT_MS, IN_UTC)
  const [row] = await transaction.execute<{ mine: boolean }>(
    sql`SELECT pg_try_advisory_xact_lock(${SEALS_LOCK}) AS mine`,
  )
  return row?.mine === true
}

/** Reads entries in one snapshot. */
export function readEntries<Answer>(
  database: Db,
  read: (transaction: Db) => Promise<Answer>,
): Promise<Answer> {
  return inSnapshot(database, STATEMENT_MS, read, IN_UTC)
}

/** The text of an entry must not depend on the server's time zone. */
const IN_UTC = { TimeZone: "UTC" }

/** Hashes the next hour with calls, in its own transaction. Every id belongs to one hour. `last`: all have a hash. */
async function sealHour(transaction: Db, month: SealedMonth): Promise<"next" | "last" | "busy"> {
  if (!(await lockSeals(transaction))) return "busy"
  const [row] = await transaction
    .select({ from_id: seal_hours.from_id })
    .from(seal_hours)
    .where(eq(seal_hours.month, month.month))
    .orderBy(desc(seal_hours.from_id))
    .limit(1)
  const last = row?.from_id ?? null
  const from_id = last === null ? month.from_id : await nextHour(transaction, month, last)
  if (from_id === null) return "last"
  const to_id = (await nextHour(transaction, month, from_id)) ?? month.to_id
  const { entries, hash } = await hashOfEntries(transaction, month.month, { from_id, to_id })
  await transaction.insert(seal_hours).values({ month: month.month, from_id, entries: BigInt(entries), hash })
  return "next"
}

/** The `from_id` of the hour with calls that follows the one from `from_id` on; null after the last. */
async function nextHour(transaction: Db, month: SealedMonth, from_id: string) {
  const first = await firstCall(transaction, month, from_id)
  const next = first === null ? null : await firstCall(transaction, month, hourOf(first, 1))
  return next === null ? null : hourOf(next, 0)
}

async function firstCall(transaction: Db, month: SealedMonth, from_id: string) {
  const [row] = await transaction.execute<{ id: string }>(sql`
    SELECT h.id FROM ${holds} h WHERE ${within(sql`h.id`, { from_id, to_id: month.to_id })} ORDER BY h.id LIMIT 1`)
  return row?.id ?? null
}

/** The lowest id of the hour of a call, or of one that is `ahead` of it. */
function hourOf(id: string, ahead: number): string {
  return floorId(new Date((Math.floor(madeMs(id) / HOUR_MS) + ahead) * HOUR_MS))
}

async function hashOfEntries(transaction: Db, month: string, ids: Ids) {
  const [row] = await transaction.execute<{ entries: string; hash: string }>(sql`
    SELECT count(*)::text AS entries, ${digestOf(sql`x.entry`, ENTRY_ORDER)} AS hash FROM (${entriesIn(month, ids)}) x`)
  if (row === undefined) throw new Error("the hash of entries returned nothing")
  return row
}

const hashOfSeal = (month: string): SQL => sql`(
  SELECT ${digestOf(sql`x.line`, sql`x.kind, x.line`)} FROM (
    SELECT 1 AS kind, ${textOf("s")} COLLATE "C" AS line FROM ${seal_hours} s WHERE s.month = ${month}::date
    UNION ALL SELECT 2, ${textOf("s")} COLLATE "C" FROM ${seal_sums} s WHERE s.month = ${month}::date) x)`

type Sums = typeof seal_sums.$inferInsert

/** The sums of a final month, slice by slice; null if stopped. Corrected calls count by their correction. */
async function sumsOf(database: Db, month: SealedMonth, pace: WorkPace): Promise<readonly Sums[] | null> {
  const sums = new Map<string, Sums>()
  for await (const slice of slicesOf(database, month)) {
    if (pace.stopped()) return null
    for (const row of await sumsOfSlice(database, slice)) {
      const { account_id, key_id, terms_id } = row
      const name = `${account_id}${key_id}${terms_id}`
      const sum = sums.get(name) ?? { month: month.month, account_id, key_id, terms_id, ...NOTHING }
      for (const column of SUMMED) sum[column] += BigInt(row[column])
      sums.set(name, sum)
    }
    await pace.rest()
  }
  return [...sums.values()]
}

const SUMMED = ["calls", "charge_nano", "prompt_tokens", "cached_tokens", "completion_tokens"] as const
const NOTHING = recordOf(SUMMED, () => 0n)

interface SumsOfSlice extends Record<string, unknown>, Record<(typeof SUMMED)[number], string> {
  readonly account_id: string
  readonly key_id: string
  readonly terms_id: number
}

function sumsOfSlice(database: Db, ids: Ids) {
  const tokens = SUMMED.slice(2).map((name) =>
    sql.raw(`coalesce(sum(CASE WHEN c.id IS NULL THEN e.${name} ELSE c.${name} END), 0)::text AS ${name}`),
  )
  return readSlice<SumsOfSlice>(
    database,
    sql`
    SELECT e.account_id, e.key_id, coalesce(c.terms_id, e.terms_id) AS terms_id, count(*)::text AS calls,
      sum(e.charge_nano + coalesce(c.difference_nano, 0))::text AS charge_nano, ${sql.join(tokens, sql`, `)}
    FROM ${ends} e LEFT JOIN ${corrections} c ON c.id = e.id AND ${within(sql`c.id`, ids)}
    WHERE ${within(sql`e.id`, ids)} GROUP BY 1, 2, 3`,
  )
}

/** The text of entries, for the hashes of seals (D71) and for dumps (D75). It needs the time zone UTC. */

/** Without null columns, which later versions add, and the transaction, which differs once restored (D96). */
export const textOf = (row: string): SQL => sql.raw(`(jsonb_strip_nulls(to_jsonb(${row})) - 'xid')::text`)

const digestOf = (texts: SQL, order: SQL): SQL =>
  sql`encode(sha256(coalesce(string_agg(sha256(convert_to(${texts}, 'UTF8')), ''::bytea ORDER BY ${order}), ''::bytea)), 'hex')`

export const ENTRY_KINDS = ["hold", "end", "correction", "attempt"] as const

/** `id`, `kind` (the index in the list), `ordinal` and `entry` of a month's entries, attached or not. */
export function entriesIn(month: string, ids: Ids): SQL {
  const parts = ENTRY_KINDS.map((kind, at) => {
    const table = sql.raw(partitionOf(`${kind}s`, month))
    const ordinal = sql.raw(kind === "attempt" ? "x.ordinal" : "0")
    return sql`SELECT x.id, ${sql.raw(String(at))} AS kind, ${ordinal} AS ordinal, ${textOf("x")} AS entry
      FROM ${table} x WHERE ${within(sql`x.id`, ids)}`
  })
  return sql.join(parts, sql` UNION ALL `)
}

export const ENTRY_ORDER = sql`x.id, x.kind, x.ordinal`
