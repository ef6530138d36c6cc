import { join } from "node:path"
import type { Subprocess } from "bun"
import type { Snapshot } from "../config/snapshot.ts"
import { Line } from "./line.ts"
import type { Assignment, Order, Question } from "./order.ts"

const START = join(import.meta.dir, "main.ts")
/** How long a worker may take to tell of itself before one goes on without it. */
const TELL_MS = 1_000

/** A worker's process, as its parent sees it. */
export class Worker {
  /** Resolves when it serves; rejects with the sentence that tells why it does not. */
  readonly listening: Promise<void>
  /** How its process ended: an exit code, or a signal's name. */
  readonly exited: Promise<number | string>
  readonly #process: Subprocess
  readonly #line: Line
  #gone = false

  /** `askAll` answers what the worker asks of all workers, itself among them. */
  constructor(assignment: Assignment, askAll: (asked: unknown) => Promise<string>) {
    const name = `worker ${assignment.number}`
    this.#line = new Line({ send: (message) => this.#process.send(message), answer: askAll })
    this.#process = Bun.spawn([process.execPath, START], {
      stdio: ["ignore", "inherit", "inherit"],
      ipc: (message) => this.#line.take(message),
    })
    this.exited = this.#process.exited.then(() => {
      this.#gone = true
      const end = this.#process.signalCode ?? this.#process.exitCode ?? 1
      this.#line.lose(new Error(`${name} exited with ${end} during its start`))
      return end
    })
    this.listening = this.#line.ask({ what: "begin", assignment } satisfies Order).then(() => {})
    // One that cannot serve has nothing to do.
    this.listening.catch(() => this.#process.disconnect())
  }

  get pid(): number {
    return this.#process.pid
  }

  /** Resolves when it is done, or when the worker is gone. */
  async order(order: Order): Promise<void> {
    await this.#line.ask(order).catch(() => {})
  }

  /** Resolves when it goes by the new configuration, or is gone; rejects with the reason why it cannot. */
  async reload(snapshot: Snapshot): Promise<void> {
    await this.#line.ask({ what: "reload", snapshot } satisfies Order).catch((error: unknown) => {
      if (!this.#gone) throw error
    })
  }

  /** Null when it does not answer. */
  tell(question: Question): Promise<string | null> {
    return this.#line.ask(question, TELL_MS).catch(() => null)
  }

  kill(): void {
    this.#process.kill("SIGKILL")
  }
}
