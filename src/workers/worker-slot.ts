import { join } from "node:path"
import type { Subprocess } from "bun"
import type { Logger } from "pino"
import type { Snapshot } from "../config/load.ts"
import { type Assignment, type Command, openChannel, type WorkerQuestion } from "./channel.ts"

const START = join(import.meta.dir, "main.ts")
/** The wait for a worker's metrics or statuses before answering without them. */
const ASK_MS = 1_000

export type WorkerProcess = ReturnType<typeof startWorker>

/** Starts a worker. `askAll` answers a worker's question to all workers, itself included. */
export function startWorker(assignment: Assignment, askAll: (message: unknown) => Promise<string>) {
  let is_gone = false
  const channel = openChannel({ send: (message) => started.send(message), answer: askAll })
  const started: Subprocess = Bun.spawn([process.execPath, START], {
    stdio: ["ignore", "inherit", "inherit"],
    ipc: (message) => channel.receive(message),
  })
  const exited = started.exited.then((): number | string => {
    is_gone = true
    const end = started.signalCode ?? started.exitCode ?? 1
    channel.disconnect(new Error(`worker ${assignment.number} exited with ${end} during its start`))
    return end
  })
  const listening = channel.ask({ what: "begin", assignment } satisfies Command).then(() => {})
  // Without the channel, a worker that cannot serve exits.
  listening.catch(() => started.disconnect())
  return {
    pid: started.pid,
    /** Resolves when the worker accepts requests. Rejects with the sentence that says why it cannot. */
    listening,
    /** Resolves with the exit code of the process, or the name of the signal that ended it. */
    exited,
    /** Resolves when the worker has carried out the command, or has exited. */
    async send(command: Command): Promise<void> {
      await channel.ask(command).catch(() => {})
    },
    /** Resolves when the worker uses the new configuration, or has exited. Rejects with the reason why it cannot. */
    async reload(snapshot: Snapshot): Promise<void> {
      await channel.ask({ what: "reload", snapshot } satisfies Command).catch((error: unknown) => {
        if (!is_gone) throw error
      })
    },
    /** Null when it does not answer. */
    ask: (question: WorkerQuestion): Promise<string | null> =>
      channel.ask(question, ASK_MS).catch(() => null),
    kill: () => started.kill("SIGKILL"),
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
export function workerSlot({ number, log, spawn }: WorkerSlotOptions) {
  const first = spawn(number)
  /** Null during the backoff before the next worker. */
  let current: WorkerProcess | null = first
  let backoff_ms = 0
  let timer: Timer | undefined
  let is_closed = false
  first.listening.then(
    () => watch(first),
    () => {},
  )

  async function watch(worker: WorkerProcess): Promise<void> {
    const began_ms = performance.now()
    const refused = worker.listening.then(
      () => null,
      (error: Error) => error.message,
    )
    const end = await worker.exited
    if (is_closed) return
    current = null
    backoff_ms = backoffAfter(performance.now() - began_ms, backoff_ms)
    const next = backoff_ms === 0 ? "now" : `in ${backoff_ms} ms`
    const sentence = (await refused) ?? `worker ${number} exited with ${end}`
    const level = end === 0 ? "info" : "error"
    log[level]({ worker: number, worker_pid: worker.pid, end }, `${sentence}; starting a new one ${next}`)
    timer = setTimeout(() => {
      current = spawn(number)
      void watch(current)
    }, backoff_ms)
  }

  return {
    /** Settles as the start of the first worker does. If that worker cannot serve, the slot stays empty. */
    listening: first.listening,
    get worker(): WorkerProcess | null {
      return current
    },
    /** Starts no more workers. Resolves with how the last one ended; 0 if there was none. */
    async close(what: "drain" | "stop"): Promise<number | string> {
      is_closed = true
      clearTimeout(timer)
      if (current === null) return 0
      void current.send({ what })
      return await current.exited
    },
  }
}

/** The backoff after a worker that ran for `lived_ms`, when the last backoff was `before_ms`. In milliseconds. */
export function backoffAfter(lived_ms: number, before_ms: number): number {
  if (lived_ms >= STEADY_MS) return 0
  return Math.min(LONGEST_BACKOFF_MS, Math.max(FIRST_BACKOFF_MS, 2 * before_ms))
}
