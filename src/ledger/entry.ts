/** An item on its way. */
export class Entry<Item, Result> {
  readonly item: Item
  readonly account: string
  readonly #outcome = Promise.withResolvers<Result>()
  /** Whether a statement with it is running, or has ended without saying whether it was done. */
  sent = false
  doubtful = false
  done = false
  attempts = 0
  /** Why the last attempt failed. */
  setback: unknown

  constructor(item: Item, account: string) {
    this.item = item
    this.account = account
  }

  /** Rejects only with `Withdrawn`, or with the server's error for an item whose data it does not take. */
  get outcome(): Promise<Result> {
    return this.#outcome.promise
  }

  resolve(result: Result): void {
    this.done = true
    this.#outcome.resolve(result)
  }

  reject(error: unknown): void {
    this.done = true
    this.#outcome.reject(error)
  }
}

/** The item is no longer tried; `reached` says whether it may have been done, or may still be. */
export class Withdrawn extends Error {
  override readonly name = "Withdrawn"
  readonly reached: boolean

  constructor(reached: boolean, cause: unknown) {
    super("the books did not take this in time", { cause })
    this.reached = reached
  }
}
