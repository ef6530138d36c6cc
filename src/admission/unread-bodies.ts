import { FairShare } from "../ledger/database/fair-share.ts"

/** The most that the runtime keeps of a body that nobody reads, before it stops reading the connection. */
const UNREAD_BYTES = 1_572_864
/** The runtime reads and drops a refused body of up to this length. The rest of a longer one is not read. */
export const DROPPED_BYTES = 1_048_576
/**
 * The bytes that the runtime reads of a new connection before it reports the request. A shorter body costs no more than
 * its head.
 */
const FIRST_BYTES = 65_536
/** The bodies of refused requests whose clients may still read the answer. */
const LINGERING_BYTES = 12_582_912
/** The part of the default memory for bodies whose key is looked up, such as all after a restart. */
const WAITING_PART = 8
const LEAST_WAITING_BYTES = 16 * UNREAD_BYTES
const MOST_WAITING_BYTES = 2 * LEAST_WAITING_BYTES
/** Maximum bytes in `UNKNOWN_MS` of long bodies with keys that no account has, or that are being looked up. */
const UNKNOWN_BYTES = MOST_WAITING_BYTES
const UNKNOWN_MS = 1_000

/**
 * The announced length of a body; infinite without one, and for a list of lengths, which the server accepts if they are
 * equal.
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

/** Requests whose body was not read to its end. */
export const unfinished = new WeakSet<Request>()

/** The received bytes of a long body, which are dropped. A client may send less than it announces. */
export async function arrivedBytes(request: Request): Promise<number> {
  const { body, headers } = request
  if (body === null || unreadBytes(headers) <= DROPPED_BYTES) return 0
  unfinished.add(request)
  const reader = body.getReader()
  const { promise: nothing, resolve } = Promise.withResolvers<null>()
  const turn = setImmediate(() => resolve(null))
  try {
    const part = await Promise.race([reader.read(), nothing])
    const bytes = part?.value?.byteLength ?? 0
    // Nothing else uses this buffer, so it is freed without a collection.
    if (part?.value?.buffer instanceof ArrayBuffer) part.value.buffer.transfer(0)
    return bytes
  } catch {
    return 0
  } finally {
    clearImmediate(turn)
    reader.releaseLock()
  }
}

/** Called once, when a body no longer waits. `arrived_bytes`: its received bytes if no account has its key, otherwise 0. */
export type EndOfWait = (arrived_bytes: number) => void

/** The bodies of this process that nobody reads yet, or that are refused (D77). The runtime keeps the beginning of each. */
export class UnreadBodies {
  #lingering_bytes = 0
  readonly #waiting_limit_bytes: number
  readonly #waiting = new FairShare()
  readonly #unknown = new FairShare()

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
   * Counts a refused body without a length that gets time to end, until the returned function is called, once; null if
   * half of the memory is taken. The other half is for bodies that wait for the ledger, so refused bodies never use all
   * of it.
   */
  end(headers: Headers): (() => void) | null {
    const bytes = unreadBytes(headers)
    if (this.#waiting.used + bytes > this.#waiting_limit_bytes / 2) return null
    this.#waiting.add("", bytes)
    return () => this.#waiting.release("", bytes)
  }

  /**
   * Counts a body that waits for the ledger; null if there is no memory. `address`: the sender, if the gateway does not
   * remember the key; null if it does. Addresses share the memory. Received bytes of long bodies with keys that no
   * account has count for a second, so that a flood of them is refused before the ledger is asked and the runtime reads
   * more. Announced bytes that did not come do not count, because a flood of heads costs little.
   */
  wait(headers: Headers, address: string | null): EndOfWait | null {
    const bytes = unreadBytes(headers)
    const sender = bytes > FIRST_BYTES ? address : null
    const has_room =
      sender === null
        ? this.#waiting.used + bytes <= this.#waiting_limit_bytes
        : this.#waiting.has(sender, bytes, this.#waiting_limit_bytes)
    if (!has_room) return null
    const is_long = sender !== null && bytes > DROPPED_BYTES
    if (is_long && !this.#unknown.acquire(sender, bytes, UNKNOWN_BYTES)) return null
    this.#waiting.add(sender ?? "", bytes)
    return (arrived_bytes) => {
      this.#waiting.release(sender ?? "", bytes)
      if (!is_long) return
      const kept_bytes = Math.min(arrived_bytes, bytes)
      this.#unknown.release(sender, bytes - kept_bytes)
      if (kept_bytes > 0) setTimeout(() => this.#unknown.release(sender, kept_bytes), UNKNOWN_MS).unref()
    }
  }
}
