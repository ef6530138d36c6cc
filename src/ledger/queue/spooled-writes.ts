import type { BatchQueue } from "../database/batch-queue.ts"
import { errorCode } from "../database/database-errors.ts"
import { type Waiter, Withdrawn } from "../database/queued.ts"
import type { LedgerLog } from "../events.ts"

/** An item that takes longer is spooled, usually before the last byte stops waiting (D32, settle before last byte). */
const SPOOL_AFTER_MS = 150
const TICK_MS = 25
/** Written items are remembered for one to two times this long, in two lists of at most `RECENT_LIMIT` (D73). */
const RECENT_MS = 10_000
const RECENT_LIMIT = 16_384

/** The result of an item: written, without a hold, `refused` for its data, or `unwritten` when the queue was stopped. */
export type WriteOutcome = "applied" | "closed" | "none" | "refused" | "unwritten"

interface SpooledWrite {
  readonly since_ms: number
  /** Set to null after the call, so that a remembered item does not retain its promise. */
  resolve: ((written: WriteOutcome) => void) | null
}

/** Writes items in the background, each until it is in the ledger, and spools it until then (D27). */
export abstract class SpooledWrites<Item extends SpooledWrite, Result, Kept> {
  protected abstract readonly queue: BatchQueue<Item, Result>
  readonly #log: LedgerLog
  readonly #refusal: string
  /** Items that are not in the ledger yet, in the order in which they came. */
  readonly #items = new Set<Item>()
  #idle: (() => void)[] = []
  #tick: Timer | undefined
  #recent: Kept[] = []
  #earlier: Kept[] = []
  #rotated_ms = performance.now()
  readonly #waiter: Waiter<Item, Result> = {
    resolve: ({ item }, result) => this.done(item, result),
    reject: ({ item }, error) => this.failed(item, error),
  }

  /** `refusal`: the log message for an item that the database refuses. */
  constructor(log: LedgerLog, refusal: string) {
    this.#log = log
    this.#refusal = refusal
  }

  /** Handles the answer of the database. */
  protected abstract done(item: Item, result: Result): void
  protected abstract spool(item: Item): void
  protected abstract callOf(item: Item): string

  /** The items of the last 10 s and some older ones, in case a failover has lost them (D73). */
  get recent(): readonly Kept[] {
    return [...this.#earlier, ...this.#recent]
  }

  /** Forgets what was written long ago. Called while the database answers, because then it is not lost. */
  forgetEarlier(): void {
    if (performance.now() - this.#rotated_ms >= RECENT_MS) this.#rotate()
  }

  drained(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#items.size === 0) resolve()
      else this.#idle.push(resolve)
    })
  }

  stop(): void {
    this.queue.stop()
    clearTimeout(this.#tick)
  }

  protected add(item: Item): void {
    this.#items.add(item)
    this.#tick ??= setTimeout(this.spoolOverdue, TICK_MS)
    this.enqueue(item)
  }

  protected enqueue(item: Item): void {
    try {
      this.queue.add(item, Number.POSITIVE_INFINITY, false, this.#waiter)
    } catch (error) {
      this.failed(item, error)
    }
  }

  protected failed(item: Item, error: unknown): void {
    this.spool(item)
    if (error instanceof Withdrawn) {
      this.finish(item, "unwritten")
      return
    }
    this.#log.error({ id: this.callOf(item), code: errorCode(error) }, this.#refusal)
    this.finish(item, "refused")
  }

  protected finish(item: Item, written: WriteOutcome): void {
    item.resolve?.(written)
    item.resolve = null
    this.#items.delete(item)
    if (this.#items.size > 0) return
    const idle = this.#idle
    this.#idle = []
    for (const resolve of idle) resolve()
  }

  protected remember(kept: Kept): void {
    if (this.#recent.length >= RECENT_LIMIT) this.#rotate()
    this.#recent.push(kept)
  }

  /** Spools each overdue item, every `TICK_MS`. */
  protected readonly spoolOverdue = (): void => {
    clearTimeout(this.#tick)
    const before_ms = performance.now() - SPOOL_AFTER_MS
    for (const item of this.#items) {
      if (item.since_ms > before_ms) break
      this.spool(item)
    }
    this.#tick = this.#items.size > 0 ? setTimeout(this.spoolOverdue, TICK_MS) : undefined
  }

  #rotate(): void {
    this.#earlier = this.#recent
    this.#recent = []
    this.#rotated_ms = performance.now()
  }
}
