/** RFC 9562 section 5.7, without the sub-millisecond option: 48 bits of milliseconds, a 12-bit counter, 62 random bits. */

let last_ms = 0
/** The first two groups of an id, for `last_ms`. */
let time = ""
let counter = 0
/** The lead of the ledger's clock over this machine's. */
let ahead_ms = 0

/**
 * Aligns ids with the ledger's clock from now on (D58): it was `ledger_ms` in answer to a question of `asked_ms` on
 * this machine. So ids are ahead of that clock by the time of one answer at most, and never behind it.
 */
export function alignIds(ledger_ms: number, sent_ms: number): void {
  ahead_ms = Math.ceil(ledger_ms - sent_ms)
}

/** A UUIDv7 that never goes backwards in this process, even if the clock does. D35 relies on the order. */
export function nextId(now_ms = Date.now() + ahead_ms): string {
  if (now_ms > last_ms) startMs(now_ms)
  else if (++counter > 0xfff) startMs(last_ms + 1)
  const count = (COUNTER_BASE + counter).toString(16)
  return `${time}-${count}-${crypto.randomUUID().slice(19)}`
}

/** The id before all others, which nothing has (RFC 9562 section 5.9). */
export const NIL_ID = "00000000-0000-0000-0000-000000000000"

/** Of the third group, which begins with the version. */
const COUNTER_BASE = 0x7000

function startMs(ms: number): void {
  last_ms = ms
  counter = 0
  const digits = ms.toString(16).padStart(12, "0")
  time = `${digits.slice(0, 8)}-${digits.slice(8)}`
}

/** The time by the ledger's clock, later than everything that it has written. */
export function ledgerTime(): Date {
  return new Date(Date.now() + ahead_ms + 1)
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** True if `text` is a UUID in the canonical lower-case form, of any version. */
export function isId(text: string): boolean {
  return UUID.test(text)
}

/** A UUID of any case in the canonical form, or null when `text` is none. */
export function parseId(text: string): string | null {
  const id = text.toLowerCase()
  return isId(id) ? id : null
}

/** The lower bound of the ids that `nextId` makes at `at` or later: before 1970 of all. */
export function floorId(at: Date): string {
  const time = Math.max(at.getTime(), 0).toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-0000-0000-000000000000`
}

/** The moment at which `nextId` made the id, in milliseconds since 1970. */
export function madeMs(id: string): number {
  return Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16)
}

declare global {
  interface Request {
    /** Set by `requestId`. A property, because the collector visits each entry of a WeakMap. */
    tollgate_id?: string
  }
}

/** The id of a request: created once, sent with every answer, and the id of its call in the ledger (D16). */
export function requestId(request: Request): string {
  request.tollgate_id ??= nextId()
  return request.tollgate_id
}
