import type { Logger } from "pino"
import type { InFlight } from "../admission/in-flight.ts"
import type { Config } from "../config/config.ts"
import type { Server } from "./server.ts"

/** The time limit for sending the last bytes of cut and settled answers. */
const FLUSH_MS = 1_000
/** The interval of the check that the last answers are sent. */
const POLL_MS = 10
/** The wait of a second signal for the cut calls' settlements to be written or spooled. */
const FORCE_MS = 1_500

interface ShutdownOptions {
  readonly server: Server
  /** The listener of operators, which is open until no call runs; null if they share the public one (D39). */
  readonly admin_server: Server | null
  readonly in_flight: InFlight
  readonly log: Logger
  /** Read when the shutdown begins: a reload may have changed it. */
  limits(): Config["shutdown"]
  /** Closes the ledger. What is not durable yet is in the spool. */
  closeLedger(): Promise<void>
  exit(code: number): void
}

/**
 * D34. The first signal drains: not ready, `connection: close`, new calls still served for `ready_delay`, then no new
 * connections; streams end by themselves until `drain`, then they are cut and settled; exit 0. A second one refuses
 * connections and cuts immediately; exit 1.
 */
export class Shutdown {
  readonly #options: ShutdownOptions
  #signals = 0
  #began_ms = 0
  #finished_before = 0
  #closed: Promise<void> | null = null

  constructor(options: ShutdownOptions) {
    this.#options = options
  }

  get begun(): boolean {
    return this.#signals > 0
  }

  get #is_forced(): boolean {
    return this.#signals > 1
  }

  signal(): void {
    this.#signals += 1
    if (this.#signals === 1) this.#exitOnFailure(this.#drain())
    else if (this.#signals === 2) this.#exitOnFailure(this.#forceStop())
  }

  /** Ends the process even if the shutdown fails. */
  #exitOnFailure(ending: Promise<void>): void {
    ending.catch((error: unknown) => {
      this.#options.log.error({ err: error }, "shutdown failed")
      this.#options.exit(1)
    })
  }

  async #drain(): Promise<void> {
    const { server, in_flight, log, exit } = this.#options
    const { ready_delay_ms, drain_ms } = this.#options.limits()
    this.#began_ms = performance.now()
    this.#finished_before = in_flight.ended.finished
    log.info(
      { calls: in_flight.size },
      "draining: waiting for calls in progress; a second signal stops them immediately",
    )
    server.announceClose()
    await Bun.sleep(ready_delay_ms)
    server.refuseConnections()
    await Promise.race([this.#answered(), Bun.sleep(drain_ms)])
    if (this.#is_forced) return
    this.#cut()
    await in_flight.idle()
    await Promise.race([this.#answered(), Bun.sleep(FLUSH_MS)])
    await server.close()
    await this.#closeToOperators()
    await this.#closeLedger()
    if (this.#is_forced) return
    this.#logCompletion("drained")
    exit(0)
  }

  /** Resolves when no call runs and every answer is sent. */
  async #answered(): Promise<void> {
    await this.#options.in_flight.idle()
    await allSent(this.#options.server)
  }

  /** Answers the requests of operators that are open, for at most `FLUSH_MS`, and closes their listener. */
  async #closeToOperators(): Promise<void> {
    const { admin_server } = this.#options
    if (admin_server === null) return
    admin_server.refuseConnections()
    await Promise.race([allSent(admin_server), Bun.sleep(FLUSH_MS)])
    await admin_server.close()
  }

  async #forceStop(): Promise<void> {
    this.#options.server.refuseConnections()
    this.#options.admin_server?.refuseConnections()
    this.#cut()
    const settled = this.#options.in_flight.idle().then(() => this.#closeLedger())
    await Promise.race([settled, Bun.sleep(FORCE_MS)])
    this.#logCompletion("shutdown completed early after a second signal")
    this.#options.exit(1)
  }

  #logCompletion(what: string): void {
    const { in_flight, log } = this.#options
    const { finished, cut } = in_flight.ended
    const duration_ms = Math.round(performance.now() - this.#began_ms)
    log.info({ calls_finished: finished - this.#finished_before, calls_cut: cut, duration_ms }, what)
  }

  #closeLedger(): Promise<void> {
    this.#closed ??= this.#options.closeLedger()
    return this.#closed
  }

  #cut(): void {
    this.#options.in_flight.cut()
  }
}

/** Resolves when every answer of a server is sent. Bun has no event for it, so this polls. */
async function allSent(server: Server): Promise<void> {
  while (server.pending > 0) await Bun.sleep(POLL_MS)
}

/** Ctrl-C reaches the gateway twice: from the terminal, and passed on by `bun run`. */
const SAME_SIGNAL_MS = 500

interface SignalTarget {
  /** SIGTERM or SIGINT: the first drains, a second one cuts (D34). */
  signal(): void
  /** SIGHUP: reloads the configuration. */
  reload(): void
}

/** Listens for signals. One during the start is kept for the gateway; a second one ends the process. */
export function listenForSignals(): (gateway: SignalTarget) => void {
  let gateway: SignalTarget | null = null
  let received_ms = Number.NEGATIVE_INFINITY
  let ends_early = false
  let reloads_early = false
  const end = () => {
    if (performance.now() - received_ms < SAME_SIGNAL_MS) return
    received_ms = performance.now()
    if (gateway !== null) gateway.signal()
    else if (ends_early) process.exit(1)
    else ends_early = true
  }
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, end)
  process.on("SIGHUP", () => {
    if (gateway === null) reloads_early = true
    else gateway.reload()
  })
  return (opened) => {
    gateway = opened
    if (reloads_early) gateway.reload()
    if (ends_early) gateway.signal()
  }
}
