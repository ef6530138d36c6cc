import { asc, sql } from "drizzle-orm"
import { NIL_ID } from "../../id.ts"
import type { FeedPlace } from "../../wire/cursor.ts"
import type { Db } from "../database/statement.ts"
import { FeedGap } from "../entries.ts"
import { feed_epochs, isNative } from "../schema/feed.ts"
import { months } from "../schema/sums.ts"

/** The places of readers in the event feed, over promoted standbys and restored backups (D96). */

/** The age at which the row of the current epoch is written again. Longer means more events twice after a failover. */
const SEEN = sql.raw("interval '10 seconds'")
const horizon = sql.raw("pg_snapshot_xmin(pg_current_snapshot())")
const newest = sql`(SELECT *, ${isNative("e")} AS is_native FROM ${feed_epochs} e ORDER BY e.number DESC LIMIT 1)`

type Epoch = Pick<typeof feed_epochs.$inferSelect, "id" | "series" | "from_xid">

/** A month whose entries are no longer in the journal, with its last transaction. */
interface ReadUpTo {
  readonly last_xid: string
  readonly last_series: number
}

export interface FeedState {
  /** In order; the last one is the current epoch. */
  readonly epochs: readonly Epoch[]
  readonly current: Epoch
  /** Every transaction before this one has ended. */
  readonly horizon: string
  /** No transaction has this id yet, or a later one. */
  readonly next_xid: string
  readonly detached: readonly ReadUpTo[]
}

/** Begins an epoch if the database was started, promoted, copied or restored; else notes that it was not. */
export async function feedState(database: Db): Promise<FeedState> {
  const [now] = await database.execute<{
    horizon: string
    next_xid: string
    is_other: boolean
    is_old: boolean
  }>(sql`
    SELECT ${horizon}::text AS horizon, pg_snapshot_xmax(pg_current_snapshot())::text AS next_xid,
      NOT n.is_native OR n.place <> tollgate.feed_place() AS is_other,
      n.seen_at < now() - ${SEEN} AS is_old
    FROM ${newest} n`)
  if (now === undefined) throw new Error("the event feed has no epoch")
  if (now.is_other) {
    await database.execute(beginEpoch)
    return feedState(database)
  }
  if (now.is_old) await database.execute(noteHorizon)
  const epochs = await database
    .select({ id: feed_epochs.id, series: feed_epochs.series, from_xid: feed_epochs.from_xid })
    .from(feed_epochs)
    .orderBy(asc(feed_epochs.number))
  const detached = await database.execute<{ last_xid: string; last_series: number }>(sql`
    SELECT ${months.last_xid}::text AS last_xid, ${months.last_series} FROM ${months} WHERE ${months.last_xid} IS NOT NULL`)
  const current = epochs.at(-1)
  if (current === undefined) throw new Error("the event feed has no epoch")
  return { epochs, current, horizon: now.horizon, next_xid: now.next_xid, detached }
}

/**
 * A promoted standby, or a server that was started from a copy of its files, may have lost the last transactions, and
 * uses their ids again: the epoch begins where the old row says that all had ended, which was before. The transactions of a
 * restored ledger have nothing to do with its entries: a new series.
 */
const beginEpoch = sql`
  INSERT INTO ${feed_epochs} (number, series, place, from_xid, seen_xid)
  SELECT n.number + 1, n.series + (NOT n.is_native)::int, tollgate.feed_place(),
    CASE WHEN n.is_native THEN n.seen_xid ELSE '0' END, ${horizon}
  FROM ${newest} n WHERE NOT n.is_native OR n.place <> tollgate.feed_place()
  ON CONFLICT (number) DO NOTHING`

/** Never on another server than the one that wrote the row, which would hide that there is another. */
const noteHorizon = sql`
  UPDATE ${feed_epochs} e SET seen_xid = ${horizon}, seen_at = now(), xid = pg_current_xact_id()
  WHERE e.number = (SELECT max(number) FROM ${feed_epochs}) AND e.place = tollgate.feed_place() AND ${isNative("e")}
    AND e.seen_at < now() - ${SEEN}`

/** The first place of the feed: restored entries come first. */
export function beginning({ current }: FeedState): FeedPlace {
  return { epoch: current.id, is_restored: current.series > 1, xid: "0", id: NIL_ID }
}

/** A place in the current epoch, perhaps earlier, so that no event is skipped. Throws `FeedGap` if unknown. */
export function placeIn(state: FeedState, place: FeedPlace): FeedPlace {
  const { epochs, current } = state
  const at = epochs.findIndex(({ id }) => id === place.epoch)
  const own = epochs[at]
  if (own === undefined) throw new FeedGap("unknown_cursor")
  const later = epochs.slice(at + 1).filter(({ series }) => series === own.series)
  const reached = later.reduce((xid, { from_xid }) => earlier(xid, from_xid), place.xid)
  const xid = place.is_restored ? place.xid : reached
  const same = { ...place, epoch: current.id, xid, id: xid === place.xid ? place.id : NIL_ID }
  const known = current.series === own.series ? same : amongRestored(state, own, same)
  if (!known.is_restored && BigInt(xid) > BigInt(state.next_xid)) throw new FeedGap("unknown_cursor")
  if (state.detached.some((month) => isUnread(month, state, own, known))) throw new FeedGap("archived")
  return known
}

/** After a restore, the entries of the series before it keep their order; those of older ones have none. */
function amongRestored({ current }: FeedState, own: Epoch, place: FeedPlace): FeedPlace {
  const is_ordered = own.series === current.series - 1 && !place.is_restored
  return { ...place, is_restored: true, ...(!is_ordered && { xid: "0", id: NIL_ID }) }
}

function isUnread(month: ReadUpTo, { current }: FeedState, own: Epoch, place: FeedPlace): boolean {
  if (place.is_restored && month.last_series === current.series) return true
  const series = place.is_restored ? current.series - 1 : current.series
  return [own.series, series].includes(month.last_series) && BigInt(month.last_xid) > BigInt(place.xid)
}

function earlier(left: string, right: string): string {
  return BigInt(left) < BigInt(right) ? left : right
}
