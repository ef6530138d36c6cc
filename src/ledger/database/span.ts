import { type SQL, sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { EntriesArchived } from "../entries.ts"
import { months, seals, summed } from "../schema/sums.ts"
import { limitStatements } from "./transaction.ts"

/**
 * Which entries a report reads: those made from `from` on and before `to`, by the ledger's clock (D48). So spans that meet
 * share no entry and lose none, and a span that is over does not change: what comes later belongs to a later one.
 */
export interface Span {
  readonly from: Date
  readonly to: Date
  readonly account_ids?: readonly string[] | undefined
  readonly key_id?: string | undefined
  readonly model?: string | undefined
}

/** How long one report may keep the database busy. */
const STATEMENT_MS = 8_000

/** Up to where there are sums of hours and of days (D72); null where there are none. */
export interface SummedUntil {
  readonly hours: Date | null
  readonly days: Date | null
  /** Before this moment some entries are archived (D75); null where all are there. */
  readonly archived?: Date | null
}

/** Where a report reads a part of its time from. */
export type Source = "entries" | "hours" | "days"

/** A part of a time; `to` is null where it has no end. */
export interface Piece {
  readonly source: Source
  readonly from: Date
  readonly to: Date | null
}

export const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS

/**
 * Runs a query that may read many entries: on one core at most, so that calls keep the others, and not for long. All that
 * is asked is one snapshot, so that sums and entries fit together.
 */
export function scan<Answer>(
  database: PostgresJsDatabase,
  ask: (transaction: Pick<PostgresJsDatabase, "execute">, until: SummedUntil) => Promise<Answer>,
): Promise<Answer> {
  return database.transaction(
    async (transaction) => {
      await limitStatements(transaction, STATEMENT_MS)
      const [until] = await transaction
        .select({ hours: summed.hours_until, days: summed.days_until, archived: archivedUntil })
        .from(summed)
      return await ask(transaction, until ?? { hours: null, days: null })
    },
    { isolationLevel: "repeatable read", accessMode: "read only" },
  )
}

/** Every entry of a detached month is older than its seal (D75). */
export const archivedUntil = sql<Date | null>`(SELECT max(s.sealed_at) FROM ${seals} s
  JOIN ${months} m ON m.month = s.month WHERE m.detached_at IS NOT NULL)`.mapWith((at) => new Date(at))

/**
 * A time in pieces, by what is there of it: whole days, where whole days will do, whole hours, and for the rest the entries.
 * `step_ms` is the shortest time that the report tells apart, if it tells any. Throws `EntriesArchived` for entries that are
 * archived.
 */
export function piecesOf(
  time: { readonly from: Date; readonly to: Date | null },
  until: SummedUntil,
  step_ms = DAY_MS,
): readonly Piece[] {
  const pieces = dividedOf(time, until, step_ms)
  const archived = until.archived ?? null
  if (archived !== null && pieces.some(({ source, from }) => source === "entries" && from < archived))
    throw new EntriesArchived(archived)
  return pieces
}

function dividedOf(
  { from, to }: { readonly from: Date; readonly to: Date | null },
  until: SummedUntil,
  step_ms: number,
): readonly Piece[] {
  const [begin, end] = [from.getTime(), to === null ? Number.POSITIVE_INFINITY : to.getTime()]
  const between = (source: Source, start: number, stop: number): Piece[] =>
    start < stop
      ? [{ source, from: new Date(start), to: stop === Number.POSITIVE_INFINITY ? null : new Date(stop) }]
      : []
  const first = Math.ceil(begin / HOUR_MS) * HOUR_MS
  const last = Math.min(Math.floor(end / HOUR_MS) * HOUR_MS, until.hours?.getTime() ?? 0)
  if (step_ms < HOUR_MS || first >= last) return [{ source: "entries", from, to }]
  const first_day = Math.ceil(first / DAY_MS) * DAY_MS
  const last_day = Math.min(Math.floor(last / DAY_MS) * DAY_MS, until.days?.getTime() ?? 0)
  const whole =
    step_ms < DAY_MS || first_day >= last_day
      ? between("hours", first, last)
      : [
          ...between("hours", first, first_day),
          ...between("days", first_day, last_day),
          ...between("hours", last_day, last),
        ]
  return [...between("entries", begin, first), ...whole, ...between("entries", last, end)]
}

/** In which of the periods that begin at `starts` the moment `at` lies: 0 for the first one and what is before it. */
export function periodAt(starts: readonly Date[]): SQL {
  const later = starts.slice(1).map((start) => start.toISOString())
  return sql`width_bucket(at, ${`{${later.join(",")}}`}::timestamptz[])`
}
