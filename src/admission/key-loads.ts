import type { Config } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { Rate } from "./rate.ts"

/** The limits of one key in a process; null: no limit (D38). */
export type KeyLimits = Config["limits"]["per_key"]

/** Which of them a key met. */
export type KeyLimit = "in_flight" | "requests_per_minute"

/** `retry-after` in seconds. Nobody knows when a place becomes free, and asking again is cheap, so it is short. */
const PLACE_RETRY_S = 1

/**
 * What each key uses of this process: running calls and token counts, and requests per minute (D38). Keys are known by
 * their hashes. Only what runs, and what came within the last two minutes, is remembered. Unknown keys leave nothing
 * behind.
 */
export class KeyLoads {
  readonly #running = new Map<string, number>()
  readonly #rate = new Rate()
  readonly #onRefused: (limit: KeyLimit) => void

  /** `onRefused` is told of every request that is refused here. */
  constructor(onRefused: (limit: KeyLimit) => void = () => {}) {
    this.#onRefused = onRefused
  }

  /** Keys that are remembered. */
  get size(): number {
    return this.#running.size + this.#rate.size
  }

  /** Throws `rate_limited` when a key has no free place. Takes none, so it can be the first check of all. */
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

  /** Throws `rate_limited` when a key may make no request now; counts none. */
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
   * Takes a place for a running call or count. Throws `rate_limited` when there is none. Call the returned function
   * once, to give it back.
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
