const WINDOW_MS = 60_000

/** What is left of a key's use of its minute. */
interface Use {
  /** Requests, less what has flowed off since. */
  readonly level: number
  readonly at_ms: number
}

/**
 * The request rate of each key: a leaky bucket that a minute's requests fill and that empties within a minute (D38).
 * Every step costs the same for any number of keys, and no timer runs. Buckets that were not used for two minutes are
 * empty, and are dropped together.
 */
export class Rate {
  #recent = new Map<string, Use>()
  #older = new Map<string, Use>()
  #turn_ms = Number.NEGATIVE_INFINITY

  /** Keys that are remembered. */
  get size(): number {
    return this.#recent.size + this.#older.size
  }

  /** How long `key` has to wait for its next request, in milliseconds; 0 if it may come now. */
  wait(key: string, per_minute: number, now_ms: number): number {
    const excess = this.#level(key, per_minute, now_ms) + 1 - per_minute
    return excess <= 0 ? 0 : (excess * WINDOW_MS) / per_minute
  }

  /** A request of `key` is let in. */
  note(key: string, per_minute: number, now_ms: number): void {
    const level = this.#level(key, per_minute, now_ms) + 1
    this.#older.delete(key)
    this.#recent.set(key, { level, at_ms: now_ms })
  }

  #level(key: string, per_minute: number, now_ms: number): number {
    this.#turn(now_ms)
    const use = this.#recent.get(key) ?? this.#older.get(key)
    if (use === undefined) return 0
    const flowed_off = ((now_ms - use.at_ms) * per_minute) / WINDOW_MS
    return Math.max(0, Math.min(use.level, per_minute) - flowed_off)
  }

  #turn(now_ms: number): void {
    if (now_ms - this.#turn_ms < WINDOW_MS) return
    const is_recent = now_ms - this.#turn_ms < 2 * WINDOW_MS
    this.#older = is_recent ? this.#recent : new Map()
    this.#recent = new Map()
    this.#turn_ms = now_ms
  }
}
