import { and, gt, gte, isNotNull, lt, sql } from "drizzle-orm"
import { floorId, NIL_ID } from "../../id.ts"
import type { FeedCursor, FeedPlace } from "../../wire/cursor.ts"
import type { EventType } from "../../wire/events.ts"
import type { Db } from "../database/statement.ts"
import { FeedGap } from "../entries.ts"
import { isNative } from "../schema/feed.ts"
import { months } from "../schema/sums.ts"
import { ends } from "../schema/tables.ts"
import { type Entry, type EntryQuery, entriesAfter } from "./feed-entries.ts"
import { type FeedEvent, keyOf, recordsOf, subjectsOf } from "./feed-events.ts"
import { beginning, type FeedState, feedState, placeIn } from "./place.ts"

/**
 * The journal as a feed of events (D96), in the order of the transactions that wrote the entries. Only transactions are read
 * before which none is open, so none can commit later and be skipped.
 */

/** Longer than a statement that writes an entry may take, so that its transaction is not older than its time by more. */
const BEFORE_MS = 10_000
/** Entries whose events are made in one turn of the event loop. */
const ENTRIES_AT_ONCE = 250

export interface FeedQuery {
  readonly after: FeedCursor | null
  /** Without `after`: only events from here on. */
  readonly from: Date | null
  /** Only events before it; null for all. */
  readonly to?: Date | null
  readonly types: readonly EventType[]
  readonly limit: number
  /** True if no event may come again after a long time. */
  readonly is_once?: boolean
}

interface PlacedEvent {
  readonly event: FeedEvent
  readonly at: Date
  /** The account's external id, or its id; the name of an upstream or an operator. */
  readonly subject: string
  readonly place: FeedPlace
}

export interface FeedPart {
  readonly start: FeedPlace
  readonly events: readonly PlacedEvent[]
  /** The place after them and after everything that the query left out. */
  readonly next: FeedPlace
}

export interface FeedPage {
  readonly events: readonly (Omit<PlacedEvent, "place"> & { readonly cursor: FeedCursor })[]
  readonly next: FeedCursor
}

/** Reads the feed of one database. Throws `FeedGap` if entries after the cursor or `from` are missing. */
export async function readFeed(
  database: Db,
  shard: string,
  { after, from, to = null, is_once, ...others }: FeedQuery,
): Promise<FeedPart> {
  const state = await feedState(database)
  const entry_query = { ...others, to, ends_before: to === null ? null : await firstEndAfter(database, to) }
  const place = after?.get(shard)
  const is_new = after === null || place === undefined
  const start = is_new ? await firstPlace(database, state, from) : placeIn(state, place)
  if (is_once && start.is_restored && !hasOrder(state)) throw new FeedGap("no_order")
  const read = { ...entry_query, from: is_new ? from : null }
  const first = await partAfter(database, state, start, read)
  if (first.is_full || !start.is_restored) return { start, ...first }
  const native = { epoch: state.current.id, is_restored: false, xid: "0", id: NIL_ID }
  const limit = entry_query.limit - first.events.length
  const rest = await partAfter(database, state, native, { ...read, limit })
  return { start, events: [...first.events, ...rest.events], next: rest.next }
}

/** The place of a reader who wants the events since a time: after a call that had ended long enough before. */
export async function firstPlace(database: Db, state: FeedState, from: Date | null): Promise<FeedPlace> {
  const first = beginning(state)
  if (from === null) return first
  const [gone] = await database
    .select({ month: months.month })
    .from(months)
    .where(and(isNotNull(months.detached_at), gt(months.to_id, floorId(from))))
    .limit(1)
  if (gone !== undefined) throw new FeedGap("archived")
  if (!hasOrder(state)) return first
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

/** A transaction from which on all ends are later than a time, so that a reader skips the rest; null without one. */
async function firstEndAfter(database: Db, time: Date): Promise<string | null> {
  const after = new Date(time.getTime() + BEFORE_MS)
  const [found] = await database
    .select({ xid: ends.xid, is_native: sql<boolean>`${isNative("ends")}` })
    .from(ends)
    .where(and(gte(ends.id, floorId(after)), gte(ends.ended_at, after)))
    .orderBy(ends.id)
    .limit(1)
  return found?.is_native === true ? found.xid : null
}

/** True unless the restored entries are of two series, which have no common order. */
const hasOrder = ({ current }: FeedState) => current.series <= 2

async function partAfter(database: Db, state: FeedState, place: FeedPlace, entry_query: EntryQuery) {
  const entries = await entriesAfter(database, state, place, entry_query)
  const records = new Map<string, FeedEvent>()
  for (let at = 0; at < entries.length; at += ENTRIES_AT_ONCE)
    for (const [key, event] of await recordsOf(database, entries.slice(at, at + ENTRIES_AT_ONCE)))
      records.set(key, event)
  const subjects = await subjectsOf(database, [...records.values()])
  const placeOf = ({ xid, id }: Entry): FeedPlace => ({ ...place, xid, id })
  const events = entries.flatMap((entry) => {
    const event = records.get(keyOf(entry))
    if (event === undefined) return []
    const subject = subjectIn(event, subjects)
    return [{ event, subject, at: new Date(Number(entry.at_ms)), place: placeOf(entry) }]
  })
  const last = entries.at(-1)
  const is_full = entries.length === entry_query.limit
  const read = last === undefined ? place : placeOf(last)
  const is_behind = BigInt(read.xid) < BigInt(state.horizon)
  const next =
    is_full || place.is_restored || !is_behind ? read : { ...place, xid: state.horizon, id: NIL_ID }
  return { events, next, is_full }
}

function subjectIn(event: FeedEvent, subjects: ReadonlyMap<string, string>): string {
  if (event.account_id !== null) return subjects.get(event.account_id) ?? event.account_id
  if ("changed" in event) return event.changed.change.actor
  return "alert" in event && "upstream" in event.alert.details ? event.alert.details.upstream : ""
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
    const { place: _, ...event } = found
    events.push({ ...event, cursor: new Map(places) })
  }
  for (const part of waiting) if (part.events.length === 0) places.set(part.shard, part.next)
  return { events, next: places }
}

function headTime({ events }: { readonly events: readonly PlacedEvent[] }): number {
  return events.at(-1)?.at.getTime() ?? Number.POSITIVE_INFINITY
}
