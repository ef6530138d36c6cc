import { Waiters } from "../ledger/database/fair-share.ts"

/** The bytes of large bodies, and of long parts of streams, that are read in a turn of the event loop. They take about 0.5 ms. */
const TURN_BYTES = 262_144
/** About as many come at a time. */
const PART_BYTES = 131_072

/** Bounds what is read of large bodies and parts in a turn of the event loop. Accounts take turns (D78). */
export class Pace {
  #left_bytes = TURN_BYTES
  #is_ticking = false
  readonly #waiters = new Waiters()

  /** Counts bytes that were read. Resolves when the reader may continue; null if it may continue now. */
  read(account_id: string, bytes: number): Promise<void> | null {
    // Readers that wait have their turns later: the sum of many large answers would keep all other accounts from theirs.
    this.#left_bytes = Math.max(this.#left_bytes - bytes, -TURN_BYTES)
    if (!this.#is_ticking) setImmediate(this.#tick)
    this.#is_ticking = true
    if (this.#left_bytes > 0) return null
    return this.#waiters.wait(account_id)
  }

  readonly #tick = (): void => {
    this.#left_bytes = Math.min(this.#left_bytes + TURN_BYTES, TURN_BYTES)
    let room = Math.ceil(this.#left_bytes / PART_BYTES)
    while (room > 0 && this.#waiters.next()) room -= 1
    this.#is_ticking = !this.#waiters.is_empty || this.#left_bytes < TURN_BYTES
    if (this.#is_ticking) setImmediate(this.#tick)
  }
}
