import { Waiters } from "../ledger/database/fair-share.ts"

/** The bytes of large bodies, and of parts of streams, that are read in a turn of the event loop. They take about 0.5 ms. */
const TURN_BYTES = 262_144

/** Bounds what is read of large bodies and streams in a turn of the event loop. Accounts take turns (D78). */
export class Pace {
  #left_bytes = TURN_BYTES
  #is_ticking = false
  readonly #waiters = new Waiters()

  /** Counts bytes to read. Resolves when the reader may continue; null if it may continue now. */
  read(account_id: string, bytes: number): Promise<void> | null {
    const is_free = bytes < this.#left_bytes
    if (is_free) this.#left_bytes -= bytes
    // Only after half of them, because it would cost each small part more than its count.
    if (!is_free || this.#left_bytes < TURN_BYTES / 2) this.#startTicking()
    return is_free ? null : this.#waiters.wait(account_id, bytes)
  }

  #startTicking(): void {
    if (!this.#is_ticking) setImmediate(this.#tick)
    this.#is_ticking = true
  }

  readonly #tick = (): void => {
    this.#is_ticking = false
    this.#left_bytes = Math.min(this.#left_bytes + TURN_BYTES, TURN_BYTES)
    while (this.#left_bytes > 0) {
      const bytes = this.#waiters.next()
      if (bytes === 0) return
      // Not the sum of many large answers, for which all others would wait.
      this.#left_bytes = Math.max(this.#left_bytes - bytes, -TURN_BYTES)
    }
    this.#startTicking()
  }
}
