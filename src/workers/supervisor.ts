import type { Logger } from "pino"
import type { Loaded, Snapshot } from "../config/load.ts"
import { ADMIN_SETTINGS, type Listening, SETTINGS, Server } from "../service/server.ts"
import { type Assignment, checked, WorkerQuestion } from "./channel.ts"
import { WorkerProcess, WorkerSlot } from "./worker-slot.ts"

/** The time limit of workers after a second signal; they allow themselves 1.5 s. */
const HURRY_MS = 1_600
/** The rest of the 2 s after a second signal (D34), for closing the database. */
const CLOSE_MS = 300

interface SupervisorOptions {
  readonly size: number
  /** The environment of every worker, besides its number. Port 0 picks a free one. */
  readonly assignment: Omit<Assignment, "number">
  readonly log: Logger
  /** Closes the database, and the server that runs it, once the last worker has exited. */
  closeAfter(): Promise<void>
  exit(code: number): void
}

/** The parent of several gateway processes on one port. It replaces those that crash, and exits last. */
export class Supervisor {
  readonly port: number
  readonly #options: SupervisorOptions
  readonly #slots: readonly WorkerSlot[]
  #snapshot: Snapshot
  #signals = 0
  #closed: Promise<void> | null = null

  /** Resolves when all workers serve. If one cannot, stops the others and rejects with its sentence. */
  static async start(options: SupervisorOptions): Promise<Supervisor> {
    const { host, port, admin } = options.assignment
    const found = {
      port: await findPort({ host, port, settings: SETTINGS }),
      admin: admin && { ...admin, port: await findPort({ ...admin, settings: ADMIN_SETTINGS }) },
    }
    const supervisor = new Supervisor(options, found)
    try {
      await Promise.all(supervisor.#slots.map(({ listening }) => listening))
    } catch (error) {
      await supervisor.#stopWorkers()
      throw error
    }
    return supervisor
  }

  private constructor(options: SupervisorOptions, found: Pick<Assignment, "port" | "admin">) {
    this.port = found.port
    this.#options = options
    this.#snapshot = options.assignment.snapshot
    const { log, assignment, size } = options
    const spawn = (number: number) =>
      new WorkerProcess({ ...assignment, ...found, number, snapshot: this.#snapshot }, (message) =>
        this.#askAllWorkers(message),
      )
    this.#slots = Array.from({ length: size }, (_, at) => new WorkerSlot({ number: at + 1, log, spawn }))
  }

  /** Resolves when every worker uses the new configuration. If one cannot, all return to the old one, and it rejects. */
  async reload({ snapshot }: Loaded): Promise<void> {
    const before = this.#snapshot
    this.#snapshot = snapshot
    const workers = this.#slots.map(({ worker }) => worker)
    const results = await Promise.allSettled(workers.map((worker) => worker?.reload(snapshot)))
    const refused = results.find((result) => result.status === "rejected")
    if (refused === undefined) return
    this.#snapshot = before
    const taken = workers.filter((_, at) => results[at]?.status === "fulfilled")
    await Promise.allSettled(taken.map((worker) => worker?.reload(before)))
    throw refused.reason
  }

  /** D34, for all workers. The first signal drains: exit 0 if every worker did. The second stops immediately: exit 1. */
  signal(): void {
    this.#signals += 1
    if (this.#signals === 1) void this.#drain()
    else if (this.#signals === 2) void this.#forceStop()
  }

  async #drain(): Promise<void> {
    const ends = await Promise.all(this.#slots.map((slot) => slot.close("drain")))
    if (this.#signals > 1) return
    const is_closed = await this.#close()
    if (this.#signals === 1) this.#options.exit(is_closed && ends.every((end) => end === 0) ? 0 : 1)
  }

  async #forceStop(): Promise<void> {
    await this.#stopWorkers()
    await Promise.race([this.#close(), Bun.sleep(CLOSE_MS)])
    this.#options.exit(1)
  }

  /** Stops every worker, and kills those that take longer than `HURRY_MS`. */
  async #stopWorkers(): Promise<void> {
    const timer = setTimeout(() => {
      for (const { worker } of this.#slots) worker?.kill()
    }, HURRY_MS)
    await Promise.all(this.#slots.map((slot) => slot.close("stop")))
    clearTimeout(timer)
  }

  async #close(): Promise<boolean> {
    const { closeAfter, log } = this.#options
    this.#closed ??= closeAfter()
    try {
      await this.#closed
      return true
    } catch (error) {
      log.error({ err: error }, "shutdown failed")
      return false
    }
  }

  async #askAllWorkers(message: unknown): Promise<string> {
    const question = checked(WorkerQuestion, message)
    const answers = await Promise.all(this.#slots.map(({ worker }) => worker?.ask(question) ?? null))
    const texts = answers.filter((text) => text !== null)
    if (question.what === "metrics") return mergeMetrics(texts)
    return JSON.stringify(texts.flatMap((text) => JSON.parse(text)))
  }
}

/** Listens briefly without sharing the port, to notice a second gateway on it. Rejects with a sentence. */
async function findPort(address: Listening): Promise<number> {
  const probe = new Server({ handle: () => new Response(null, { status: 503 }) }, address)
  const found = probe.port
  await probe.close()
  return found
}

/** Separates two metrics in Prometheus' text format. */
const BREAK = "\n\n"

/** Merges the metrics of several processes. Each labels its own series; the format wants one HELP and TYPE per metric. */
export function mergeMetrics(texts: readonly string[]): string {
  const series = new Map<string, string[]>()
  for (const block of texts.flatMap((text) => text.trimEnd().split(BREAK))) {
    const [help = "", type = "", ...samples] = block.split("\n")
    const head = `${help}\n${type}`
    const known = series.get(head)
    if (known === undefined) series.set(head, samples)
    else known.push(...samples)
  }
  return `${[...series].map(([head, samples]) => [head, ...samples].join("\n")).join(BREAK)}\n`
}
