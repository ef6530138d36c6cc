import type { Logger } from "pino"
import type { Worker } from "./worker.ts"

/** A worker that lived for so long is no part of a crash loop: another follows at once. */
const STEADY_MS = 10_000
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 30_000

export interface PostOptions {
  readonly number: number
  readonly log: Logger
  hire(number: number): Worker
}

/** A place for one worker, which is taken by another when it ends before it was told to. */
export class Post {
  readonly #options: PostOptions
  /** Null in the pause before a successor. */
  #worker: Worker | null
  #pause_ms = 0
  #timer: Timer | undefined
  #closed = false
  /** Settles as the first worker's start does. A post whose first worker cannot serve stays empty. */
  readonly filled: Promise<void>

  constructor(options: PostOptions) {
    this.#options = options
    const first = options.hire(options.number)
    this.#worker = first
    this.filled = first.listening
    first.listening.then(
      () => this.#watch(first),
      () => {},
    )
  }

  get worker(): Worker | null {
    return this.#worker
  }

  /** No successor from now on. Resolves with how the last worker ended; 0 when there was none. */
  async close(what: "drain" | "hurry"): Promise<number | string> {
    this.#closed = true
    clearTimeout(this.#timer)
    if (this.#worker === null) return 0
    void this.#worker.order({ what })
    return await this.#worker.exited
  }

  async #watch(worker: Worker): Promise<void> {
    const began_ms = performance.now()
    const refused = worker.listening.then(
      () => null,
      (error: Error) => error.message,
    )
    const end = await worker.exited
    if (this.#closed) return
    this.#worker = null
    this.#pause_ms = pauseAfter(performance.now() - began_ms, this.#pause_ms)
    const { number, log } = this.#options
    const next = this.#pause_ms === 0 ? "now" : `in ${this.#pause_ms} ms`
    const sentence = (await refused) ?? `worker ${number} exited with ${end}`
    const level = end === 0 ? "info" : "error"
    log[level]({ worker: number, worker_pid: worker.pid, end }, `${sentence}; starting a new one ${next}`)
    this.#timer = setTimeout(() => this.#replace(), this.#pause_ms)
  }

  #replace(): void {
    this.#worker = this.#options.hire(this.#options.number)
    void this.#watch(this.#worker)
  }
}

/** How long a post stays empty after a worker that lived for `lived_ms`, when it last did so for `before_ms`. */
export function pauseAfter(lived_ms: number, before_ms: number): number {
  if (lived_ms >= STEADY_MS) return 0
  return Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, 2 * before_ms))
}
