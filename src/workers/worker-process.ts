import { join } from "node:path"
import type { Subprocess } from "bun"
import type { Snapshot } from "../config/load.ts"
import { Channel } from "./channel.ts"
import type { Assignment, Command, Question } from "./commands.ts"

const START = join(import.meta.dir, "main.ts")
/** How long to wait for a worker's metrics or statuses before answering without them. */
const ASK_MS = 1_000

/** A worker's process, as its parent sees it. */
export class WorkerProcess {
  /** Resolves when the worker accepts requests. Rejects with the sentence that says why it cannot. */
  readonly listening: Promise<void>
  /** Resolves with the exit code of the process, or the name of the signal that ended it. */
  readonly exited: Promise<number | string>
  readonly #process: Subprocess
  readonly #channel: Channel
  #gone = false

  /** `askAll` answers a worker's question to all workers, itself included. */
  constructor(assignment: Assignment, askAll: (asked: unknown) => Promise<string>) {
    const name = `worker ${assignment.number}`
    this.#channel = new Channel({ send: (message) => this.#process.send(message), answer: askAll })
    this.#process = Bun.spawn([process.execPath, START], {
      stdio: ["ignore", "inherit", "inherit"],
      ipc: (message) => this.#channel.take(message),
    })
    this.exited = this.#process.exited.then(() => {
      this.#gone = true
      const end = this.#process.signalCode ?? this.#process.exitCode ?? 1
      this.#channel.lose(new Error(`${name} exited with ${end} during its start`))
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
  ask(question: Question): Promise<string | null> {
    return this.#channel.ask(question, ASK_MS).catch(() => null)
  }

  kill(): void {
    this.#process.kill("SIGKILL")
  }
}
