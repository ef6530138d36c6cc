import type { Logger } from "pino"
import type { InFlight } from "./admission/in-flight.ts"
import type { Config } from "./config/config.ts"
import type { Server } from "./server.ts"

/** How long the last bytes of cut and settled answers may take to leave. */
const FLUSH_MS = 1_000
/** How often it is looked whether the last answers have left. */
const LOOK_MS = 10
/** How long a second signal waits for the cut calls' settlements to be written or spooled. */
const HURRY_MS = 1_500

export interface ShutdownOptions {
  readonly server: Server
  readonly in_flight: InFlight
  readonly log: Logger
  /** Read when the shutdown begins: a reload may have changed it. */
  limits(): Config["shutdown"]
  /** Closes the books: what is not yet durable is spooled. */
  closeBooks(): Promise<void>
  exit(code: number): void
}

/**
 * D34. The first signal drains: not ready, `connection: close`, new calls still served for `ready_delay`, then no new
 * connections; streams end by themselves until `drain`, then they are cut and settled; exit 0. A second one refuses
 * connections and cuts at once; exit 1.
 */
export class Shutdown {
  readonly #options: ShutdownOptions
  #signals = 0
  #closed: Promise<void> | null = null

  constructor(options: ShutdownOptions) {
    this.#options = options
  }

  get begun(): boolean {
    return this.#signals > 0
  }

  /** The second signal took the shutdown over. */
  get #hurried(): boolean {
    return this.#signals > 1
  }

  signal(): void {
    this.#signals += 1
    if (this.#signals === 1) this.#carryOut(this.#drain())
    else if (this.#signals === 2) this.#carryOut(this.#hurry())
  }

  /** A shutdown that fails ends the process all the same. */
  #carryOut(ending: Promise<void>): void {
    ending.catch((error: unknown) => {
      this.#options.log.error({ err: error }, "the shutdown failed")
      this.#options.exit(1)
    })
  }

  async #drain(): Promise<void> {
    const { server, in_flight, log, exit } = this.#options
    const { ready_delay_ms, drain_ms } = this.#options.limits()
    log.info({ calls: in_flight.size }, "draining; a second signal cuts what still runs")
    server.announceClose()
    await Bun.sleep(ready_delay_ms)
    server.refuseConnections()
    await Promise.race([this.#answered(), Bun.sleep(drain_ms)])
    if (this.#hurried) return
    this.#cut()
    await in_flight.idle()
    await Promise.race([this.#answered(), Bun.sleep(FLUSH_MS)])
    await server.close()
    await this.#closeBooks()
    if (!this.#hurried) exit(0)
  }

  /** Resolves when no call runs and every answer has left; Bun tells the latter only when asked. */
  async #answered(): Promise<void> {
    await this.#options.in_flight.idle()
    while (this.#options.server.pending > 0) await Bun.sleep(LOOK_MS)
  }

  async #hurry(): Promise<void> {
    this.#options.server.refuseConnections()
    this.#cut()
    const settled = this.#options.in_flight.idle().then(() => this.#closeBooks())
    await Promise.race([settled, Bun.sleep(HURRY_MS)])
    this.#options.exit(1)
  }

  #closeBooks(): Promise<void> {
    this.#closed ??= this.#options.closeBooks()
    return this.#closed
  }

  #cut(): void {
    this.#options.in_flight.cut()
  }
}
