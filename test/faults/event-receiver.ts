import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { OneOrMore } from "../../src/wire/list.ts"
import type { Random } from "./random.ts"

/** A receiver of events that fails now and then: it refuses, hangs up, or does not answer (D96). */

/** Pauses of a sink after a failure are 5 s, so failures are rare enough for it to go on between them. */
const BETWEEN_FAILURES_MS = 8_000
const FAILURES = ["refuses", "breaks", "is silent"] as const

export class EventReceiver {
  /** How often each event was taken, by its id. */
  readonly taken = new Map<string, number>()
  readonly failures: Record<(typeof FAILURES)[number], number> = { refuses: 0, breaks: 0, "is silent": 0 }
  readonly #random: Random
  readonly #ways: OneOrMore<(typeof FAILURES)[number]>
  readonly #failed = new Set<string>()
  #next_failure_ms = performance.now()
  readonly #server = createServer((request, response) => this.#answer(request, response))

  private constructor(random: Random, may_be_silent: boolean) {
    this.#random = random
    this.#ways = may_be_silent ? FAILURES : ["refuses", "breaks"]
  }

  /** Each silence costs the sink 15 s. */
  static async open(random: Random, may_be_silent: boolean): Promise<EventReceiver> {
    const receiver = new EventReceiver(random, may_be_silent)
    receiver.#server.listen(0, "127.0.0.1")
    await once(receiver.#server, "listening")
    return receiver
  }

  get url(): string {
    const address = this.#server.address()
    return typeof address === "object" && address !== null ? `http://127.0.0.1:${address.port}/` : ""
  }

  /** From now on it takes everything. */
  mend(): void {
    this.#next_failure_ms = Number.POSITIVE_INFINITY
  }

  stop(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const id = String(request.headers["webhook-id"])
    // An event is failed once: after a second failure in a row the sink pauses for minutes.
    if (performance.now() < this.#next_failure_ms || this.#failed.has(id)) {
      request.resume().on("end", () => {
        this.taken.set(id, (this.taken.get(id) ?? 0) + 1)
        response.end()
      })
      return
    }
    this.#failed.add(id)
    this.#next_failure_ms = performance.now() + BETWEEN_FAILURES_MS
    const way = this.#random.pick(this.#ways)
    this.failures[way] += 1
    if (way === "breaks") request.socket.destroy()
    else if (way === "refuses") response.writeHead(503).end()
  }
}
