/** An item on its way. */
export class Entry<Item, Result> {
  readonly item: Item
  readonly account: string
  readonly entered_at = performance.now()
  readonly #outcome = Promise.withResolvers<Result>()
  /** Whether a statement with it is running. */
  sent = false
  /** Whether one has ended without saying whether it was done. */
  doubtful: boolean
  done = false
  attempts = 0
  /** Why the last attempt failed. */
  setback: unknown

  /** `doubtful`: whether a statement of an earlier entry has left that open. */
  constructor(item: Item, account: string, doubtful: boolean) {
    this.item = item
    this.account = account
    this.doubtful = doubtful
  }

  /** Whether the item may have been done, or may still be, by a statement that did not answer for it. */
  get uncertain(): boolean {
    return this.sent || this.doubtful
  }

  /** Rejects only with `Withdrawn`, or with the server's error for an item whose data it does not take. */
  get outcome(): Promise<Result> {
    return this.#outcome.promise
  }

  resolve(result: Result): void {
    this.done = true
    this.sent = false
    this.#outcome.resolve(result)
  }

  reject(error: unknown): void {
    this.done = true
    this.#outcome.reject(error)
  }
}

/** The item is no longer tried; the cause is why its last attempt failed. */
export class Withdrawn extends Error {
  override readonly name = "Withdrawn"

  constructor(cause?: unknown) {
    super("the books did not take this in time", { cause })
  }
}
