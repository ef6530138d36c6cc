import type { Trouble } from "../wire/alerts.ts"

/** Alerts about upstreams, from the breakers of this process (D96). */

/** Shorter than the rest of an upstream or a key, so that none is missed. */
const LOOK_MS = 5_000
/** A trouble that is over is told for so long, because an alert may have to wait. */
const OVER_MS = 180_000
/** The interval at which troubles that another process has left behind are ended. */
const ALL_MS = 60_000

interface TroubleWatchOptions {
  /** The troubles that upstreams could have, and whether they have them now. */
  read(): readonly Trouble[]
  write(seen: readonly Trouble[]): Promise<void>
}

export class TroubleWatch {
  readonly #options: TroubleWatchOptions
  readonly #last_on_ms = new Map<string, number>()
  readonly #timer: Timer
  #wrote_all_ms = Number.NEGATIVE_INFINITY
  #writing: Promise<void> | null = null

  constructor(options: TroubleWatchOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.check(), LOOK_MS)
  }

  check(now_ms = performance.now()): void {
    if (this.#writing !== null) return
    const seen = this.#options.read()
    for (const each of seen) if (each.is_on) this.#last_on_ms.set(keyOf(each), now_ms)
    const is_all = now_ms - this.#wrote_all_ms >= ALL_MS
    const due = seen.filter((each) => {
      const last_ms = this.#last_on_ms.get(keyOf(each)) ?? Number.NEGATIVE_INFINITY
      return is_all || now_ms - last_ms < OVER_MS
    })
    if (due.length === 0) return
    const written = this.#options.write(due).then(
      () => {
        if (is_all) this.#wrote_all_ms = now_ms
      },
      // The ledger says in the log that its database is unavailable.
      () => {},
    )
    this.#writing = written.finally(() => {
      this.#writing = null
    })
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#writing
  }
}

const keyOf = ({ upstream, key, trouble }: Trouble) => JSON.stringify([upstream, key, trouble])
