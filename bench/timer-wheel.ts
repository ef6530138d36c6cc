/** The resolution of the event loop's timers. */
const TICK_MS = 1

/** Called when due; returns false to stop. */
type Callback = () => boolean

interface Timed {
  readonly callback: Callback
  readonly interval_ms: number
  due_ms: number
}

/**
 * One timer for all paced streams, because thousands of timers a second would be most of the provider's work. Callbacks
 * wait in the slot of the millisecond in which they are due; a later one waits for another round of the wheel.
 */
export class TimerWheel {
  readonly #slots: Timed[][] = Array.from({ length: 1024 }, () => [])
  #timer: Timer | null = null
  #waiting = 0
  #ticked_ms = 0

  /** Calls `callback` every `interval_ms`, the first time after one interval, without drift. */
  every(interval_ms: number, callback: Callback): void {
    const now = performance.now()
    if (this.#timer === null) {
      this.#ticked_ms = Math.floor(now)
      this.#timer = setInterval(() => this.#tick(), TICK_MS)
    }
    this.#waiting += 1
    this.#put({ callback, interval_ms, due_ms: now + interval_ms })
  }

  #put(paced: Timed): void {
    // Overdue callbacks run with the next tick.
    const slot_ms = Math.max(Math.ceil(paced.due_ms), this.#ticked_ms + 1)
    this.#slots[slot_ms % this.#slots.length]?.push(paced)
  }

  #tick(): void {
    const now = Math.floor(performance.now())
    while (this.#ticked_ms < now) {
      const at_ms = this.#ticked_ms + 1
      const slot = this.#slots[at_ms % this.#slots.length] ?? []
      const due = slot.splice(0)
      this.#ticked_ms = at_ms
      for (const paced of due) this.#visit(paced, at_ms)
    }
    if (this.#waiting === 0 && this.#timer !== null) {
      clearInterval(this.#timer)
      this.#timer = null
    }
  }

  #visit(paced: Timed, now_ms: number): void {
    if (paced.due_ms <= now_ms) {
      if (!paced.callback()) {
        this.#waiting -= 1
        return
      }
      paced.due_ms += paced.interval_ms
    }
    this.#put(paced)
  }
}
