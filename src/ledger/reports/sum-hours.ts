import { type SQL, sql } from "drizzle-orm"
import { madeMs } from "../../id.ts"
import { archivedUntil, DAY_MS, HOUR_MS } from "../database/span.ts"
import { type Db, instant } from "../database/statement.ts"
import { limitStatements } from "../database/transaction.ts"
import { labels } from "../schema/labels.ts"
import { day_latencies, days, hour_latencies, hours, label_days, summed } from "../schema/sums.ts"
import { holds } from "../schema/tables.ts"
import { changesOfEntries, counts, EVERYBODY, latenciesOfEntries, summedColumns } from "./changes.ts"

/** Minimum time between an hour's end and its close, because the clock of a standby may be behind. */
const CLOSE_MS = 60_000
const STATEMENT_MS = 300_000

/**
 * Sums up the hours that are over (D72), in their order, until none is due or `stopped`. An entry has the time at which its
 * transaction began, so an hour can be closed once every transaction that began in it has ended. Any number of processes may do
 * this, because each locks the row of `summed`, or leaves. Resolves with the number of closed hours.
 */
export async function sumHours(database: Db, stopped: () => boolean, close_ms = CLOSE_MS) {
  for (let closed = 0; ; closed++) {
    if (stopped() || !(await database.transaction((transaction) => closeHour(transaction, close_ms)))) {
      while (!stopped() && (await database.transaction(closeLabelDay))) {}
      return closed
    }
  }
}

/** Sums up a day's labels (D94), at a moment of their own: older versions close days without them. */
async function closeLabelDay(transaction: Db): Promise<boolean> {
  await limitStatements(transaction, STATEMENT_MS)
  const [row] = await transaction
    .select({ days: summed.days_until, labels: summed.labels_until })
    .from(summed)
    .for("update", { skipLocked: true })
  if (row === undefined || row.days === null || (row.labels !== null && row.labels >= row.days)) return false
  const [labelled] = await transaction.execute<{ account_ids: string[] | null; first: string | null }>(sql`
    SELECT array_agg(DISTINCT l.account_id)::text[] AS account_ids, date_trunc('day', min(l.created_at), 'UTC') AS first
    FROM ${labels} l`)
  const first = labelled?.first == null ? row.days : new Date(labelled.first)
  const from = row.labels ?? first
  const until = new Date(Math.min(from.getTime() + DAY_MS, row.days.getTime()))
  if (from < until && labelled?.account_ids != null)
    await writeLabelDay(transaction, from, until, labelled.account_ids)
  await transaction.update(summed).set({ labels_until: until })
  return true
}

async function closeHour(transaction: Db, close_ms: number): Promise<boolean> {
  await limitStatements(transaction, STATEMENT_MS)
  const [row] = await transaction
    .select({ hours: summed.hours_until, days: summed.days_until })
    .from(summed)
    .for("update", { skipLocked: true })
  if (row === undefined) return false
  const from = row.hours ?? (await firstHour(transaction))
  if (from === null) return false
  // A whole day in one step if one is over already, as after an upgrade or a pause.
  const steps = from.getTime() % DAY_MS === 0 ? [DAY_MS, HOUR_MS] : [HOUR_MS]
  const until = await lastClosed(
    transaction,
    steps.map((step_ms) => new Date(from.getTime() + step_ms)),
    close_ms,
  )
  if (until === null) return false
  await writeHours(transaction, from, until)
  let days_until = row.days ?? new Date(Math.ceil(from.getTime() / DAY_MS) * DAY_MS)
  if (until.getTime() === days_until.getTime() + DAY_MS) {
    await writeDays(transaction, days_until, until)
    days_until = until
  }
  await transaction.update(summed).set({ hours_until: until, days_until })
  return true
}

/** The latest of these times that is final. A separate statement, so that the next one sees all entries. */
async function lastClosed(transaction: Db, ends_at: readonly Date[], close_ms: number) {
  const moments = `{${ends_at.map((moment) => moment.toISOString()).join(",")}}`
  const [row] = await transaction.execute<{ ends_at: string | null }>(sql`
    SELECT max(ends_at) AS ends_at FROM unnest(${moments}::timestamptz[]) AS ends_at
    WHERE ends_at < clock_timestamp() - ${close_ms}::float8 * interval '1 millisecond'
      AND NOT EXISTS (SELECT FROM pg_stat_activity s WHERE s.datname = current_database() AND s.pid <> pg_backend_pid()
        AND s.backend_type = 'client backend' AND s.xact_start < ends_at)`)
  return row?.ends_at == null ? null : new Date(row.ends_at)
}

/** The hour before which there is no entry: ids follow the ledger's clock (D58), a day is more than any difference. Null without calls. */
async function firstHour(transaction: Db): Promise<Date | null> {
  const [first] = await transaction.select({ id: holds.id }).from(holds).orderBy(holds.id).limit(1)
  if (first === undefined) return null
  return new Date(Math.floor(madeMs(first.id) / HOUR_MS) * HOUR_MS - DAY_MS)
}

export interface CheckedDay {
  readonly day: Date
  readonly sums: number
  /** Number of sums that were missing, wrong or surplus. All were corrected. */
  readonly differed: number
  readonly next: Date | null
}

/** The first day of UTC that has sums, and entries that are not archived (D75); null if none has. */
export async function firstDay(database: Db): Promise<Date | null> {
  const [row] = await database.select({ archived: archivedUntil }).from(summed)
  const [first] = await database.execute<{ from_at: string | null }>(sql`
    SELECT min(from_at) AS from_at FROM ${days}
    WHERE account_id = ${EVERYBODY}::uuid AND from_at >= ${instant(row?.archived ?? new Date(0))}`)
  return first?.from_at == null ? null : new Date(first.from_at)
}

/** Sums up a day of UTC again, and replaces what differs (D72). Null when the day has no sums. */
export async function checkDay(database: Db, day: Date): Promise<CheckedDay | null> {
  return database.transaction(async (transaction) => {
    await limitStatements(transaction, STATEMENT_MS)
    const [row] = await transaction
      .select({ days: summed.days_until, labels: summed.labels_until, archived: archivedUntil })
      .from(summed)
      .for("update")
    // A day with archived entries cannot be computed again (D75).
    if (row?.archived != null && day < row.archived) return null
    const until = new Date(day.getTime() + DAY_MS)
    if (row?.days == null || row.days < until) return null
    const has_labels = row.labels !== null && row.labels >= until
    const found = await replaceDay(transaction, day, until, has_labels)
    return { day, ...found, next: until < row.days ? until : null }
  })
}

/** Adds the checks of a day in the shards that have sums of it (D74); null if none has. */
export function addCheckedDays(parts: readonly (CheckedDay | null)[]): CheckedDay | null {
  const found = parts.filter((checked) => checked !== null)
  const [first] = found
  if (first === undefined) return null
  return {
    day: first.day,
    sums: found.reduce((total, { sums }) => total + sums, 0),
    differed: found.reduce((total, { differed }) => total + differed, 0),
    next: earliest(found.map(({ next }) => next)),
  }
}

export function earliest(days: readonly (Date | null)[]): Date | null {
  return days.reduce((one, other) => (one === null || (other !== null && other < one) ? other : one), null)
}

async function replaceDay(transaction: Db, day: Date, until: Date, has_labels: boolean) {
  const tables = [hours, hour_latencies, days, day_latencies, ...(has_labels ? [label_days] : [])]
  const within = sql`from_at >= ${instant(day)} AND from_at < ${instant(until)}`
  for (const [at, table] of tables.entries()) {
    await transaction.execute(
      sql`CREATE TEMPORARY TABLE ${before(at)} ON COMMIT DROP AS SELECT * FROM ${table} WHERE ${within}`,
    )
    await transaction.execute(sql`DELETE FROM ${table} WHERE ${within}`)
  }
  await writeHours(transaction, day, until)
  await writeDays(transaction, day, until)
  if (has_labels) await writeLabelDay(transaction, day, until)
  let [sums, differed] = [0, 0]
  for (const [at, table] of tables.entries()) {
    const what =
      table === hours || table === days
        ? compared
        : table === label_days
          ? sql`${compared}, labels_id`
          : sql.raw("*")
    const was = sql`SELECT ${what} FROM ${before(at)}`
    const is = sql`SELECT ${what} FROM ${table} WHERE ${within}`
    const [found] = await transaction.execute<{ sums: number; missing: number; wrong: number }>(sql`
      SELECT (SELECT count(*)::int FROM ${table} WHERE ${within}) AS sums,
        (SELECT count(*)::int FROM (${is} EXCEPT ALL ${was}) d) AS missing,
        (SELECT count(*)::int FROM (${was} EXCEPT ALL ${is}) d) AS wrong`)
    if (found === undefined) throw new Error("the comparison of sums returned nothing")
    sums += found.sums
    differed += Math.max(found.missing, found.wrong)
  }
  return { sums, differed }
}

/** A kind that is newer than a sum is null in it, but 0 in a new sum if a correction changed nothing of that kind. */
const compared = sql.raw(
  ["from_at", ...summedColumns]
    .map((name) => (counts.includes(name) ? `coalesce(${name}, 0)` : name))
    .join(", "),
)

/** A table's rows of the day before the new summation. */
const before = (at: number) => sql.raw(`before_${at}`)

const of_key = sql.raw("x.account_id, x.key_id, x.terms_id")
const ended_so = sql.raw("x.outcome, x.basis, x.failure")
/** Every group is written twice: for its key and for the total. */
const whose = sql.raw(
  ["account_id", "key_id"].map((name) => `coalesce(x.${name}, '${EVERYBODY}') AS ${name}`).join(", "),
)
const summed_into = sql.raw(["from_at", ...summedColumns].join(", "))
const summed_up = sql.raw(counts.map((name) => `sum(x.${name})::bigint`).join(", "))

/** Recomputes the hourly sums of a range from its entries. The range must start and end on the hour. */
async function writeHours(transaction: Db, from: Date, to: Date): Promise<void> {
  const bounds = { from: instant(from), to: instant(to) }
  await transaction.execute(sql`
    INSERT INTO ${hours} (${summed_into})
    SELECT x.from_at, ${whose}, x.terms_id, ${ended_so}, ${summed_up}
    FROM (SELECT date_trunc('hour', e.at, 'UTC') AS from_at, e.* FROM (${changesOfEntries(bounds, { with_holds: true })}) e) x
    GROUP BY GROUPING SETS ((x.from_at, ${of_key}, ${ended_so}), (x.from_at, x.terms_id, ${ended_so}))
    ORDER BY x.from_at`)
  await writeLatencies(
    transaction,
    hour_latencies,
    sql`SELECT date_trunc('hour', e.at, 'UTC') AS from_at, e.*, 1 AS calls FROM (${latenciesOfEntries(bounds)}) e`,
    sql`GROUPING SETS ((x.from_at, ${of_key}, x.is_ttft, x.ms), (x.from_at, x.terms_id, x.is_ttft, x.ms))`,
  )
}

/** Writes the sums of the days of a range, which begins and ends at midnight, from the sums of its hours. */
async function writeDays(transaction: Db, from: Date, to: Date): Promise<void> {
  const within = sql`s.from_at >= ${instant(from)} AND s.from_at < ${instant(to)}`
  const day = sql`date_trunc('day', s.from_at, 'UTC')`
  await transaction.execute(sql`
    INSERT INTO ${days} (${summed_into})
    SELECT x.day, ${of_key}, ${ended_so}, ${summed_up} FROM (SELECT ${day} AS day, s.* FROM ${hours} s WHERE ${within}) x
    GROUP BY x.day, ${of_key}, ${ended_so} ORDER BY x.day`)
  await writeLatencies(
    transaction,
    day_latencies,
    sql`SELECT ${day} AS from_at, s.account_id, s.key_id, s.terms_id, s.is_ttft, u.ms, u.calls
      FROM ${hour_latencies} s CROSS JOIN LATERAL unnest(s.ms, s.calls) AS u (ms, calls) WHERE ${within}`,
    sql`x.from_at, ${of_key}, x.is_ttft, x.ms`,
  )
}

/** Labels of an account with sums of their own in one day, those that cost most; the others are summed together (D94). */
const MAX_LABELS = sql.raw("10000")

/** The sums of the calls with labels of a day, from the entries of these accounts, or of all. */
async function writeLabelDay(
  transaction: Db,
  day: Date,
  until: Date,
  account_ids?: readonly string[],
): Promise<void> {
  const changes = changesOfEntries(
    { from: instant(day), to: instant(until) },
    { with_holds: false, of_hold: ["labels_id"] },
    { account_ids, is_total: false },
  )
  await transaction.execute(sql`
    WITH entry AS MATERIALIZED (
      SELECT c.* FROM (${changes}) c WHERE c.labels_id IS NOT NULL
    )
    INSERT INTO ${label_days} (${summed_into}, labels_id)
    SELECT ${instant(day)}, ${of_key}, ${ended_so}, ${summed_up}, x.shown_id FROM (
      SELECT t.*, CASE WHEN dense_rank() OVER (PARTITION BY t.account_id ORDER BY t.labels_nano DESC, t.labels_id) <= ${MAX_LABELS}
        THEN t.labels_id ELSE 0 END AS shown_id
      FROM (SELECT e.*, sum(e.charge_nano) OVER (PARTITION BY e.account_id, e.labels_id) AS labels_nano FROM entry e) t) x
    GROUP BY ${of_key}, ${ended_so}, x.shown_id`)
}

async function writeLatencies(
  transaction: Db,
  into: typeof hour_latencies | typeof day_latencies,
  times: SQL,
  groups: SQL,
): Promise<void> {
  await transaction.execute(sql`
    INSERT INTO ${into}
    SELECT x.from_at, ${of_key}, x.is_ttft, array_agg(x.ms ORDER BY x.ms), array_agg(x.calls ORDER BY x.ms)
    FROM (
      SELECT x.from_at, ${whose}, x.terms_id, x.is_ttft, x.ms, sum(x.calls)::int AS calls
      FROM (${times}) x GROUP BY ${groups}) x
    GROUP BY x.from_at, ${of_key}, x.is_ttft ORDER BY x.from_at`)
}
