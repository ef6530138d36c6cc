/** The item is no longer tried. The cause is the error of its last attempt. */
export class Withdrawn extends Error {
  override readonly name = "Withdrawn"

  constructor(cause?: unknown) {
    super("the ledger did not take this in time", { cause })
  }
}

/** Waits for items, and is called once for each. One for all items of a queue costs less than a promise for each. */
export interface Waiter<Item, Result> {
  resolve(entry: Queued<Item, Result>, result: Result): void
  /** Called with `Withdrawn`, or with the server's error for an item whose data it refuses. */
  reject(entry: Queued<Item, Result>, error: unknown): void
}

/** An item in a queue, until it is done or withdrawn. */
export class Queued<Item, Result> {
  readonly item: Item
  readonly account: string
  /** When it is withdrawn, by the clock of `performance.now`. */
  readonly until_ms: number
  readonly added_ms = performance.now()
  /** Whether a statement with it is running. */
  sent = false
  /** Whether one has ended without saying whether it was done. */
  doubtful: boolean
  done = false
  attempts = 0
  /** Why the last attempt failed. */
  setback: unknown
  #waiter: Waiter<Item, Result> | null

  constructor(
    item: Item,
    account: string,
    until_ms: number,
    doubtful: boolean,
    waiter: Waiter<Item, Result> | null,
  ) {
    this.item = item
    this.account = account
    this.until_ms = until_ms
    this.doubtful = doubtful
    this.#waiter = waiter
  }

  /** For one who waits by a promise, and asks for it at once. */
  get outcome(): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve: (_, result) => resolve(result), reject: (_, error) => reject(error) }
    })
  }

  /** Whether the item may have been done, or may still be, by a statement that did not answer for it. */
  get uncertain(): boolean {
    return this.sent || this.doubtful
  }

  resolve(result: Result): void {
    if (this.done) return
    this.done = true
    this.sent = false
    this.#waiter?.resolve(this, result)
  }

  reject(error: unknown): void {
    if (this.done) return
    this.done = true
    this.#waiter?.reject(this, error)
  }
}

export function isLive(queued: Queued<unknown, unknown> | { readonly done: boolean }): boolean {
  return !queued.done
}
