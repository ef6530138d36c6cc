import type { Logger } from "pino"
import type { Loaded, Snapshot } from "../config/snapshot.ts"
import { ADMIN_SETTINGS, type Listening, SETTINGS, Server } from "../server.ts"
import { checked } from "./line.ts"
import { type Assignment, Question } from "./order.ts"
import { Post } from "./post.ts"
import { mergeMetrics } from "./scrape.ts"
import { Worker } from "./worker.ts"

/** How long workers may take that were told to hurry; they themselves allow 1.5 s for it. */
const HURRY_MS = 1_600
/** What is left of the 2 s of a second signal (D34) for the books. */
const CLOSE_MS = 300

export interface CrewOptions {
  readonly size: number
  /** What the workers are to be, but for their numbers; a port of 0 picks a free one. */
  readonly assignment: Omit<Assignment, "number">
  readonly log: Logger
  /** What is to be closed once the last worker is gone: the books, and what runs them. */
  closeAfter(): Promise<void>
  exit(code: number): void
}

/** The parent of several gateway processes on one port: it replaces those that die, and ends last. */
export class Crew {
  readonly port: number
  readonly #options: CrewOptions
  readonly #posts: readonly Post[]
  #snapshot: Snapshot
  #signals = 0
  #closed: Promise<void> | null = null

  /** Resolves when all workers serve. Rejects with the sentence of the first that cannot, when none is left. */
  static async start(options: CrewOptions): Promise<Crew> {
    const { host, port, admin } = options.assignment
    const found = {
      port: await findPort({ host, port, settings: SETTINGS }),
      admin: admin && { ...admin, port: await findPort({ ...admin, settings: ADMIN_SETTINGS }) },
    }
    const crew = new Crew(options, found)
    try {
      await Promise.all(crew.#posts.map(({ filled }) => filled))
    } catch (error) {
      await crew.#hurry()
      throw error
    }
    return crew
  }

  private constructor(options: CrewOptions, found: Pick<Assignment, "port" | "admin">) {
    this.port = found.port
    this.#options = options
    this.#snapshot = options.assignment.snapshot
    const { log, assignment, size } = options
    const hire = (number: number) =>
      new Worker({ ...assignment, ...found, number, snapshot: this.#snapshot }, (asked) =>
        this.#askAll(asked),
      )
    this.#posts = Array.from({ length: size }, (_, at) => new Post({ number: at + 1, log, hire }))
  }

  /** Resolves when every worker goes by the new configuration. When one cannot, all keep the old one, and it rejects. */
  async reload({ snapshot }: Loaded): Promise<void> {
    const before = this.#snapshot
    this.#snapshot = snapshot
    const workers = this.#posts.map(({ worker }) => worker)
    const results = await Promise.allSettled(workers.map((worker) => worker?.reload(snapshot)))
    const refused = results.find((result) => result.status === "rejected")
    if (refused === undefined) return
    this.#snapshot = before
    const taken = workers.filter((_, at) => results[at]?.status === "fulfilled")
    await Promise.allSettled(taken.map((worker) => worker?.reload(before)))
    throw refused.reason
  }

  /** D34, for all workers: the first signal drains, exit 0 if all ended so; the second one hurries, exit 1. */
  signal(): void {
    this.#signals += 1
    if (this.#signals === 1) void this.#drain()
    else if (this.#signals === 2) void this.#cut()
  }

  async #drain(): Promise<void> {
    const ends = await Promise.all(this.#posts.map((post) => post.close("drain")))
    if (this.#signals > 1) return
    const is_closed = await this.#close()
    if (this.#signals === 1) this.#options.exit(is_closed && ends.every((end) => end === 0) ? 0 : 1)
  }

  async #cut(): Promise<void> {
    await this.#hurry()
    await Promise.race([this.#close(), Bun.sleep(CLOSE_MS)])
    this.#options.exit(1)
  }

  /** Ends every worker within a short time, by force those that take longer. */
  async #hurry(): Promise<void> {
    const timer = setTimeout(() => {
      for (const { worker } of this.#posts) worker?.kill()
    }, HURRY_MS)
    await Promise.all(this.#posts.map((post) => post.close("hurry")))
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

  async #askAll(asked: unknown): Promise<string> {
    const question = checked(Question, asked)
    const told = await Promise.all(this.#posts.map(({ worker }) => worker?.tell(question) ?? null))
    const texts = told.filter((text) => text !== null)
    if (question.what === "metrics") return mergeMetrics(texts)
    return JSON.stringify(texts.flatMap((text) => JSON.parse(text)))
  }
}

/**
 * Takes the address for a moment as the only one: sockets that are to share a port do not refuse one another, so a second
 * gateway would go unnoticed. The port, or the sentence why there is none.
 */
async function findPort(address: Listening): Promise<number> {
  const probe = new Server({ handle: () => new Response(null, { status: 503 }) }, address)
  const found = probe.port
  await probe.close()
  return found
}
