/** The bytes of large bodies, and of long parts of streams, that are read in a turn of the event loop. They take about 0.5 ms. */
const TURN_BYTES = 262_144
/** About as many come at a time. */
const PART_BYTES = 131_072

/** Bounds what is read of large bodies and parts in a turn of the event loop. Accounts take turns (D78). */
export class Pace {
  #left_bytes = TURN_BYTES
  #is_ticking = false
  /** By account; the one whose turn is next is first. */
  readonly #waiting = new Map<string, (() => void)[]>()

  /** Counts bytes that were read. Resolves when the reader may continue; null if it may continue now. */
  read(account_id: string, bytes: number): Promise<void> | null {
    // Readers that wait have their turns later: the sum of many large answers would keep all other accounts from theirs.
    this.#left_bytes = Math.max(this.#left_bytes - bytes, -TURN_BYTES)
    if (!this.#is_ticking) setImmediate(this.#tick)
    this.#is_ticking = true
    if (this.#left_bytes > 0) return null
    return new Promise((resolve) => {
      const own = this.#waiting.get(account_id)
      if (own === undefined) this.#waiting.set(account_id, [resolve])
      else own.push(resolve)
    })
  }

  readonly #tick = (): void => {
    this.#left_bytes = Math.min(this.#left_bytes + TURN_BYTES, TURN_BYTES)
    let room = Math.ceil(this.#left_bytes / PART_BYTES)
    // An account with more readers goes to the end.
    for (const [account_id, own] of this.#waiting) {
      if (room <= 0) break
      room -= 1
      own.shift()?.()
      this.#waiting.delete(account_id)
      if (own.length > 0) this.#waiting.set(account_id, own)
    }
    this.#is_ticking = this.#waiting.size > 0 || this.#left_bytes < TURN_BYTES
    if (this.#is_ticking) setImmediate(this.#tick)
  }
}
