import type { Log } from "../ledger/events.ts"

/** What a watchdog watches: `start` brings back what `isRunning` finds gone. */
interface Watched {
  isRunning(): boolean
  start(): Promise<void>
}

/** How often it looks: the books are closed for that long at most, and for the time of a start. */
const LOOK_MS = 500

/** Starts a server anew that something else than the gateway has ended, as often as it takes (D27). */
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

  /** Watches no longer; a start that has begun ends first. */
  async end(): Promise<void> {
    clearInterval(this.#timer)
    await this.#start
  }
}
