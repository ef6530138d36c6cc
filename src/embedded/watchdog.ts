import type { Log } from "../ledger/events.ts"

/** What a watchdog watches. It calls `start` when `isRunning` returns false. */
interface Watched {
  isRunning(): boolean
  start(): Promise<void>
}

/** How often it looks. An outage lasts at most this long, plus the time of a start. */
const LOOK_MS = 500

/** Restarts the server whenever something other than the gateway has stopped it (D27). */
export class Watchdog {
  readonly #timer: Timer
  #start: Promise<void> | undefined

  constructor(watched: Watched, log: Log) {
    this.#timer = setInterval(() => {
      if (this.#start !== undefined || watched.isRunning()) return
      log.error({}, "embedded Postgres stopped unexpectedly: restarting it")
      this.#start = watched
        .start()
        .then(() => log.info({}, "embedded Postgres was restarted"))
        .catch((err: unknown) => log.error({ err }, "embedded Postgres could not be restarted"))
        .finally(() => {
          this.#start = undefined
        })
    }, LOOK_MS)
    this.#timer.unref()
  }

  /** Stops watching. Waits for a start that has begun. */
  async end(): Promise<void> {
    clearInterval(this.#timer)
    await this.#start
  }
}
