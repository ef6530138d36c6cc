import type { Logger } from "pino"
import type { Loaded } from "../config/load.ts"
import { ADMIN_SETTINGS, type Listening, SETTINGS, Server } from "../service/server.ts"
import { type Assignment, checked, WorkerQuestion } from "./channel.ts"
import { startWorker, workerSlot } from "./worker-slot.ts"

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

/**
 * The parent of several gateway processes on one port. It replaces those that crash, and exits last. Resolves when all workers serve. If
 * one cannot, stops the others and rejects with its sentence.
 */
export async function startWorkers({ size, assignment, log, closeAfter, exit }: SupervisorOptions) {
  const { host, port: wanted, admin } = assignment
  const port = await findPort({ host, port: wanted, settings: SETTINGS })
  const found = {
    port,
    admin: admin && { ...admin, port: await findPort({ ...admin, settings: ADMIN_SETTINGS }) },
  }
  let current = assignment.snapshot
  let signals = 0
  let closed: Promise<void> | null = null
  const spawn = (number: number) =>
    startWorker({ ...assignment, ...found, number, snapshot: current }, askAllWorkers)
  const slots = Array.from({ length: size }, (_, at) => workerSlot({ number: at + 1, log, spawn }))

  async function drain(): Promise<void> {
    const ends = await Promise.all(slots.map((slot) => slot.close("drain")))
    if (signals > 1) return
    const is_closed = await close()
    if (signals === 1) exit(is_closed && ends.every((end) => end === 0) ? 0 : 1)
  }

  async function forceStop(): Promise<void> {
    await stopWorkers()
    await Promise.race([close(), Bun.sleep(CLOSE_MS)])
    exit(1)
  }

  /** Stops every worker, and kills those that take longer than `HURRY_MS`. */
  async function stopWorkers(): Promise<void> {
    const timer = setTimeout(() => {
      for (const { worker } of slots) worker?.kill()
    }, HURRY_MS)
    await Promise.all(slots.map((slot) => slot.close("stop")))
    clearTimeout(timer)
  }

  async function close(): Promise<boolean> {
    closed ??= closeAfter()
    try {
      await closed
      return true
    } catch (error) {
      log.error({ err: error }, "shutdown failed")
      return false
    }
  }

  async function askAllWorkers(message: unknown): Promise<string> {
    const question = checked(WorkerQuestion, message)
    const answers = await Promise.all(slots.map(({ worker }) => worker?.ask(question) ?? null))
    const texts = answers.filter((text) => text !== null)
    if (question.what === "metrics") return mergeMetrics(texts)
    return JSON.stringify(texts.flatMap((text) => JSON.parse(text)))
  }

  try {
    await Promise.all(slots.map(({ listening }) => listening))
  } catch (error) {
    await stopWorkers()
    throw error
  }
  return {
    port,
    /** Resolves when every worker uses the new configuration. If one cannot, all return to the old one, and it rejects. */
    async reload({ snapshot }: Loaded): Promise<void> {
      const before = current
      current = snapshot
      const workers = slots.map(({ worker }) => worker)
      const results = await Promise.allSettled(workers.map((worker) => worker?.reload(snapshot)))
      const refused = results.find((result) => result.status === "rejected")
      if (refused === undefined) return
      current = before
      const taken = workers.filter((_, at) => results[at]?.status === "fulfilled")
      await Promise.allSettled(taken.map((worker) => worker?.reload(before)))
      throw refused.reason
    },
    /** D34, for all workers. The first signal drains: exit 0 if every worker did. The second stops immediately: exit 1. */
    signal(): void {
      signals += 1
      if (signals === 1) void drain()
      else if (signals === 2) void forceStop()
    },
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
