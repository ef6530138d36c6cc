import { LARGE_BYTES } from "../wire/buffers.ts"

/** Longer than a client may go without reading (D31), because its answer may have the memory that this one waits for. */
const WAIT_MS = 75_000

export interface AnswerOwner {
  takeAnswer(account_id: string, bytes: number, limit_bytes: number, is_reading: boolean): boolean
  /** Gives back bytes. `are_free`: they need no garbage collection. */
  removeAnswer(account_id: string, bytes: number, are_free: boolean): void
  answerReads(is_reading: boolean): void
  addWaiting(account_id: string, answer: AnswerMemory): void
  removeWaiting(account_id: string, answer: AnswerMemory): void
}

/** The memory of an answer, until its client has taken it or left. */
export class AnswerMemory {
  readonly #owner: AnswerOwner
  readonly #account_id: string
  readonly #limit_bytes: number
  #bytes = 0
  #is_reading = false
  /** The bytes that the answer waits for; null if it does not wait. */
  #wanted: { readonly bytes: number; readonly end: (is_there: boolean) => void } | null = null

  constructor(owner: AnswerOwner, account_id: string, limit_bytes: number) {
    this.#owner = owner
    this.#account_id = account_id
    this.#limit_bytes = limit_bytes
  }

  /**
   * Sets the size of the answer so far; less than `LARGE_BYTES` counts as 0. Null if there is memory for it. Otherwise resolves with
   * true once there is, and with false after `WAIT_MS` or `stop`.
   */
  hold(answer_bytes: number): Promise<boolean> | null {
    const more = (answer_bytes < LARGE_BYTES ? 0 : answer_bytes) - this.#bytes
    if (more < 0) this.#remove(-more, true)
    // The rest may still be read, but is not kept.
    if (this.#bytes === 0) this.#setReading(false)
    if (more <= 0 || this.#take(more)) return null
    this.#setReading(false)
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.stop(), WAIT_MS).unref()
      const end = (is_there: boolean) => {
        clearTimeout(timer)
        this.#wanted = null
        this.#owner.removeWaiting(this.#account_id, this)
        resolve(is_there)
      }
      this.#wanted = { bytes: more, end }
      this.#owner.addWaiting(this.#account_id, this)
    })
  }

  /** Takes the bytes that the answer waits for. True if it got them. */
  retry(): boolean {
    if (this.#wanted === null || !this.#take(this.#wanted.bytes)) return false
    this.#wanted.end(true)
    return true
  }

  /** Ends the wait and the reading, because the answer is whole or nobody wants the rest. */
  stop(): void {
    this.#wanted?.end(false)
    this.#setReading(false)
  }

  /** Gives all bytes back, which need a garbage collection. Idempotent. */
  free(): void {
    this.stop()
    if (this.#bytes > 0) this.#remove(this.#bytes, false)
  }

  #take(bytes: number): boolean {
    if (!this.#owner.takeAnswer(this.#account_id, bytes, this.#limit_bytes, this.#is_reading)) return false
    this.#bytes += bytes
    this.#setReading(true)
    return true
  }

  #remove(bytes: number, are_free: boolean): void {
    this.#bytes -= bytes
    this.#owner.removeAnswer(this.#account_id, bytes, are_free)
  }

  #setReading(is_reading: boolean): void {
    if (is_reading === this.#is_reading) return
    this.#is_reading = is_reading
    this.#owner.answerReads(is_reading)
  }
}
