import { isLive, type Queued } from "./queued.ts"

interface AccountQueue<Item, Result> {
  entries: Queued<Item, Result>[]
  /** Start of the account's wait for its turn. */
  turn_since_ms: number
}

/** Items that wait for a statement: accounts take turns if they do not fit in one batch (D78). */
export class FairQueue<Item, Result> {
  /** By account, in the order of their turns. */
  #lines = new Map<string, AccountQueue<Item, Result>>()
  #in_lines = 0
  #arrivals: Queued<Item, Result>[] = []

  get size(): number {
    return this.#in_lines + this.#arrivals.length
  }

  sizeOf(account: string): number {
    this.#sort()
    return this.#lines.get(account)?.entries.length ?? 0
  }

  *entries(): Generator<Queued<Item, Result>> {
    for (const { entries } of this.#lines.values()) yield* entries
    yield* this.#arrivals
  }

  /** Age of the untried item ahead of a new one: the account's first, else the next account's. 0 if tried. */
  waited_ms(account: string, now_ms: number): number {
    const own = this.#lines.get(account)
    const line = this.#lines.size === 0 ? undefined : (own ?? this.#lines.values().next().value)
    const first = line === undefined ? this.#arrivals[0] : line.entries[0]
    if (first === undefined || first.attempts > 0) return 0
    return now_ms - (line === undefined || line === own ? first.added_ms : line.turn_since_ms)
  }

  add(entry: Queued<Item, Result>): void {
    this.#arrivals.push(entry)
  }

  /**
   * Removes the next batch: all items, or an equal part for each account, where unused parts go to the others. Uncertain items
   * do not share a batch with new ones, because the snapshot may lack a hold that is already in the balance and would then
   * count twice against the new ones.
   */
  dequeue(cap: number): Queued<Item, Result>[] {
    if (this.#in_lines === 0 && this.#arrivals.length <= cap) return dequeueAlike(this.#arrivals, cap)
    this.#sort()
    const batch: Queued<Item, Result>[] = []
    const now_ms = performance.now()
    // An account with more items goes to the end.
    for (const [account, line] of this.#lines) {
      const room = cap - batch.length
      if (room <= 0) break
      const part = Math.max(1, Math.floor(room / this.#lines.size))
      const taken = dequeueAlike(line.entries, part, batch[0])
      if (taken.length === 0) continue
      batch.push(...taken)
      this.#lines.delete(account)
      if (line.entries.length === 0) continue
      line.turn_since_ms = now_ms
      this.#lines.set(account, line)
    }
    this.#in_lines -= batch.length
    return batch
  }

  /** Adds items before all others, in their order. */
  putBack(entries: readonly Queued<Item, Result>[]): void {
    const behind = [...this.#lines]
    this.#lines.clear()
    for (const entry of entries) this.#enqueue(entry)
    for (const [account, line] of behind) {
      const before = this.#lines.get(account)
      if (before === undefined) this.#lines.set(account, line)
      else before.entries = [...before.entries, ...line.entries]
    }
  }

  remove(account: string): Queued<Item, Result>[] {
    this.#sort()
    const entries = this.#lines.get(account)?.entries ?? []
    this.#lines.delete(account)
    this.#in_lines -= entries.length
    return entries
  }

  removeDone(): void {
    this.#sort()
    for (const [account, line] of this.#lines) {
      this.#in_lines -= line.entries.length
      line.entries = line.entries.filter(isLive)
      this.#in_lines += line.entries.length
      if (line.entries.length === 0) this.#lines.delete(account)
    }
  }

  clear(): void {
    this.#lines.clear()
    this.#in_lines = 0
    this.#arrivals = []
  }

  #sort(): void {
    for (const entry of this.#arrivals) this.#enqueue(entry)
    this.#arrivals = []
  }

  #enqueue(entry: Queued<Item, Result>): void {
    this.#in_lines += 1
    const line = this.#lines.get(entry.account)
    if (line !== undefined) line.entries.push(entry)
    else this.#lines.set(entry.account, { entries: [entry], turn_since_ms: entry.added_ms })
  }
}

/** Removes the first items, at most so many, that are uncertain like this one. */
export function dequeueAlike<Item, Result>(
  entries: Queued<Item, Result>[],
  most: number,
  like = entries[0],
): Queued<Item, Result>[] {
  let end = 0
  while (end < entries.length && end < most && entries[end]?.uncertain === like?.uncertain) end += 1
  return entries.splice(0, end)
}
