import { and, eq, getTableColumns, gt, inArray, isNotNull, lt, type SQL, sql } from "drizzle-orm"
import type { PgColumn } from "drizzle-orm/pg-core"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { floorId, NIL_ID } from "../../id.ts"
import type { FeedCursor, FeedPlace } from "../../wire/cursor.ts"
import type { EventType } from "../../wire/events.ts"
import type { Credit } from "../accounts/credits.ts"
import { arrayOf } from "../database/statement.ts"
import { FeedGap } from "../entries.ts"
import type { CallRecord } from "../reports/calls.ts"
import { isNative } from "../schema/feed.ts"
import { months } from "../schema/sums.ts"
import { calls, corrections, credits, ends, terms } from "../schema/tables.ts"
import { beginning, type FeedState, feedState, placeIn } from "./place.ts"

/**
 * The journal as a feed of events (D96), in the order of the transactions that wrote the entries. Only transactions are read
 * before which none is open, so none can commit later and be skipped.
 */

/** Longer than a statement that writes an entry may take, so that its transaction is not older than its time by more. */
const BEFORE_MS = 10_000

export type FeedEvent =
  | { readonly type: "tollgate.call.ended"; readonly call: CallRecord }
  | { readonly type: "tollgate.call.corrected"; readonly call: CallRecord; readonly difference_nano: bigint }
  | { readonly type: "tollgate.credit.added"; readonly credit: Credit }

export interface FeedQuery {
  readonly after: FeedCursor | null
  /** Without `after`: only events from here on. */
  readonly from: Date | null
  readonly types: readonly EventType[]
  readonly limit: number
}

interface PlacedEvent {
  readonly event: FeedEvent
  readonly at: Date
  /** The place of a reader who has read it. */
  readonly place: FeedPlace
}

/** The next events of one database. */
export interface FeedPart {
  readonly start: FeedPlace
  readonly events: readonly PlacedEvent[]
  /** The place after them and after everything that the query left out. */
  readonly next: FeedPlace
}

/** The next events of the ledger. */
export interface FeedPage {
  readonly events: readonly (Pick<PlacedEvent, "event" | "at"> & { readonly cursor: FeedCursor })[]
  readonly next: FeedCursor
}

/**
 * Reads the feed of one database. Throws `FeedGap` if it cannot go on after the cursor, or if `from` is in a month that
 * is no longer there.
 */
export async function readFeed(
  database: PostgresJsDatabase,
  shard: string,
  { after, from, ...asked }: FeedQuery,
): Promise<FeedPart> {
  const state = await feedState(database)
  const place = after?.get(shard)
  const is_new = after === null || place === undefined
  const start = is_new ? await firstPlace(database, state, from) : placeIn(state, place)
  const read = { ...asked, from: is_new ? from : null }
  const first = await partAfter(database, state, start, read)
  if (first.is_full || !start.is_restored) return { start, ...first }
  const native = { epoch: state.current.id, is_restored: false, xid: "0", id: NIL_ID }
  const limit = asked.limit - first.events.length
  const rest = await partAfter(database, state, native, { ...read, limit })
  return { start, events: [...first.events, ...rest.events], next: rest.next }
}

/** The place of a reader who wants the events since a time: after a call that had ended long enough before. */
export async function firstPlace(
  database: PostgresJsDatabase,
  state: FeedState,
  from: Date | null,
): Promise<FeedPlace> {
  const first = beginning(state)
  if (from === null) return first
  const [gone] = await database
    .select({ month: months.month })
    .from(months)
    .where(and(isNotNull(months.detached_at), gt(months.to_id, floorId(from))))
    .limit(1)
  if (gone !== undefined) throw new FeedGap("archived")
  // Two restored series have no common order.
  if (state.current.series > 2) return first
  const before = new Date(from.getTime() - BEFORE_MS)
  const [ended] = await database
    .select({ id: ends.id, xid: ends.xid, is_native: sql<boolean>`${isNative("ends")}` })
    .from(ends)
    .where(and(lt(ends.id, floorId(before)), lt(ends.ended_at, before)))
    .orderBy(sql`${ends.id} DESC`)
    .limit(1)
  if (ended === undefined || ended.xid === null) return first
  const { id, xid, is_native } = ended
  return { epoch: state.current.id, is_restored: first.is_restored && !is_native, xid, id }
}

type PartQuery = Pick<FeedQuery, "from" | "types" | "limit">

async function partAfter(
  database: PostgresJsDatabase,
  state: FeedState,
  place: FeedPlace,
  asked: PartQuery,
): Promise<Omit<FeedPart, "start"> & { readonly is_full: boolean }> {
  const entries = await entriesAfter(database, state, place, asked)
  const records = await recordsOf(database, entries)
  const placeOf = ({ xid, id }: Entry): FeedPlace => ({ ...place, xid, id })
  const events = entries.flatMap((entry) => {
    const event = records.get(keyOf(entry))
    return event === undefined ? [] : [{ event, at: new Date(Number(entry.at_ms)), place: placeOf(entry) }]
  })
  const last = entries.at(-1)
  const is_full = entries.length === asked.limit
  const read = last === undefined ? place : placeOf(last)
  const is_behind = BigInt(read.xid) < BigInt(state.horizon)
  const next =
    is_full || place.is_restored || !is_behind ? read : { ...place, xid: state.horizon, id: NIL_ID }
  return { events, next, is_full }
}

interface Entry extends Record<string, unknown> {
  readonly type: EventType
  readonly id: string
  readonly xid: string
  readonly at_ms: string
}

const keyOf = ({ type, id }: Pick<Entry, "type" | "id">) => `${type} ${id}`

const sources: Readonly<Record<EventType, readonly [table: SQL, time: PgColumn]>> = {
  "tollgate.call.ended": [sql`${ends}`, ends.ended_at],
  "tollgate.call.corrected": [sql`${corrections}`, corrections.corrected_at],
  "tollgate.credit.added": [sql`${credits}`, credits.created_at],
}

function entriesAfter(
  database: PostgresJsDatabase,
  { current, horizon }: FeedState,
  { is_restored, xid, id }: FeedPlace,
  { from, types, limit }: PartQuery,
): Promise<readonly Entry[]> {
  const native = isNative("x")
  const own = current.series === 1 ? sql`` : is_restored ? sql`AND NOT ${native}` : sql`AND ${native}`
  const ended = is_restored ? sql`` : sql`AND x.xid < ${horizon}::xid8`
  const parts = types.map((type) => {
    const [table, time] = sources[type]
    const at = sql.raw(`x."${time.name}"`)
    return sql`(SELECT ${type}::text AS type, x.id, x.xid, ${at} AS at FROM ${table} x
      WHERE x.xid >= ${xid}::xid8 AND (x.xid, x.id) > (${xid}::xid8, ${id}::uuid) ${ended} ${own}
        ${from === null ? sql`` : sql`AND ${at} >= ${from.toISOString()}::timestamptz`}
      ORDER BY x.xid, x.id LIMIT ${limit}::int)`
  })
  return database.execute<Entry>(sql`
    SELECT type, id, xid::text AS xid, (extract(epoch FROM at) * 1000)::bigint::text AS at_ms
    FROM (${sql.join(parts, sql` UNION ALL `)}) entries ORDER BY entries.xid, id LIMIT ${limit}::int`)
}

/** The events of entries, by type and id. A call of an event that was corrected since is as it was at its end. */
async function recordsOf(
  database: PostgresJsDatabase,
  entries: readonly Entry[],
): Promise<ReadonlyMap<string, FeedEvent>> {
  const ids = Map.groupBy(entries, ({ type }) => type)
  const idsOf = (type: EventType) => (ids.get(type) ?? []).map(({ id }) => id)
  const ended_ids = idsOf("tollgate.call.ended")
  const corrected_ids = idsOf("tollgate.call.corrected")
  const [found, ended, corrected, added] = await Promise.all([
    callsOf(database, [...ended_ids, ...corrected_ids]),
    correctedEnds(database, ended_ids),
    differences(database, corrected_ids),
    creditsOf(database, idsOf("tollgate.credit.added")),
  ])
  const records = new Map<string, FeedEvent>()
  const add = (id: string, event: FeedEvent) => records.set(keyOf({ type: event.type, id }), event)
  for (const [id, call] of found) {
    add(id, { type: "tollgate.call.ended", call: { ...call, ...ended.get(id) } })
    const difference_nano = corrected.get(id)
    if (difference_nano !== undefined) add(id, { type: "tollgate.call.corrected", call, difference_nano })
  }
  for (const credit of added) add(credit.id, { type: "tollgate.credit.added", credit })
  return records
}

async function callsOf(
  database: PostgresJsDatabase,
  ids: readonly string[],
): Promise<ReadonlyMap<string, CallRecord>> {
  if (ids.length === 0) return new Map()
  const seen = sql`unnest(${sql.param(arrayOf(ids, (id) => id))}::text::uuid[]) AS seen (id)`
  // Without a limit the planner would join all ends and corrections there are.
  const call = database.select().from(calls).where(eq(calls.id, sql`seen.id`)).limit(1).as("call")
  const rows = await database.select({ call: call._.selectedFields }).from(seen).crossJoinLateral(call)
  return new Map(rows.map(({ call }) => [call.id, call]))
}

/** The fields of calls that their corrections have changed, as they were at the end. */
async function correctedEnds(database: PostgresJsDatabase, ids: readonly string[]) {
  if (ids.length === 0) return new Map<string, Partial<CallRecord>>()
  const rows = await database
    .select({ end: ends, terms })
    .from(corrections)
    .innerJoin(ends, eq(ends.id, corrections.id))
    .innerJoin(terms, eq(terms.id, ends.terms_id))
    .where(inArray(corrections.id, [...ids]))
  return new Map(
    rows.map(({ end, terms }): [string, Partial<CallRecord>] => [
      end.id,
      { ...terms, ...end, state: end.outcome, notes: end.notes ?? [] },
    ]),
  )
}

async function differences(database: PostgresJsDatabase, ids: readonly string[]) {
  if (ids.length === 0) return new Map<string, bigint>()
  const { id, difference_nano } = getTableColumns(corrections)
  const rows = await database
    .select({ id, difference_nano })
    .from(corrections)
    .where(inArray(id, [...ids]))
  return new Map(rows.map((row) => [row.id, row.difference_nano]))
}

async function creditsOf(database: PostgresJsDatabase, ids: readonly string[]): Promise<readonly Credit[]> {
  return ids.length === 0
    ? []
    : database
        .select()
        .from(credits)
        .where(inArray(credits.id, [...ids]))
}

/** Reads the feeds of all shards. Throws `FeedGap` if the cursor has a place in another one. */
export async function readFeeds(
  shards: readonly (readonly [name: string, read: () => Promise<FeedPart>])[],
  { after, limit }: FeedQuery,
): Promise<FeedPage> {
  const names = shards.map(([name]) => name)
  if (after?.keys().some((name) => !names.includes(name))) throw new FeedGap("unknown_cursor")
  const parts = shards.map(async ([name, read]) => [name, await read()] as const)
  return mergeFeeds(await Promise.all(parts), limit)
}

/** The parts of several shards, each in its own order; among shards, the earlier time comes first. */
function mergeFeeds(parts: readonly (readonly [shard: string, part: FeedPart])[], limit: number): FeedPage {
  const places = new Map(parts.map(([shard, { start }]) => [shard, start]))
  const waiting = parts.map(([shard, { events, next }]) => ({ shard, next, events: [...events].reverse() }))
  const events: FeedPage["events"][number][] = []
  while (events.length < limit) {
    const heads = waiting.filter((part) => part.events.length > 0)
    const [first, ...others] = heads
    if (first === undefined) break
    const chosen = others.reduce((best, part) => (headTime(part) < headTime(best) ? part : best), first)
    const found = chosen.events.pop()
    if (found === undefined) break
    places.set(chosen.shard, found.place)
    events.push({ event: found.event, at: found.at, cursor: new Map(places) })
  }
  for (const part of waiting) if (part.events.length === 0) places.set(part.shard, part.next)
  return { events, next: places }
}

function headTime({ events }: { readonly events: readonly PlacedEvent[] }): number {
  return events.at(-1)?.at.getTime() ?? Number.POSITIVE_INFINITY
}
