/** An item that takes longer is spooled, usually before the last byte stops waiting (D32, settle before last byte). */
const SPOOL_AFTER_MS = 150
const TICK_MS = 25
/** Written items are remembered for once to twice this time, in two lists of at most `RECENT_LIMIT` (D73). */
const RECENT_MS = 10_000
const RECENT_LIMIT = 16_384

/** Items that are not in the ledger yet, in the order in which they came. */
export class PendingWrites<Item extends { readonly since_ms: number }> {
  readonly #items = new Set<Item>()
  readonly #onOverdue: (item: Item) => void
  #idle: (() => void)[] = []
  #tick: Timer | undefined

  /** `onOverdue` receives each item that takes too long, again and again. */
  constructor(onOverdue: (item: Item) => void) {
    this.#onOverdue = onOverdue
  }

  add(item: Item): void {
    this.#items.add(item)
    this.#tick ??= setTimeout(this.reportOverdue, TICK_MS)
  }

  delete(item: Item): void {
    this.#items.delete(item)
    if (this.#items.size > 0) return
    const idle = this.#idle
    this.#idle = []
    for (const resolve of idle) resolve()
  }

  drained(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#items.size === 0) resolve()
      else this.#idle.push(resolve)
    })
  }

  readonly reportOverdue = (): void => {
    clearTimeout(this.#tick)
    const before_ms = performance.now() - SPOOL_AFTER_MS
    for (const item of this.#items) {
      if (item.since_ms > before_ms) break
      this.#onOverdue(item)
    }
    this.#tick = this.#items.size > 0 ? setTimeout(this.reportOverdue, TICK_MS) : undefined
  }

  stop(): void {
    clearTimeout(this.#tick)
  }
}

/** Items that were written in the last 10 s at least, in case a failover has lost it (D73). */
export class RecentWrites<Item> {
  #recent: Item[] = []
  #earlier: Item[] = []
  #since_ms = performance.now()

  get list(): readonly Item[] {
    return [...this.#earlier, ...this.#recent]
  }

  add(item: Item): void {
    if (this.#recent.length >= RECENT_LIMIT) this.#rotate()
    this.#recent.push(item)
  }

  /** Forgets what was written long ago. Called while the database answers, because then it is not lost. */
  forgetEarlier(): void {
    if (performance.now() - this.#since_ms >= RECENT_MS) this.#rotate()
  }

  #rotate(): void {
    this.#earlier = this.#recent
    this.#recent = []
    this.#since_ms = performance.now()
  }
}
