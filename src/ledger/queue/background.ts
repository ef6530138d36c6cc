import { errorCode } from "../database/database-errors.ts"
import type { LedgerLog } from "../events.ts"
import type { Lease, LeaseTimes } from "../money/lease.ts"
import type { Outstanding } from "./outstanding.ts"

/** Delay before a failed renewal is retried. */
const RETRY_MS = 500

/** A background task, run `every_ms`, or after each renewal of the lease. */
export interface Task {
  readonly name: string
  readonly every_ms?: number
  run(): Promise<unknown>
}

/** Renews the lease and runs tasks independently, so that a slow task delays neither. */
export function inBackground(
  lease: Lease,
  outstanding: Outstanding,
  { renew_ms }: LeaseTimes,
  tasks: readonly Task[],
  log: LedgerLog,
) {
  const running = new Map<Task, Promise<void>>()
  const intervals: Timer[] = []
  let renewed_ms = performance.now()
  let timer: Timer | undefined
  let stopped = false
  let renewing: Promise<void> = Promise.resolve()

  function schedule(after_ms: number): void {
    if (stopped) return
    timer = setTimeout(() => {
      renewing = renew()
    }, after_ms)
  }

  async function renew(): Promise<void> {
    try {
      await lease.renew(outstanding.raise())
      renewed_ms = performance.now()
      runDue()
      schedule(renew_ms)
    } catch {
      schedule(Math.min(RETRY_MS, renew_ms))
    }
  }

  function runDue(): void {
    for (const task of tasks) if (task.every_ms === undefined) begin(task)
  }

  function begin(task: Task): void {
    if (!stopped && !running.has(task)) running.set(task, run(task))
  }

  async function run(task: Task): Promise<void> {
    try {
      await task.run()
    } catch (error) {
      if (!stopped)
        log.warn(
          { task: task.name, code: errorCode(error) },
          "a background task of the ledger failed: it will be retried",
        )
    } finally {
      running.delete(task)
    }
  }

  return {
    /** The time since the lease was renewed. */
    ageMs: () => performance.now() - renewed_ms,
    start() {
      runDue()
      schedule(renew_ms)
      for (const task of tasks) {
        if (task.every_ms !== undefined) intervals.push(setInterval(() => begin(task), task.every_ms))
      }
    },
    /** Clears all timers, and resolves when the running tasks have ended. */
    async stop() {
      stopped = true
      clearTimeout(timer)
      for (const interval of intervals) clearInterval(interval)
      await Promise.all([renewing, ...running.values()])
    },
  }
}
