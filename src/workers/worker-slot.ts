import { join } from "node:path"
import type { Subprocess } from "bun"
import type { Logger } from "pino"
import type { Snapshot } from "../config/load.ts"
import { type Assignment, Channel, type Command, type WorkerQuestion } from "./channel.ts"

const START = join(import.meta.dir, "main.ts")
/** The wait for a worker's metrics or statuses before answering without them. */
const ASK_MS = 1_000

export class WorkerProcess {
  /** Resolves when the worker accepts requests. Rejects with the sentence that says why it cannot. */
  readonly listening: Promise<void>
  /** Resolves with the exit code of the process, or the name of the signal that ended it. */
  readonly exited: Promise<number | string>
  readonly #process: Subprocess
  readonly #channel: Channel
  #gone = false

  /** `askAll` answers a worker's question to all workers, itself included. */
  constructor(assignment: Assignment, askAll: (message: unknown) => Promise<string>) {
    const name = `worker ${assignment.number}`
    this.#channel = new Channel({ send: (message) => this.#process.send(message), answer: askAll })
    this.#process = Bun.spawn([process.execPath, START], {
      stdio: ["ignore", "inherit", "inherit"],
      ipc: (message) => this.#channel.receive(message),
    })
    this.exited = this.#process.exited.then(() => {
      this.#gone = true
      const end = this.#process.signalCode ?? this.#process.exitCode ?? 1
      this.#channel.disconnect(new Error(`${name} exited with ${end} during its start`))
      return end
    })
    this.listening = this.#channel.ask({ what: "begin", assignment } satisfies Command).then(() => {})
    // Without the channel, a worker that cannot serve exits.
    this.listening.catch(() => this.#process.disconnect())
  }

  get pid(): number {
    return this.#process.pid
  }

  /** Resolves when the worker has carried out the command, or has exited. */
  async send(command: Command): Promise<void> {
    await this.#channel.ask(command).catch(() => {})
  }

  /** Resolves when the worker uses the new configuration, or has exited. Rejects with the reason why it cannot. */
  async reload(snapshot: Snapshot): Promise<void> {
    await this.#channel.ask({ what: "reload", snapshot } satisfies Command).catch((error: unknown) => {
      if (!this.#gone) throw error
    })
  }

  /** Null when it does not answer. */
  ask(question: WorkerQuestion): Promise<string | null> {
    return this.#channel.ask(question, ASK_MS).catch(() => null)
  }

  kill(): void {
    this.#process.kill("SIGKILL")
  }
}

/** A worker that ran this long is not in a crash loop: it is replaced immediately. */
const STEADY_MS = 10_000
const FIRST_BACKOFF_MS = 100
const LONGEST_BACKOFF_MS = 30_000

interface WorkerSlotOptions {
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
  async close(what: "drain" | "stop"): Promise<number | string> {
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
