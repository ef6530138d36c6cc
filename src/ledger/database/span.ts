import { type SQL, sql } from "drizzle-orm"
import { EntriesArchived } from "../entries.ts"
import { months, seals, summed } from "../schema/sums.ts"
import type { Db } from "./statement.ts"
import { inSnapshot } from "./transaction.ts"

/** Entries made from `from` on and before `to`, by the ledger's clock (D48). A past span does not change. */
export interface Span {
  readonly from: Date
  readonly to: Date
  readonly account_ids?: readonly string[] | undefined
  readonly key_id?: string | undefined
  readonly model?: string | undefined
}

/** A time and filters, of which an absent one does not filter. */
export type FilteredTime<Filter extends string> = Pick<Span, "from" | "to"> & {
  readonly [Name in Filter]?: string | undefined
}

const STATEMENT_MS = 8_000

/** The end of the sums of hours and of days (D72); null if there are none. */
export interface SummedUntil {
  readonly hours: Date | null
  readonly days: Date | null
  /** The end of the sums of labels (D94). */
  readonly labels?: Date | null
  /** Some entries before this moment are archived (D75); null if none are. */
  readonly archived?: Date | null
}

type SpanSource = "entries" | "hours" | "days"

/** A part of a span; `to` is null if it has no end. */
export interface Piece {
  readonly source: SpanSource
  readonly from: Date
  readonly to: Date | null
}

export const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS

/** Reads entries in one snapshot, with a time limit, and on one core so that calls keep the others. */
export function scan<Answer>(
  database: Db,
  ask: (transaction: Db, until: SummedUntil) => Promise<Answer>,
): Promise<Answer> {
  return inSnapshot(database, STATEMENT_MS, async (transaction) => {
    const [until] = await transaction
      .select({
        hours: summed.hours_until,
        days: summed.days_until,
        labels: summed.labels_until,
        archived: archivedUntil,
      })
      .from(summed)
    return ask(transaction, until ?? { hours: null, days: null })
  })
}

/** Every entry of a detached month is older than its seal (D75). */
export const archivedUntil = sql<Date | null>`(SELECT max(s.sealed_at) FROM ${seals} s
  JOIN ${months} m ON m.month = s.month WHERE m.detached_at IS NOT NULL)`.mapWith((at) => new Date(at))

/** A time without an end, if `to` is null. */
interface OpenTime {
  readonly from: Date
  readonly to: Date | null
}

/** Splits a span into days, hours and entries, at a resolution of `step_ms`. Throws `EntriesArchived`. */
export function piecesOf(time: OpenTime, until: SummedUntil, step_ms = DAY_MS): readonly Piece[] {
  return withEntries(dividedOf(time, until, step_ms), until)
}

/** The same for a report about labels, whose sums are of whole days (D94). */
export function labelPiecesOf(time: OpenTime, until: SummedUntil): readonly Piece[] {
  const { labels = null } = until
  return withEntries(dividedOf(time, { hours: labels, days: labels }, DAY_MS, "entries"), until)
}

function withEntries(pieces: readonly Piece[], { archived = null }: SummedUntil): readonly Piece[] {
  if (archived !== null && pieces.some(({ source, from }) => source === "entries" && from < archived))
    throw new EntriesArchived(archived)
  return pieces
}

function dividedOf(
  { from, to }: OpenTime,
  { hours, days }: Pick<SummedUntil, "hours" | "days">,
  step_ms: number,
  hourly: SpanSource = "hours",
): readonly Piece[] {
  const [begin, end] = [from.getTime(), to?.getTime() ?? Number.POSITIVE_INFINITY]
  const between = (source: SpanSource, start: number, stop: number): Piece[] =>
    start < stop ? [{ source, from: new Date(start), to: stop === end ? to : new Date(stop) }] : []
  const first = Math.ceil(begin / HOUR_MS) * HOUR_MS
  const last = Math.min(Math.floor(end / HOUR_MS) * HOUR_MS, hours?.getTime() ?? 0)
  if (step_ms < HOUR_MS || first >= last) return [{ source: "entries", from, to }]
  const first_day = Math.ceil(first / DAY_MS) * DAY_MS
  const last_day = Math.min(Math.floor(last / DAY_MS) * DAY_MS, days?.getTime() ?? 0)
  const has_days = step_ms >= DAY_MS && first_day < last_day
  return [
    ...between("entries", begin, first),
    ...between(hourly, first, has_days ? first_day : last),
    ...(has_days ? [...between("days", first_day, last_day), ...between(hourly, last_day, last)] : []),
    ...between("entries", last, end),
  ]
}

/** Index of the period that contains `at`, of those beginning at `starts`; 0 for all before the second. */
export function periodAt(starts: readonly Date[]): SQL {
  const later = starts.slice(1).map((start) => start.toISOString())
  return sql`width_bucket(at, ${`{${later.join(",")}}`}::timestamptz[])`
}
