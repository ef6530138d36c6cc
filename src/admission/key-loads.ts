import type { Config } from "../config/config.ts"
import { GatewayError } from "../errors.ts"

/** The limits of one key in a process; null: no limit (D38). */
export type KeyLimits = Config["limits"]["per_key"]

/** The limit that refused a request. */
export type KeyLimit = "in_flight" | "requests_per_minute"

/** `retry-after` in seconds. It is short, because a running call can end at any moment and a retry costs little. */
const PLACE_RETRY_S = 1

/**
 * What each key uses of this process: running calls and token counts, and requests per minute (D38). Keys are known by
 * their hashes. It remembers running calls and the requests of the last two minutes. Unknown keys take no memory.
 */
export class KeyLoads {
  readonly #running = new Map<string, number>()
  readonly #rate = new Rate()
  readonly #onRefused: (limit: KeyLimit) => void

  /** Calls `onRefused` for every request that it refuses. */
  constructor(onRefused: (limit: KeyLimit) => void = () => {}) {
    this.#onRefused = onRefused
  }

  /** The number of keys in memory. */
  get size(): number {
    return this.#running.size + this.#rate.size
  }

  /** Throws `rate_limited` if the key is at one of its limits. Counts nothing, so it can be the first check of a request. */
  check(key_hash: string, limits: KeyLimits): void {
    const { in_flight } = limits
    if (in_flight !== null && (this.#running.get(key_hash) ?? 0) >= in_flight) {
      this.#onRefused("in_flight")
      throw limited(
        "This key has reached its limit of concurrent calls. Retry when one of them has finished.",
        PLACE_RETRY_S,
      )
    }
    this.checkRate(key_hash, limits)
  }

  /** Throws `rate_limited` if the key is at its request rate. Counts nothing. */
  checkRate(key_hash: string, { requests_per_minute }: KeyLimits): void {
    if (requests_per_minute === null) return
    const wait_ms = this.#rate.wait(key_hash, requests_per_minute, performance.now())
    if (wait_ms === 0) return
    this.#onRefused("requests_per_minute")
    throw limited(
      "This key has reached its rate limit. Wait for the time in the retry-after header, then retry.",
      Math.ceil(wait_ms / 1_000),
    )
  }

  /**
   * Counts a running call or token count. Throws `rate_limited` if the key is at one of its limits. Call the returned
   * function once, when it has ended.
   */
  enter(key_hash: string, limits: KeyLimits): () => void {
    this.check(key_hash, limits)
    this.#running.set(key_hash, (this.#running.get(key_hash) ?? 0) + 1)
    return () => this.#leave(key_hash)
  }

  /** Counts a request of a known key. Throws `rate_limited` when other requests have used up the limit. */
  count(key_hash: string, limits: KeyLimits): void {
    if (limits.requests_per_minute === null) return
    this.checkRate(key_hash, limits)
    this.#rate.note(key_hash, limits.requests_per_minute, performance.now())
  }

  #leave(key_hash: string): void {
    const left = (this.#running.get(key_hash) ?? 0) - 1
    if (left > 0) this.#running.set(key_hash, left)
    else this.#running.delete(key_hash)
  }
}

function limited(message: string, retry_after_s: number): GatewayError {
  return new GatewayError("rate_limited", { message, headers: { "retry-after": String(retry_after_s) } })
}

const WINDOW_MS = 60_000

/** How full the bucket of a key was when it was last used. */
interface Use {
  /** In requests. */
  readonly level: number
  readonly at_ms: number
}

/**
 * The request rate of each key: a leaky bucket that holds the requests of one minute and empties within a minute (D38).
 * Every step costs the same for any number of keys, and no timer runs. Buckets that were not used for two minutes are
 * empty, and are dropped together.
 */
export class Rate {
  #recent = new Map<string, Use>()
  #older = new Map<string, Use>()
  #turn_ms = Number.NEGATIVE_INFINITY

  /** The number of keys in memory. */
  get size(): number {
    return this.#recent.size + this.#older.size
  }

  /** How long `key` has to wait for its next request, in milliseconds; 0 if it may come now. */
  wait(key: string, per_minute: number, now_ms: number): number {
    const excess = this.#level(key, per_minute, now_ms) + 1 - per_minute
    return excess <= 0 ? 0 : (excess * WINDOW_MS) / per_minute
  }

  /** Counts a request of `key`. */
  note(key: string, per_minute: number, now_ms: number): void {
    const level = this.#level(key, per_minute, now_ms) + 1
    this.#older.delete(key)
    this.#recent.set(key, { level, at_ms: now_ms })
  }

  #level(key: string, per_minute: number, now_ms: number): number {
    this.#turn(now_ms)
    const use = this.#recent.get(key) ?? this.#older.get(key)
    if (use === undefined) return 0
    const leaked = ((now_ms - use.at_ms) * per_minute) / WINDOW_MS
    return Math.max(0, Math.min(use.level, per_minute) - leaked)
  }

  #turn(now_ms: number): void {
    if (now_ms - this.#turn_ms < WINDOW_MS) return
    const is_recent = now_ms - this.#turn_ms < 2 * WINDOW_MS
    this.#older = is_recent ? this.#recent : new Map()
    this.#recent = new Map()
    this.#turn_ms = now_ms
  }
}
