import { FairShare } from "../ledger/database/fair-share.ts"

/** The most that the runtime keeps of a body that nobody reads, before it stops reading the connection. Measured: 1.2 MiB. */
const UNREAD_BYTES = 1_572_864
/** The bytes that the runtime has read of a new connection before its request is seen. Shorter bodies cost what their heads cost. */
const FIRST_BYTES = 65_536
/** The bodies of refused requests whose clients may still read the answer. */
const LINGERING_BYTES = 12_582_912
/** The bodies of keys that no account has: a place for each of 16 that are large. */
const UNKNOWN_BYTES = 16 * UNREAD_BYTES
/** The time for which the body of a key that no account has keeps its place. */
const UNKNOWN_MS = 1_000
/** The time for which the places are limited after such a body. */
const WARY_MS = 60_000
/** For the bodies that wait for the ledger, which after a restart knows no key: this part of the default memory, within bounds. */
const WAITING_PART = 8
const LEAST_WAITING_BYTES = UNKNOWN_BYTES
const MOST_WAITING_BYTES = 2 * UNKNOWN_BYTES

/**
 * The length that a request announces for its body, in bytes; infinite for none, and for a list, which the server accepts if its
 * numbers are equal (RFC 9110 section 8.6).
 */
export function announcedBytes(headers: Headers): number {
  const bytes = Number(headers.get("content-length") ?? Number.NaN)
  return Number.isNaN(bytes) ? Number.POSITIVE_INFINITY : bytes
}

/** The most that the runtime keeps of a request's body while nobody reads it, in bytes. */
export function unreadBytes(headers: Headers): number {
  const has_body = headers.has("content-length") || headers.has("transfer-encoding")
  return has_body ? Math.min(announcedBytes(headers), UNREAD_BYTES) : 0
}

/** Called once, when a body no longer waits: because its request was refused, or for another reason. */
export type EndOfWait = (is_refused: boolean) => void

/** The bodies of this process that nobody reads while something else happens (D77). The runtime keeps the beginning of each. */
export class UnreadBodies {
  #lingering_bytes = 0
  #waiting_bytes = 0
  readonly #waiting_limit_bytes: number
  readonly #unknown = new FairShare()
  #wary_until_ms = Number.NEGATIVE_INFINITY

  constructor(default_memory_bytes: number) {
    const part_bytes = Math.min(default_memory_bytes / WAITING_PART, MOST_WAITING_BYTES)
    this.#waiting_limit_bytes = Math.max(part_bytes, LEAST_WAITING_BYTES)
  }

  /** Counts a refused body whose client reads the answer, until the returned function is called, once; null if there is no memory. */
  linger(headers: Headers): (() => void) | null {
    const bytes = unreadBytes(headers)
    if (this.#lingering_bytes + bytes > LINGERING_BYTES) return null
    this.#lingering_bytes += bytes
    return () => {
      this.#lingering_bytes -= bytes
    }
  }

  /**
   * Counts a body that waits for the ledger, or a refused one that waits for its end; null if there is no memory. `address`: who
   * sends it, null for the ledger if the key is known. After a large body of a key that nobody has, such bodies share a few places
   * by address, and keep them for a second, so that a flood is refused before the ledger is asked and the runtime reads more.
   */
  wait(headers: Headers, address: string | null): EndOfWait | null {
    const bytes = unreadBytes(headers)
    if (this.#waiting_bytes + bytes > this.#waiting_limit_bytes) return null
    const is_suspect = address !== null && bytes > FIRST_BYTES
    const shares = is_suspect && performance.now() < this.#wary_until_ms
    if (shares && !this.#unknown.take(address, bytes, UNKNOWN_BYTES)) return null
    this.#waiting_bytes += bytes
    return (is_refused) => {
      this.#waiting_bytes -= bytes
      if (is_suspect && is_refused) this.#wary_until_ms = performance.now() + WARY_MS
      if (!shares) return
      if (is_refused) setTimeout(() => this.#unknown.give(address, bytes), UNKNOWN_MS).unref()
      else this.#unknown.give(address, bytes)
    }
  }
}
