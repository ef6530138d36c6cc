import { nextTurn } from "../../wire/shape.ts"
import { LedgerBusy, LedgerUnavailable } from "../entries.ts"
import type { Runner } from "./connection.ts"
import { Delayed, errorCode, kindOf } from "./database-errors.ts"
import { dequeueAlike, FairQueue } from "./fair-queue.ts"
import { isWithinShare } from "./fair-share.ts"
import { isLive, Queued, type Waiter, Withdrawn } from "./queued.ts"

export interface Work<Item, Result> {
  /** The account whose lock the item needs. Accounts take turns (D78). */
  accountOf(item: Item): string
  /** Runs all items, waiting at most `lock_ms` for a lock; results in their order. */
  run(connection: Runner, items: readonly Item[], lock_ms: number): Promise<readonly Result[]>
  /** True if the item's account was left alone for now. It is deferred, and the others are done. */
  isDelayed?(result: Result): boolean
  /** Called when an item failed at its first attempt. The queue keeps trying. */
  onFirstFailure?(item: Item): void
}

const BATCH_CAP = 128
/** With so many calls in flight or fewer, a batch takes only half of them, or this least number if that is more. */
const FEW_CALLS = 64
const LEAST_CAP = 8
/** Longest wait of a batch for a lock. A batch of one account waits less, because others wait behind it. */
const LOCK_MS = 300
const LOCK_ALONE_MS = 100
/** Age of the next untried item above which new ones are refused: their callers would give up meanwhile. */
const BEHIND_MS = 500
/** Limit of waiting items in a queue that can refuse them, shared by accounts (D78). */
export const QUEUE_LIMIT = 4_096
/** Backoff between attempts, doubled up to the second number, for a locked account and for a database that does not answer. */
const DEFERRED_BACKOFF_MS = [100, 1_000] as const
const BACKOFF_MS = [10, 1_000] as const
/** Interval of the deadline check. One timer for all items, because timers per call cost CPU. */
const TICK_MS = 20
/** Interval above which the process was paused: it has not read yet what the database answered meanwhile. */
const PAUSE_MS = 100

/** Maximum batch size for so many calls. With all in one batch, the server and this process would wait for each other. */
export function batchCap(in_flight: number): number {
  return in_flight > FEW_CALLS ? BATCH_CAP : Math.max(LEAST_CAP, Math.ceil(in_flight / 2))
}

/** The limit for a queue of these calls. Waiting items count if they are more, because ends from the spool are not calls. */
export function capFor(calls: { readonly size: number }): (waiting: number) => number {
  return (waiting) => batchCap(Math.max(calls.size, waiting))
}

/** The limits of a queue; without them it takes everything, in batches of any size. */
export interface BatchLimits {
  readonly limit?: number
  /** Maximum size of the next batch, while this many items wait. */
  readonly cap?: (waiting: number) => number
}

/** Items of an account that is locked or whose row was lost. They wait without holding up the others. */
interface DeferredItems<Item, Result> {
  entries: Queued<Item, Result>[]
  backoff_ms: number
  due_ms: number
}

/**
 * Batches items into statements, one at a time. The items that arrive while a statement runs form the next batch; if they are
 * too many, each account gets an equal part of it (D78). No timer gathers items, so an idle queue adds no wait. Queues that
 * share a connection pipeline their statements. Every item is tried until it is done or withdrawn. A failure of one item never
 * affects the others.
 */
export class BatchQueue<Item, Result> {
  readonly #connection: Runner
  readonly #work: Work<Item, Result>
  readonly #limit: number
  readonly #cap: (waiting: number) => number
  readonly #waiting = new FairQueue<Item, Result>()
  /** The current batch, until every item of it is done or waits again. */
  #in_progress: readonly Queued<Item, Result>[] = []
  readonly #deferred = new Map<string, DeferredItems<Item, Result>>()
  #running = false
  #stopped = false
  #backoff_ms = 0
  #not_before_ms = 0
  #wake: Timer | undefined
  #tick: Timer | undefined
  #ticked_ms = 0
  /** True if the last check came late. */
  #was_paused = false

  constructor(
    connection: Runner,
    work: Work<Item, Result>,
    { limit = Number.POSITIVE_INFINITY, cap = () => BATCH_CAP }: BatchLimits = {},
  ) {
    this.#connection = connection
    this.#work = work
    this.#limit = limit
    this.#cap = cap
  }

  get depth(): number {
    let depth = this.#waiting.size
    if (this.#deferred.size === 0) return depth
    for (const { entries } of this.#deferred.values()) depth += entries.length
    return depth
  }

  /**
   * Adds an item, and withdraws it at `until_ms`. `uncertain`: an earlier entry may have done it already. `waiter` is
   * told the result. With a limit, throws `LedgerBusy` when the account has its share of it, and `LedgerUnavailable` when
   * the database falls behind. Throws `Withdrawn` when the queue is stopped.
   */
  add(
    item: Item,
    until_ms = Number.POSITIVE_INFINITY,
    uncertain = false,
    waiter: Waiter<Item, Result> | null = null,
  ): Queued<Item, Result> {
    if (this.#stopped) throw new Withdrawn()
    const entry = new Queued(item, this.#work.accountOf(item), until_ms, uncertain, waiter)
    const deferred = this.#deferred.get(entry.account)
    if (this.#limit < Number.POSITIVE_INFINITY) this.#checkCapacity(entry, deferred)
    if (deferred === undefined) this.#waiting.add(entry)
    else deferred.entries.push(entry)
    if (until_ms < Number.POSITIVE_INFINITY && this.#tick === undefined) this.#checkLater(entry.added_ms)
    if (!this.#running) void this.#run()
    return entry
  }

  #checkCapacity(
    { account, added_ms }: Queued<Item, Result>,
    deferred: DeferredItems<Item, Result> | undefined,
  ) {
    const { depth } = this
    const free = this.#limit - depth
    const has_share =
      !isWithinShare(depth, free) &&
      !isWithinShare(deferred?.entries.length ?? this.#waiting.sizeOf(account), free)
    if (has_share) throw new LedgerBusy()
    const waited_ms = this.#waiting.waited_ms(account, added_ms)
    if (waited_ms <= BEHIND_MS || this.#was_paused || added_ms - this.#ticked_ms > PAUSE_MS) return
    throw new LedgerUnavailable("the database is behind")
  }

  /** Adds an item that is withdrawn after `within_ms`. Resolves with its result. */
  async submit(item: Item, within_ms: number): Promise<Result> {
    return this.add(item, performance.now() + within_ms).outcome
  }

  /** The same for a caller, who gets `LedgerUnavailable` for an item that was withdrawn. */
  async submitForCaller(item: Item, within_ms: number): Promise<Result> {
    try {
      return await this.submit(item, within_ms)
    } catch (error) {
      throw error instanceof Withdrawn ? new LedgerUnavailable(errorCode(error.cause)) : error
    }
  }

  /** Withdraws everything, and leaves no timer. */
  stop(): void {
    this.#stopped = true
    clearTimeout(this.#wake)
    clearTimeout(this.#tick)
    for (const entry of this.#queued()) entry.reject(new Withdrawn(entry.last_error))
    this.#waiting.clear()
    this.#deferred.clear()
  }

  *#queued(): Generator<Queued<Item, Result>> {
    yield* this.#waiting.entries()
    for (const { entries } of this.#deferred.values()) yield* entries
  }

  #checkLater(now_ms: number): void {
    this.#ticked_ms = now_ms
    this.#tick = setTimeout(this.#withdrawOverdue, TICK_MS)
  }

  readonly #withdrawOverdue = (): void => {
    const now_ms = performance.now()
    this.#was_paused = now_ms - this.#ticked_ms > PAUSE_MS
    let has_deadlines = false
    let withdrawn = 0
    for (const entry of [...this.#in_progress, ...this.#queued()]) {
      if (entry.done) continue
      if (entry.until_ms <= now_ms) {
        entry.reject(new Withdrawn(entry.last_error))
        withdrawn += 1
      } else has_deadlines ||= entry.until_ms < Number.POSITIVE_INFINITY
    }
    if (withdrawn > 0) {
      this.#waiting.removeDone()
      for (const deferred of this.#deferred.values()) deferred.entries = deferred.entries.filter(isLive)
    }
    this.#tick = undefined
    if (has_deadlines) this.#checkLater(now_ms)
  }

  async #run(): Promise<void> {
    this.#running = true
    clearTimeout(this.#wake)
    await undefined // what arrives in the same turn of the event loop goes in the same batch
    while (!this.#stopped) {
      const now_ms = performance.now()
      if (now_ms < this.#not_before_ms) break
      const account = this.#dueDeferred(now_ms)
      if (account === null && this.#waiting.size === 0) break
      if (account !== null) await this.#retryDeferred(account)
      await this.#attempt(this.#waiting.dequeue(this.#cap(this.#waiting.size)), LOCK_MS)
      this.#in_progress = []
      // The event loop reads its sockets, so that the next batch has the calls that just arrived.
      await nextTurn()
    }
    this.#running = false
    this.#sleep()
  }

  /** Continues when the first backoff is over. */
  #sleep(): void {
    if (this.#stopped) return
    let wake_ms = this.#waiting.size > 0 ? this.#not_before_ms : Number.POSITIVE_INFINITY
    for (const { due_ms } of this.#deferred.values())
      wake_ms = Math.min(wake_ms, Math.max(due_ms, this.#not_before_ms))
    if (wake_ms === Number.POSITIVE_INFINITY) return
    this.#wake = setTimeout(() => void this.#run(), Math.max(0, wake_ms - performance.now()) + 1)
  }

  /** Runs a batch, and retries the items that failed. */
  async #attempt(taken: readonly Queued<Item, Result>[], lock_ms: number): Promise<void> {
    const batch = taken.filter(isLive)
    if (batch.length === 0) return
    if (performance.now() < this.#not_before_ms) return this.#putBack(batch)
    if (this.#in_progress.length === 0) this.#in_progress = batch
    for (const entry of batch) entry.sent = true
    const items = batch.map((entry) => entry.item)
    let results: readonly Result[]
    try {
      results = await this.#work.run(this.#connection, items, lock_ms)
    } catch (error) {
      return this.#recover(batch, error)
    }
    this.#backoff_ms = 0
    const delayed: Queued<Item, Result>[] = []
    for (const [at, entry] of batch.entries()) {
      const result = resultAt(results, at)
      if (this.#work.isDelayed?.(result) === true) delayed.push(entry)
      else entry.resolve(result)
    }
    if (delayed.length > 0) this.#deferDelayed(delayed)
  }

  #deferDelayed(batch: readonly Queued<Item, Result>[]): void {
    for (const entry of batch) this.#recordFailure(entry, new Delayed())
    for (const [account, entries] of Map.groupBy(batch, (entry) => entry.account))
      this.#defer(account, entries)
  }

  #recordFailure(entry: Queued<Item, Result>, error: unknown): void {
    entry.sent = false
    entry.last_error = error
    if (entry.attempts++ === 0) this.#work.onFirstFailure?.(entry.item)
  }

  async #recover(batch: readonly Queued<Item, Result>[], error: unknown): Promise<void> {
    const kind = kindOf(error)
    for (const entry of batch) {
      entry.uncertain ||= kind === "unknown"
      this.#recordFailure(entry, error)
    }
    if (kind === "refused") await this.#isolate(batch, error)
    else if (kind === "locked" || kind === "incomplete") await this.#separate(batch)
    else this.#postpone(batch)
  }

  /** Finds the item whose data is refused, by bisection. */
  async #isolate(batch: readonly Queued<Item, Result>[], error: unknown): Promise<void> {
    const [only, ...others] = batch
    if (only !== undefined && others.length === 0) return only.reject(error)
    const half = Math.ceil(batch.length / 2)
    await this.#attempt(batch.slice(0, half), LOCK_MS)
    await this.#attempt(batch.slice(half), LOCK_MS)
  }

  /** Runs the batch account by account. The account that blocks is deferred, the others are done. */
  async #separate(batch: readonly Queued<Item, Result>[]): Promise<void> {
    const accounts = Map.groupBy(batch, (entry) => entry.account)
    for (const [account, entries] of accounts) {
      if (accounts.size === 1) this.#defer(account, entries)
      else await this.#attempt(entries, LOCK_ALONE_MS)
    }
  }

  #defer(account: string, entries: readonly Queued<Item, Result>[]): void {
    const deferred = this.#deferred.get(account)
    const backoff_ms =
      deferred === undefined
        ? DEFERRED_BACKOFF_MS[0]
        : Math.min(deferred.backoff_ms * 2, DEFERRED_BACKOFF_MS[1])
    const behind = deferred?.entries ?? this.#waiting.remove(account)
    this.#deferred.set(account, {
      entries: [...entries, ...behind].filter(isLive),
      backoff_ms,
      due_ms: performance.now() + backoff_ms,
    })
    if (this.#stopped) this.stop()
  }

  #dueDeferred(now_ms: number): string | null {
    for (const [account, { due_ms }] of this.#deferred) if (due_ms <= now_ms) return account
    return null
  }

  /** One batch of an account that was deferred. When it succeeds, the rest of its items return to the queue. */
  async #retryDeferred(account: string): Promise<void> {
    const deferred = this.#deferred.get(account)
    if (deferred === undefined) return
    deferred.due_ms = Number.POSITIVE_INFINITY
    const batch = dequeueAlike(deferred.entries, this.#cap(deferred.entries.length))
    await this.#attempt(batch, LOCK_ALONE_MS)
    this.#in_progress = []
    if (deferred !== this.#deferred.get(account)) return
    this.#deferred.delete(account)
    this.#waiting.putBack(deferred.entries)
  }

  /** Puts all items back in their order, because the database did not answer. */
  #postpone(batch: readonly Queued<Item, Result>[]): void {
    this.#backoff_ms = Math.min(Math.max(this.#backoff_ms * 2, BACKOFF_MS[0]), BACKOFF_MS[1])
    this.#not_before_ms = performance.now() + this.#backoff_ms
    this.#putBack(batch)
  }

  #putBack(batch: readonly Queued<Item, Result>[]): void {
    this.#waiting.putBack(batch.filter(isLive))
    if (this.#stopped) this.stop()
  }
}

function resultAt<Result>(results: readonly Result[], at: number): Result {
  const result = results[at]
  if (result === undefined) throw new Error("a statement did not answer for each of its items")
  return result
}
