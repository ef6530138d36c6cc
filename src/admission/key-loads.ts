import type { Config } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import type { RateLeft } from "../wire/budget.ts"

/** The limits of one key in a process; null: no limit (D38). */
type KeyLimits = Config["limits"]["per_key"]

type KeyLimit = keyof KeyLimits

const REFUSALS: Readonly<Record<KeyLimit, string>> = {
  in_flight: "This key has reached its limit of concurrent calls. Retry when one of them has finished.",
  requests_per_minute:
    "This key has reached its rate limit. Wait for the time in the retry-after header, then retry.",
  abandoned_per_minute:
    "Too many calls of this key were abandoned before any output. Wait for the time in the retry-after header, then retry.",
}
/** `retry-after` in seconds. Short, because a running call can end at any time and a retry costs little. */
const SLOT_RETRY_S = 1
/** The longest wait after many abandoned calls (D91). */
const ABANDONED_MS = 600_000

/**
 * The load of each key on this process: running calls and token counts, requests per minute (D38), and abandoned calls
 * (D91). By the id of the key, so that a rotation does not reset a limit (D104). It remembers running calls, the
 * requests of two minutes, and the abandoned calls of twenty minutes. Unknown keys take no memory.
 */
export class KeyLoads {
  readonly #running = new Map<string, number>()
  readonly #rates = { requests_per_minute: new LoadRate(), abandoned_per_minute: new LoadRate(ABANDONED_MS) }
  readonly #onRefused: (limit: KeyLimit) => void

  /** Calls `onRefused` for every request that it refuses. */
  constructor(onRefused: (limit: KeyLimit) => void = () => {}) {
    this.#onRefused = onRefused
  }

  get size(): number {
    const { requests_per_minute, abandoned_per_minute } = this.#rates
    return this.#running.size + requests_per_minute.size + abandoned_per_minute.size
  }

  /** Throws `rate_limited` if the key is at one of its limits. Counts nothing. */
  check(key_id: string, limits: KeyLimits): void {
    const { in_flight } = limits
    if (in_flight !== null && (this.#running.get(key_id) ?? 0) >= in_flight)
      throw this.#refused("in_flight", SLOT_RETRY_S)
    this.checkRate(key_id, limits)
  }

  /** Throws `rate_limited` if the key is at this rate. Counts nothing. */
  checkRate(
    key_id: string,
    limits: KeyLimits,
    limit: "requests_per_minute" | "abandoned_per_minute" = "requests_per_minute",
  ): void {
    const per_minute = limits[limit]
    if (per_minute === null) return
    const wait_ms = this.#rates[limit].wait(key_id, per_minute, performance.now())
    if (wait_ms > 0) throw this.#refused(limit, Math.ceil(wait_ms / 1_000))
  }

  /** Counts a call or token count until the returned function is called, once. Throws `rate_limited` at a limit. */
  takeSlot(key_id: string, limits: KeyLimits): () => void {
    this.check(key_id, limits)
    this.#running.set(key_id, (this.#running.get(key_id) ?? 0) + 1)
    return () => this.#releaseSlot(key_id)
  }

  /** Counts a request of a known key. Throws `rate_limited` when other requests have used up the limit. */
  count(key_id: string, limits: KeyLimits): void {
    if (limits.requests_per_minute === null) return
    this.checkRate(key_id, limits)
    this.#rates.requests_per_minute.note(key_id, limits.requests_per_minute, performance.now())
  }

  /** The requests that a key has left (D85); null if there is no limit. */
  rate(key_id: string, { requests_per_minute }: KeyLimits): RateLeft | null {
    if (requests_per_minute === null) return null
    return this.#rates.requests_per_minute.left(key_id, requests_per_minute, performance.now())
  }

  /** Counts an abandoned call (D91). */
  abandoned(key_id: string, { abandoned_per_minute }: KeyLimits): void {
    if (abandoned_per_minute !== null)
      this.#rates.abandoned_per_minute.note(key_id, abandoned_per_minute, performance.now())
  }

  #refused(limit: KeyLimit, retry_after_s: number): GatewayError {
    this.#onRefused(limit)
    const headers = { "retry-after": String(retry_after_s) }
    return new GatewayError("rate_limited", { message: REFUSALS[limit], headers })
  }

  #releaseSlot(key_id: string): void {
    const left = (this.#running.get(key_id) ?? 0) - 1
    if (left > 0) this.#running.set(key_id, left)
    else this.#running.delete(key_id)
  }
}

const WINDOW_MS = 60_000

/** The fill of a key's bucket when it was last used. */
interface Use {
  /** In requests. */
  readonly level: number
  readonly at_ms: number
}

/**
 * The request rate of each key: a leaky bucket that drains the requests of one minute within a minute (D38). It counts
 * at most the requests that drain within `keep_ms`. Buckets that were not used for twice that time are empty, and are
 * dropped together, without a timer.
 */
export class LoadRate {
  readonly #keep_ms: number
  #recent = new Map<string, Use>()
  #older = new Map<string, Use>()
  #turn_ms = Number.NEGATIVE_INFINITY

  constructor(keep_ms = WINDOW_MS) {
    this.#keep_ms = keep_ms
  }

  get size(): number {
    return this.#recent.size + this.#older.size
  }

  /** Milliseconds until the next request of `key` is accepted. */
  wait(key: string, per_minute: number, now_ms: number): number {
    const excess = this.#level(key, per_minute, now_ms) + 1 - per_minute
    return excess <= 0 ? 0 : (excess * WINDOW_MS) / per_minute
  }

  left(key: string, per_minute: number, now_ms: number): RateLeft {
    const level = this.#level(key, per_minute, now_ms)
    return {
      unit: "requests",
      limit: BigInt(per_minute),
      remaining: BigInt(Math.max(0, Math.floor(per_minute - level))),
      reset_ms: (level * WINDOW_MS) / per_minute,
    }
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
    const most = (per_minute * this.#keep_ms) / WINDOW_MS
    const leaked = ((now_ms - use.at_ms) * per_minute) / WINDOW_MS
    return Math.max(0, Math.min(use.level, most) - leaked)
  }

  #turn(now_ms: number): void {
    if (now_ms - this.#turn_ms < this.#keep_ms) return
    const is_recent = now_ms - this.#turn_ms < 2 * this.#keep_ms
    this.#older = is_recent ? this.#recent : new Map()
    this.#recent = new Map()
    this.#turn_ms = now_ms
  }
}
