import { type SQL, sql } from "drizzle-orm"
import type { PgColumn, PgTable } from "drizzle-orm/pg-core"
import { alertEvents } from "../../wire/alerts.ts"
import type { FeedPlace } from "../../wire/cursor.ts"
import { budgetEvents, type EventType, grantEvents } from "../../wire/events.ts"
import { arrayOf, type Db, instant } from "../database/statement.ts"
import { alerts } from "../schema/alerts.ts"
import { attempts } from "../schema/attempts.ts"
import { budget_crossings, budget_entries } from "../schema/budgets.ts"
import { isNative } from "../schema/feed.ts"
import { grant_entries } from "../schema/grants.ts"
import { end_users } from "../schema/labels.ts"
import { operator_change_ends } from "../schema/operators.ts"
import { corrections, credits, ends } from "../schema/tables.ts"
import type { FeedState } from "./place.ts"

/** The entries of the journal in the order of the feed (D96). */

export interface Entry extends Record<string, unknown> {
  readonly type: EventType
  /** Of the entry; derived from its key where that is no id. */
  readonly id: string
  readonly xid: string
  readonly at_ms: string
}

export interface EntryQuery {
  readonly from: Date | null
  readonly to: Date | null
  /** No end of a call of this transaction or a later one is before `to`; null if unknown. */
  readonly ends_before: string | null
  readonly types: readonly EventType[]
  readonly limit: number
}

/** A table of entries, as `x` or by its own name. */
interface Source {
  readonly table: PgTable
  readonly time: PgColumn
  readonly types: readonly EventType[]
  /** The type of the entry `x`, where there are several. */
  readonly type?: SQL
  /** The id of the entry `x`, where its key is no id. */
  readonly id?: SQL
}

/** Ids of entries whose keys are more than an id: the same ones for ever. */
export const attemptId = (x: string) => sql.raw(`md5(${x}.id::text || ' ' || ${x}.ordinal)::uuid`)
export const crossingId = (x: string) =>
  sql.raw(
    `md5(${x}.budget_id::text || ' ' || ${x}.member || ' ' || extract(epoch FROM ${x}.since) || ' ' || ${x}.percent)::uuid`,
  )

const sources: readonly Source[] = [
  { table: ends, time: ends.ended_at, types: ["tollgate.call.ended"] },
  { table: corrections, time: corrections.corrected_at, types: ["tollgate.call.corrected"] },
  { table: attempts, time: attempts.ended_at, types: ["tollgate.attempt.failed"], id: attemptId("x") },
  { table: credits, time: credits.created_at, types: ["tollgate.credit.added"] },
  {
    table: grant_entries,
    time: grant_entries.at,
    types: grantEvents,
    type: sql`${"tollgate.credit."}::text || x.change`,
  },
  {
    table: budget_entries,
    time: budget_entries.made_at,
    types: budgetEvents,
    type: sql`${"tollgate.budget."}::text || x.change`,
  },
  {
    table: budget_crossings,
    time: budget_crossings.crossed_at,
    types: ["tollgate.budget.threshold_reached"],
    id: crossingId("x"),
  },
  { table: end_users, time: end_users.forgotten_at, types: ["tollgate.end_user.forgotten"] },
  {
    table: operator_change_ends,
    time: operator_change_ends.ended_at,
    types: ["tollgate.operator.changed"],
  },
  { table: alerts, time: alerts.at, types: alertEvents, type: sql`x.type` },
]

/** The next entries after a place, in the order of the transactions that wrote them, and of their ids. */
export function entriesAfter(
  database: Db,
  state: FeedState,
  place: FeedPlace,
  query: EntryQuery,
): Promise<readonly Entry[]> {
  const parts = sources.flatMap((source) => {
    const types = source.types.filter((type) => query.types.includes(type))
    return types.length === 0 ? [] : [partOf({ ...source, types }, state, place, query)]
  })
  return database.execute<Entry>(sql`
    SELECT type, id, xid::text AS xid, (extract(epoch FROM at) * 1000)::bigint::text AS at_ms
    FROM (${sql.join(parts, sql` UNION ALL `)}) entries ORDER BY entries.xid, id LIMIT ${query.limit}::int`)
}

function partOf(
  { table, time, types, type, id: own_id = sql`x.id` }: Source,
  { current, horizon }: FeedState,
  { is_restored, xid, id }: FeedPlace,
  { from, to, ends_before, limit }: EntryQuery,
): SQL {
  const native = isNative("x")
  const own = current.series === 1 ? sql`` : is_restored ? sql`AND NOT ${native}` : sql`AND ${native}`
  const ended = is_restored ? sql`` : sql`AND x.xid < ${horizon}::xid8`
  const at = sql.raw(`x."${time.name}"`)
  const of_types =
    type === undefined ? sql`` : sql`AND ${type} = ANY (${arrayOf(types, (one) => one)}::text[])`
  return sql`(SELECT ${type ?? sql`${types[0]}::text`} AS type, ${own_id} AS id, x.xid, ${at} AS at FROM ${table} x
    WHERE x.xid >= ${xid}::xid8 AND (x.xid, ${own_id}) > (${xid}::xid8, ${id}::uuid) ${ended} ${own} ${of_types}
      ${from === null ? sql`` : sql`AND ${at} >= ${instant(from)}`}
      ${to === null ? sql`` : sql`AND ${at} < ${instant(to)}`}
      ${ends_before === null || table !== ends || is_restored ? sql`` : sql`AND x.xid < ${ends_before}::xid8`}
    ORDER BY x.xid, ${own_id} LIMIT ${limit}::int)`
}
