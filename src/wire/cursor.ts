import { isId } from "../id.ts"

/** Cursors of the event feed (D96), as readers keep them. Their text means nothing to others. */

/** A reader's place in the feed of one database: the last event that it has read. */
export interface FeedPlace {
  readonly epoch: string
  /** True while the reader reads entries that were restored from a dump, whose transactions are another server's. */
  readonly is_restored: boolean
  /** Digits. */
  readonly xid: string
  readonly id: string
}

/** The places in each shard, by its name. */
export type FeedCursor = ReadonlyMap<string, FeedPlace>

const MAX_LENGTH = 4_096
const XID = /^\d{1,20}$/

export function printCursor(cursor: FeedCursor): string {
  const places = [...cursor].map(([shard, { epoch, is_restored, xid, id }]) => [
    shard,
    epoch,
    is_restored,
    xid,
    id,
  ])
  return btoa(encodeURI(JSON.stringify(places)))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "")
}

/** Null for a text that is no cursor. */
export function readCursor(text: string): FeedCursor | null {
  if (text.length > MAX_LENGTH) return null
  try {
    const given: unknown = JSON.parse(decodeURI(atob(text.replaceAll("-", "+").replaceAll("_", "/"))))
    if (!Array.isArray(given)) return null
    const places = given.map(placeOf)
    const known = places.filter((place) => place !== null)
    return known.length === places.length ? new Map(known) : null
  } catch {
    return null
  }
}

function placeOf(given: unknown): readonly [shard: string, place: FeedPlace] | null {
  if (!Array.isArray(given)) return null
  const [shard, epoch, is_restored, xid, id]: unknown[] = given
  if (typeof shard !== "string" || typeof is_restored !== "boolean") return null
  if (typeof epoch !== "string" || typeof xid !== "string" || typeof id !== "string") return null
  if (!isId(epoch) || !XID.test(xid) || !isId(id)) return null
  return [shard, { epoch, is_restored, xid, id }]
}
