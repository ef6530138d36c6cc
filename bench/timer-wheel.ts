/** How often is looked what is due: as fine as the event loop's timers are. */
const LOOK_MS = 1

/** What is done at its time; false when it need not come again. */
type Callback = () => boolean

interface Timed {
  readonly callback: Callback
  readonly interval_ms: number
  due_ms: number
}

/**
 * One clock for all paced streams: a timer for each of thousands of events a second would be most of what the provider does.
 * Streams wait in the slot of the millisecond they are due in, one round of the wheel further when that is later.
 */
export class TimerWheel {
  readonly #slots: Timed[][] = Array.from({ length: 1024 }, () => [])
  #timer: Timer | null = null
  #waiting = 0
  #looked_ms = 0

  /** Calls `callback` every `interval_ms`, the first time after one interval, without drift. */
  every(interval_ms: number, callback: Callback): void {
    const now = performance.now()
    if (this.#timer === null) {
      this.#looked_ms = Math.floor(now)
      this.#timer = setInterval(() => this.#look(), LOOK_MS)
    }
    this.#waiting += 1
    this.#put({ callback, interval_ms, due_ms: now + interval_ms })
  }

  #put(paced: Timed): void {
    // What is overdue comes with the next look.
    const slot_ms = Math.max(Math.ceil(paced.due_ms), this.#looked_ms + 1)
    this.#slots[slot_ms % this.#slots.length]?.push(paced)
  }

  #look(): void {
    const now = Math.floor(performance.now())
    while (this.#looked_ms < now) {
      const at_ms = this.#looked_ms + 1
      const slot = this.#slots[at_ms % this.#slots.length] ?? []
      const due = slot.splice(0)
      this.#looked_ms = at_ms
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
