import type { Lease, LeaseTimes } from "./lease.ts"
import type { Log } from "./log.ts"
import type { Outstanding } from "./outstanding.ts"
import { codeOf } from "./trouble.ts"

/** A renewal that failed is tried again after this long. */
const RETRY_MS = 500

/** What is done beside each renewal of the lease. */
export interface Chore {
  readonly name: string
  run(): Promise<void>
}

/**
 * Renews the lease and does the chores, each by itself: none waits for another, and none of them touches the renewal.
 */
export class Keeper {
  readonly #lease: Lease
  readonly #outstanding: Outstanding
  readonly #renew_ms: number
  readonly #chores: readonly Chore[]
  readonly #log: Log
  readonly #running = new Map<Chore, Promise<void>>()
  #renewed_at = performance.now()
  #timer: ReturnType<typeof setTimeout> | undefined
  #stopped = false
  #renewing: Promise<void> = Promise.resolve()

  constructor(
    lease: Lease,
    outstanding: Outstanding,
    { renew_ms }: LeaseTimes,
    chores: readonly Chore[],
    log: Log,
  ) {
    this.#lease = lease
    this.#outstanding = outstanding
    this.#renew_ms = renew_ms
    this.#chores = chores
    this.#log = log
  }

  /** How long ago the lease was renewed. */
  get age_ms(): number {
    return performance.now() - this.#renewed_at
  }

  start(): void {
    this.#doChores()
    this.#schedule(this.#renew_ms)
  }

  /** Leaves no timer; resolves when what is being done has ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await Promise.all([this.#renewing, ...this.#running.values()])
  }

  #schedule(after_ms: number): void {
    if (this.#stopped) return
    this.#timer = setTimeout(() => {
      this.#renewing = this.#renew()
    }, after_ms)
  }

  async #renew(): Promise<void> {
    try {
      await this.#lease.renew(this.#outstanding.raise())
      this.#renewed_at = performance.now()
      this.#doChores()
      this.#schedule(this.#renew_ms)
    } catch {
      this.#schedule(Math.min(RETRY_MS, this.#renew_ms))
    }
  }

  #doChores(): void {
    if (this.#stopped) return
    for (const chore of this.#chores) if (!this.#running.has(chore)) this.#running.set(chore, this.#do(chore))
  }

  async #do(chore: Chore): Promise<void> {
    try {
      await chore.run()
    } catch (error) {
      if (!this.#stopped)
        this.#log.warn(
          { chore: chore.name, code: codeOf(error) },
          "a chore of the books failed; it is done again",
        )
    } finally {
      this.#running.delete(chore)
    }
  }
}
