import { type SQL, type SQLWrapper, sql } from "drizzle-orm"
import type { Db } from "../database/statement.ts"
import { inSnapshot } from "../database/transaction.ts"
import { holds } from "../schema/tables.ts"

/** The calls whose ids are at or above `from_id` and below `to_id`. */
export interface Ids {
  readonly from_id: string
  readonly to_id: string
}

/** Each table has its own condition, because the planner leaves months out of a table only by a condition on its id. */
export const within = (id: SQLWrapper, { from_id, to_id }: Ids): SQL =>
  sql`(${id} >= ${from_id}::uuid AND ${id} < ${to_id}::uuid)`

/** Calls that one statement reads, in some tenths of a second. */
const SLICE_CALLS = 20_000
const STATEMENT_MS = 55_000
/** Work that takes no longer than this needs no rest. */
const BURST_MS = 500
/** Longest rest between two checks for a stop. */
const NAP_MS = 200

/** Reads the entries of calls in slices, so that no statement and no snapshot lasts long. */
export async function* slicesOf(database: Db, { from_id, to_id }: Ids): AsyncGenerator<Ids> {
  for (let from = from_id; from < to_id; ) {
    const [next] = await database.execute<{ id: string }>(sql`
      SELECT h.id FROM ${holds} h WHERE ${within(sql`h.id`, { from_id: from, to_id })}
      ORDER BY h.id OFFSET ${sql.raw(String(SLICE_CALLS))} LIMIT 1`)
    const slice = { from_id: from, to_id: next?.id ?? to_id }
    yield slice
    from = slice.to_id
  }
}

/** Without nested loops: the planner's statistics lack the newest calls, so it would take them for one row. */
export function readSlice<Found extends Record<string, unknown>>(database: Db, question: SQL) {
  return readLong<Found>(database, question, { enable_nestloop: "off" })
}

/** Runs a query that may take long. */
export function readLong<Found extends Record<string, unknown>>(
  database: Db,
  question: SQL,
  settings: Readonly<Record<string, string>> = {},
) {
  return inSnapshot(database, STATEMENT_MS, (transaction) => transaction.execute<Found>(question), settings)
}

export type WorkPace = ReturnType<typeof paceOf>

/** Keeps long work to a `share` of the time, so that calls keep the rest of the database. `stopped`: true if the work must end. */
export function paceOf(share: number, stopped: () => boolean) {
  let worked_ms = 0
  let since_ms = performance.now()
  return {
    stopped,
    /** Rests after a piece of work, for as long as the share demands. */
    async rest(): Promise<void> {
      const busy_ms = performance.now() - since_ms
      worked_ms += busy_ms
      if (worked_ms > BURST_MS) {
        const until_ms = performance.now() + busy_ms * (1 / share - 1)
        for (let left_ms = until_ms - performance.now(); left_ms > 0 && !stopped(); ) {
          await Bun.sleep(Math.min(left_ms, NAP_MS))
          left_ms = until_ms - performance.now()
        }
      }
      since_ms = performance.now()
    },
  }
}
