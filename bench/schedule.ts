/**
 * An open load sends its k-th call at k / rate, independent of earlier calls, and measures every call from that moment. A
 * target that stalls is measured on all calls that it delays (no coordinated omission).
 */
export class Schedule {
  readonly #interval_ms: number
  readonly #start_ms: number
  readonly #calls: number
  #given = 0

  /** Calls at `per_second` from `start_ms` on, as many as begin within `duration_ms`. */
  constructor(per_second: number, start_ms: number, duration_ms: number) {
    this.#interval_ms = 1000 / per_second
    this.#start_ms = start_ms
    this.#calls = Math.ceil((duration_ms * per_second) / 1000)
  }

  /** When the next call is meant to start; null when there is none left. */
  get next_ms(): number | null {
    return this.#given < this.#calls ? this.#start_ms + this.#given * this.#interval_ms : null
  }

  /** The intended starts up to `now_ms`, each returned once. */
  due(now_ms: number): number[] {
    const starts: number[] = []
    for (let next_ms = this.next_ms; next_ms !== null && next_ms <= now_ms; next_ms = this.next_ms) {
      starts.push(next_ms)
      this.#given += 1
    }
    return starts
  }
}
