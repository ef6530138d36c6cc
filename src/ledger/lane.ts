import { GatewayError } from "../errors.ts"
import { Entry, Withdrawn } from "./entry.ts"
import { troubleOf } from "./trouble.ts"

/** What a lane does for its items. */
export interface Work<Item, Result> {
  /** The account whose lock the item needs. */
  accountOf(item: Item): string
  /** One statement for all items, which waits at most `patience_ms` for a lock; results in the order of the items. */
  run(items: readonly Item[], patience_ms: number): Promise<readonly Result[]>
  /** Told when an item was not done at its first attempt; the lane goes on trying. */
  onSetback?(item: Item): void
}

/** How many items one statement takes: more gains nothing. */
export const BATCH_CAP = 64
/** How long a batch waits for a lock, and a batch of one account, so that others wait behind it even less. */
const PATIENCE_MS = 300
const PATIENCE_ALONE_MS = 100
/**
 * How long the first in the queue may have waited for its first attempt. What comes then is refused at once: a queue as
 * long as its callers' patience would spend every statement on calls that give up while it runs.
 */
const BEHIND_MS = 500
/**
 * Pauses between attempts, doubled up to the second number: for an account that went aside, and for books that do not
 * answer.
 */
const ASIDE_PAUSE_MS = [100, 1_000] as const
const PAUSE_MS = [10, 1_000] as const

/** Items of an account that is locked, or whose row gets lost: they wait without holding up the lane. */
interface Siding<Item, Result> {
  readonly entries: Set<Entry<Item, Result>>
  pause_ms: number
  due_at: number
}

/**
 * A lane has at most one statement in flight; what arrives meanwhile forms the next batch. There is no timer, so an
 * idle lane adds no wait. Every item is tried until it is done or withdrawn; what fails for one item never fails for
 * its neighbours.
 */
export class Lane<Item, Result> {
  readonly #work: Work<Item, Result>
  readonly #limit: number
  #waiting = new Set<Entry<Item, Result>>()
  readonly #sidings = new Map<string, Siding<Item, Result>>()
  #running = false
  #stopped = false
  #pause_ms = 0
  #not_before = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(work: Work<Item, Result>, limit = Number.POSITIVE_INFINITY) {
    this.#work = work
    this.#limit = limit
  }

  /** Items that wait for a statement. */
  get depth(): number {
    let depth = this.#waiting.size
    for (const { entries } of this.#sidings.values()) depth += entries.size
    return depth
  }

  /**
   * Puts an item on the lane, `doubtful` if it may have been done by an earlier entry; where a limit is set, throws
   * `overloaded` when as many wait as may, `ledger_unavailable` when the books fall behind. Throws `Withdrawn` when the
   * lane is stopped.
   */
  enter(item: Item, doubtful = false): Entry<Item, Result> {
    if (this.#stopped) throw new Withdrawn()
    if (this.depth >= this.#limit) throw new GatewayError("overloaded")
    if (this.#limit < Number.POSITIVE_INFINITY && this.#isBehind())
      throw new GatewayError("ledger_unavailable")
    const entry = new Entry<Item, Result>(item, this.#work.accountOf(item), doubtful)
    this.#wait(entry)
    if (!this.#running) void this.#run()
    return entry
  }

  /** Enters an item and withdraws it after `within_ms`. */
  async ask(item: Item, within_ms: number): Promise<Result> {
    return this.outcomeOf(this.enter(item), within_ms)
  }

  /** What becomes of an entry, which is withdrawn after `within_ms`. */
  async outcomeOf(entry: Entry<Item, Result>, within_ms: number): Promise<Result> {
    const timer = setTimeout(() => this.withdraw(entry), within_ms)
    try {
      return await entry.outcome
    } finally {
      clearTimeout(timer)
    }
  }

  /** Tries an item no more. */
  withdraw(entry: Entry<Item, Result>): void {
    if (entry.done) return
    this.#waiting.delete(entry)
    this.#sidings.get(entry.account)?.entries.delete(entry)
    entry.reject(new Withdrawn(entry.setback))
  }

  /** Withdraws everything, and leaves no timer. */
  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
    for (const entry of this.#waiting) this.withdraw(entry)
    for (const { entries } of this.#sidings.values()) for (const entry of entries) this.withdraw(entry)
  }

  #isBehind(): boolean {
    const first = this.#waiting.values().next().value
    if (first === undefined || first.attempts > 0) return false
    return performance.now() - first.entered_at > BEHIND_MS
  }

  #wait(entry: Entry<Item, Result>): void {
    const set = this.#sidings.get(entry.account)?.entries ?? this.#waiting
    set.add(entry)
  }

  async #run(): Promise<void> {
    this.#running = true
    clearTimeout(this.#timer)
    await undefined // what arrives in the same turn goes in the same batch
    while (!this.#stopped) {
      const now = performance.now()
      if (now < this.#not_before) break
      const siding = this.#dueSiding(now)
      if (siding === null && this.#waiting.size === 0) break
      if (siding !== null) await this.#trySiding(siding)
      await this.#attempt(this.#take(this.#waiting), PATIENCE_MS)
    }
    this.#running = false
    this.#sleep()
  }

  /** Comes back when the first pause is over. */
  #sleep(): void {
    if (this.#stopped) return
    let wake_at = this.#waiting.size > 0 ? this.#not_before : Number.POSITIVE_INFINITY
    for (const { due_at } of this.#sidings.values())
      wake_at = Math.min(wake_at, Math.max(due_at, this.#not_before))
    if (wake_at === Number.POSITIVE_INFINITY) return
    this.#timer = setTimeout(() => void this.#run(), Math.max(0, wake_at - performance.now()) + 1)
  }

  /**
   * The next batch. What may be done already goes without what is new: its snapshot may be too old to know a hold that
   * is in the balance, which then counts a second time against its neighbours.
   */
  #take(from: Set<Entry<Item, Result>>): Entry<Item, Result>[] {
    const batch: Entry<Item, Result>[] = []
    for (const entry of from) {
      if (batch.length === BATCH_CAP || (batch[0] ?? entry).doubtful !== entry.doubtful) break
      from.delete(entry)
      batch.push(entry)
    }
    return batch
  }

  async #attempt(entries: readonly Entry<Item, Result>[], patience_ms: number): Promise<void> {
    const batch = entries.filter((entry) => !entry.done)
    if (batch.length === 0) return
    if (performance.now() < this.#not_before) return this.#putBack(batch)
    for (const entry of batch) entry.sent = true
    try {
      const results = await this.#work.run(
        batch.map((entry) => entry.item),
        patience_ms,
      )
      batch.forEach((entry, at) => {
        entry.resolve(resultAt(results, at))
      })
      this.#pause_ms = 0
    } catch (error) {
      await this.#recover(batch, error)
    }
  }

  async #recover(batch: readonly Entry<Item, Result>[], error: unknown): Promise<void> {
    const trouble = troubleOf(error)
    for (const entry of batch) {
      entry.sent = false
      entry.doubtful ||= trouble === "unknown"
      entry.setback = error
      if (entry.attempts++ === 0) this.#work.onSetback?.(entry.item)
    }
    if (trouble === "poison") await this.#isolate(batch, error)
    else if (trouble === "locked" || trouble === "incomplete") await this.#separate(batch)
    else this.#postpone(batch)
  }

  /** Finds the item whose data is not taken, by halves. */
  async #isolate(batch: readonly Entry<Item, Result>[], error: unknown): Promise<void> {
    const [only, ...others] = batch
    if (only !== undefined && others.length === 0) return only.reject(error)
    const half = Math.ceil(batch.length / 2)
    await this.#attempt(batch.slice(0, half), PATIENCE_MS)
    await this.#attempt(batch.slice(half), PATIENCE_MS)
  }

  /** Account by account: the one that is in the way goes aside, the others are done. */
  async #separate(batch: readonly Entry<Item, Result>[]): Promise<void> {
    const accounts = Map.groupBy(batch, (entry) => entry.account)
    for (const [account, entries] of accounts) {
      if (accounts.size === 1) this.#setAside(account, entries)
      else await this.#attempt(entries, PATIENCE_ALONE_MS)
    }
  }

  #setAside(account: string, entries: readonly Entry<Item, Result>[]): void {
    const siding = this.#sidings.get(account)
    const pause_ms =
      siding === undefined ? ASIDE_PAUSE_MS[0] : Math.min(siding.pause_ms * 2, ASIDE_PAUSE_MS[1])
    const behind = siding?.entries ?? [...this.#waiting].filter((entry) => entry.account === account)
    for (const entry of behind) this.#waiting.delete(entry)
    this.#sidings.set(account, {
      entries: new Set([...entries, ...behind].filter((entry) => !entry.done)),
      pause_ms,
      due_at: performance.now() + pause_ms,
    })
    if (this.#stopped) this.stop()
  }

  #dueSiding(now: number): string | null {
    for (const [account, { due_at }] of this.#sidings) if (due_at <= now) return account
    return null
  }

  /** One batch of an account that went aside; once that went well, the rest of them wait like all others. */
  async #trySiding(account: string): Promise<void> {
    const siding = this.#sidings.get(account)
    if (siding === undefined) return
    siding.due_at = Number.POSITIVE_INFINITY
    await this.#attempt(this.#take(siding.entries), PATIENCE_ALONE_MS)
    if (siding !== this.#sidings.get(account)) return
    this.#sidings.delete(account)
    this.#waiting = new Set([...siding.entries, ...this.#waiting])
  }

  /** The books do not answer, or not this time: everything waits, in its order. */
  #postpone(batch: readonly Entry<Item, Result>[]): void {
    this.#pause_ms = Math.min(Math.max(this.#pause_ms * 2, PAUSE_MS[0]), PAUSE_MS[1])
    this.#not_before = performance.now() + this.#pause_ms
    this.#putBack(batch)
  }

  #putBack(batch: readonly Entry<Item, Result>[]): void {
    this.#waiting = new Set([...batch.filter((entry) => !entry.done), ...this.#waiting])
    if (this.#stopped) this.stop()
  }
}

function resultAt<Result>(results: readonly Result[], at: number): Result {
  const result = results[at]
  if (result === undefined) throw new Error("a statement did not answer for each of its items")
  return result
}
