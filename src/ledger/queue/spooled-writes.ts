import { type BatchLimits, BatchQueue, type Work } from "../database/batch-queue.ts"
import type { Runner } from "../database/connection.ts"
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

export type PendingWrite<Item> = Item & {
  readonly since_ms: number
  /** Set to null after the call, so that a remembered item does not retain its promise. */
  resolve: ((written: WriteOutcome) => void) | null
}

interface SpooledWork<Item, Result> extends Pick<Work<PendingWrite<Item>, Result>, "accountOf" | "run"> {
  /** The log message for an item that the database refuses. */
  readonly refusal: string
  /** Handles the answer of the database. */
  done(item: PendingWrite<Item>, result: Result): void
  spool(item: Item): void
  callOf(item: Item): string
  onFinish?(item: Item, written: WriteOutcome): void
}

/** Writes items in the background, each until it is in the ledger, and spools it until then (D27). */
export function spooledWrites<Item, Result, Kept>(
  connection: Runner,
  work: SpooledWork<Item, Result>,
  log: LedgerLog,
  limits: BatchLimits = {},
) {
  const { refusal, done, spool, callOf, onFinish } = work
  const queue = new BatchQueue<PendingWrite<Item>, Result>(
    connection,
    { accountOf: work.accountOf, run: work.run, onFirstFailure: spool },
    limits,
  )
  /** Items that are not in the ledger yet, in the order in which they came. */
  const items = new Set<PendingWrite<Item>>()
  let idle: (() => void)[] = []
  let tick: Timer | undefined
  let recent: Kept[] = []
  let earlier: Kept[] = []
  let rotated_ms = performance.now()
  const waiter: Waiter<PendingWrite<Item>, Result> = {
    resolve: ({ item }, result) => done(item, result),
    reject: ({ item }, error) => failed(item, error),
  }

  function enqueue(item: PendingWrite<Item>): void {
    try {
      queue.add(item, Number.POSITIVE_INFINITY, false, waiter)
    } catch (error) {
      failed(item, error)
    }
  }

  function failed(item: PendingWrite<Item>, error: unknown): void {
    spool(item)
    if (error instanceof Withdrawn) {
      finish(item, "unwritten")
      return
    }
    log.error({ id: callOf(item), code: errorCode(error) }, refusal)
    finish(item, "refused")
  }

  function finish(item: PendingWrite<Item>, written: WriteOutcome): void {
    onFinish?.(item, written)
    item.resolve?.(written)
    item.resolve = null
    items.delete(item)
    if (items.size > 0) return
    const waiting = idle
    idle = []
    for (const resolve of waiting) resolve()
  }

  /** Spools each overdue item, every `TICK_MS`. */
  function spoolOverdue(): void {
    clearTimeout(tick)
    const before_ms = performance.now() - SPOOL_AFTER_MS
    for (const item of items) {
      if (item.since_ms > before_ms) break
      spool(item)
    }
    tick = items.size > 0 ? setTimeout(spoolOverdue, TICK_MS) : undefined
  }

  function rotate(): void {
    earlier = recent
    recent = []
    rotated_ms = performance.now()
  }

  return {
    enqueue,
    failed,
    finish,
    spoolOverdue,
    get depth() {
      return queue.depth
    },
    /** Resolves once the item is in the ledger, or is in the spool and cannot be written now. */
    write(item: Item): Promise<WriteOutcome> {
      return new Promise((resolve) => {
        const pending = { ...item, since_ms: performance.now(), resolve }
        items.add(pending)
        tick ??= setTimeout(spoolOverdue, TICK_MS)
        enqueue(pending)
      })
    },
    /** The items of the last 10 s and some older ones, in case a failover has lost them (D73). */
    recent: (): readonly Kept[] => [...earlier, ...recent],
    remember(kept: Kept): void {
      if (recent.length >= RECENT_LIMIT) rotate()
      recent.push(kept)
    },
    /** Forgets what was written long ago. Called while the database answers, because then it is not lost. */
    forgetEarlier(): void {
      if (performance.now() - rotated_ms >= RECENT_MS) rotate()
    },
    drained(): Promise<void> {
      return new Promise((resolve) => {
        if (items.size === 0) resolve()
        else idle.push(resolve)
      })
    },
    stop(): void {
      queue.stop()
      clearTimeout(tick)
    },
  }
}
