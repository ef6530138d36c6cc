import type { Logger } from "pino"
import type { WorkerProcess } from "./worker-process.ts"

/** A worker that ran this long is not in a crash loop: it is replaced at once. */
const STEADY_MS = 10_000
const FIRST_BACKOFF_MS = 100
const LONGEST_BACKOFF_MS = 30_000

export interface WorkerSlotOptions {
  readonly number: number
  readonly log: Logger
  spawn(number: number): WorkerProcess
}

/** Keeps one worker running: starts another when it exits unasked, with backoff when it keeps crashing. */
export class WorkerSlot {
  readonly #options: WorkerSlotOptions
  /** Null during the backoff before the next worker. */
  #worker: WorkerProcess | null
  #backoff_ms = 0
  #timer: Timer | undefined
  #closed = false
  /** Settles as the start of the first worker does. If that worker cannot serve, the slot stays empty. */
  readonly listening: Promise<void>

  constructor(options: WorkerSlotOptions) {
    this.#options = options
    const first = options.spawn(options.number)
    this.#worker = first
    this.listening = first.listening
    first.listening.then(
      () => this.#watch(first),
      () => {},
    )
  }

  get worker(): WorkerProcess | null {
    return this.#worker
  }

  /** Starts no more workers. Resolves with how the last one ended; 0 if there was none. */
  async close(what: "drain" | "hurry"): Promise<number | string> {
    this.#closed = true
    clearTimeout(this.#timer)
    if (this.#worker === null) return 0
    void this.#worker.send({ what })
    return await this.#worker.exited
  }

  async #watch(worker: WorkerProcess): Promise<void> {
    const began_ms = performance.now()
    const refused = worker.listening.then(
      () => null,
      (error: Error) => error.message,
    )
    const end = await worker.exited
    if (this.#closed) return
    this.#worker = null
    this.#backoff_ms = backoffAfter(performance.now() - began_ms, this.#backoff_ms)
    const { number, log } = this.#options
    const next = this.#backoff_ms === 0 ? "now" : `in ${this.#backoff_ms} ms`
    const sentence = (await refused) ?? `worker ${number} exited with ${end}`
    const level = end === 0 ? "info" : "error"
    log[level]({ worker: number, worker_pid: worker.pid, end }, `${sentence}; starting a new one ${next}`)
    this.#timer = setTimeout(() => this.#replace(), this.#backoff_ms)
  }

  #replace(): void {
    this.#worker = this.#options.spawn(this.#options.number)
    void this.#watch(this.#worker)
  }
}

/** The backoff after a worker that ran for `lived_ms`, when the last backoff was `before_ms`. In milliseconds. */
export function backoffAfter(lived_ms: number, before_ms: number): number {
  if (lived_ms >= STEADY_MS) return 0
  return Math.min(LONGEST_BACKOFF_MS, Math.max(FIRST_BACKOFF_MS, 2 * before_ms))
}
