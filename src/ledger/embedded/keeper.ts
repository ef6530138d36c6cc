/** Where the launcher says what becomes of the server; a pino logger is one. */
export interface Log {
  info(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** What a keeper keeps: `start` brings back what `isRunning` finds gone. */
interface Kept {
  isRunning(): boolean
  start(): Promise<void>
}

/** How often is looked: the books are closed for that long at most, and a start's time. */
const LOOK_MS = 500

/** Starts a server anew that something else than the gateway has ended, as often as it takes. */
export class Keeper {
  readonly #timer: Timer
  #start: Promise<void> | undefined

  constructor(kept: Kept, log: Log) {
    this.#timer = setInterval(() => {
      if (this.#start !== undefined || kept.isRunning()) return
      log.error({}, "embedded Postgres has died: starting it again")
      this.#start = kept
        .start()
        .then(() => log.info({}, "embedded Postgres is back"))
        .catch((error: unknown) => log.error({ error }, "embedded Postgres does not start"))
        .finally(() => {
          this.#start = undefined
        })
    }, LOOK_MS)
    this.#timer.unref()
  }

  /** Keeps it no longer; a start that has begun ends first. */
  async end(): Promise<void> {
    clearInterval(this.#timer)
    await this.#start
  }
}
