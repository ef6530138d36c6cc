/** The item is no longer tried. The cause is the error of its last attempt. */
export class Withdrawn extends Error {
  override readonly name = "Withdrawn"

  constructor(cause?: unknown) {
    super("the ledger did not take this in time", { cause })
  }
}

/** Receives the outcome of each item once. One for all items of a queue costs less than a promise for each. */
export interface Waiter<Item, Result> {
  resolve(entry: Queued<Item, Result>, result: Result): void
  /** Called with `Withdrawn`, or with the server's error for an item whose data it refuses. */
  reject(entry: Queued<Item, Result>, error: unknown): void
}

export class Queued<Item, Result> {
  readonly item: Item
  readonly account: string
  readonly until_ms: number
  readonly added_ms = performance.now()
  sent = false
  /** True if a statement without an answer may have done the item; once it is withdrawn, also if one may still do it. */
  uncertain: boolean
  done = false
  attempts = 0
  last_error: unknown
  #waiter: Waiter<Item, Result> | null

  constructor(
    item: Item,
    account: string,
    until_ms: number,
    uncertain: boolean,
    waiter: Waiter<Item, Result> | null,
  ) {
    this.item = item
    this.account = account
    this.until_ms = until_ms
    this.uncertain = uncertain
    this.#waiter = waiter
  }

  /** A promise of the result; read it in the turn in which the item was added. */
  get outcome(): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve: (_, result) => resolve(result), reject: (_, error) => reject(error) }
    })
  }

  resolve(result: Result): void {
    if (this.done) return
    this.done = true
    this.#waiter?.resolve(this, result)
  }

  reject(error: unknown): void {
    if (this.done) return
    this.done = true
    this.uncertain ||= this.sent
    this.#waiter?.reject(this, error)
  }
}

export function isLive(queued: Queued<unknown, unknown> | { readonly done: boolean }): boolean {
  return !queued.done
}
