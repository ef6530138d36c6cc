import { errorCode } from "../database/database-errors.ts"
import type { LedgerLog } from "../events.ts"
import type { Lease, LeaseTimes } from "../money/lease.ts"
import type { Outstanding } from "./outstanding.ts"

/** A renewal that failed is tried again after this long. */
const RETRY_MS = 500

/** A background task, run `every_ms`, or after each renewal of the lease. */
export interface Task {
  readonly name: string
  readonly every_ms?: number
  run(): Promise<unknown>
}

/** Renews the lease and runs tasks independently, so that a slow task delays neither. */
export class Background {
  readonly #lease: Lease
  readonly #outstanding: Outstanding
  readonly #renew_ms: number
  readonly #tasks: readonly Task[]
  readonly #log: LedgerLog
  readonly #running = new Map<Task, Promise<void>>()
  readonly #intervals: Timer[] = []
  #renewed_ms = performance.now()
  #timer: Timer | undefined
  #stopped = false
  #renewing: Promise<void> = Promise.resolve()

  constructor(
    lease: Lease,
    outstanding: Outstanding,
    { renew_ms }: LeaseTimes,
    tasks: readonly Task[],
    log: LedgerLog,
  ) {
    this.#lease = lease
    this.#outstanding = outstanding
    this.#renew_ms = renew_ms
    this.#tasks = tasks
    this.#log = log
  }

  get age_ms(): number {
    return performance.now() - this.#renewed_ms
  }

  start(): void {
    this.#runDue()
    this.#schedule(this.#renew_ms)
    for (const task of this.#tasks) {
      if (task.every_ms !== undefined)
        this.#intervals.push(setInterval(() => this.#start(task), task.every_ms))
    }
  }

  /** Clears all timers, and resolves when the running tasks have ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    for (const interval of this.#intervals) clearInterval(interval)
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
      this.#renewed_ms = performance.now()
      this.#runDue()
      this.#schedule(this.#renew_ms)
    } catch {
      this.#schedule(Math.min(RETRY_MS, this.#renew_ms))
    }
  }

  #runDue(): void {
    for (const task of this.#tasks) if (task.every_ms === undefined) this.#start(task)
  }

  #start(task: Task): void {
    if (!this.#stopped && !this.#running.has(task)) this.#running.set(task, this.#run(task))
  }

  async #run(task: Task): Promise<void> {
    try {
      await task.run()
    } catch (error) {
      if (!this.#stopped)
        this.#log.warn(
          { task: task.name, code: errorCode(error) },
          "a background task of the ledger failed: it will be retried",
        )
    } finally {
      this.#running.delete(task)
    }
  }
}
