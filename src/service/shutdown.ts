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
export function shutdownOf({
  server,
  admin_server,
  in_flight,
  log,
  limits,
  closeLedger,
  exit,
}: ShutdownOptions) {
  let signals = 0
  let began_ms = 0
  let finished_before = 0
  let closed: Promise<void> | null = null

  /** Ends the process even if the shutdown fails. */
  function exitOnFailure(ending: Promise<void>): void {
    ending.catch((error: unknown) => {
      log.error({ err: error }, "shutdown failed")
      exit(1)
    })
  }

  async function drain(): Promise<void> {
    const { ready_delay_ms, drain_ms } = limits()
    began_ms = performance.now()
    finished_before = in_flight.ended.finished
    log.info(
      { calls: in_flight.size },
      "draining: waiting for calls in progress; a second signal stops them immediately",
    )
    server.announceClose()
    await Bun.sleep(ready_delay_ms)
    server.refuseConnections()
    await Promise.race([answered(), Bun.sleep(drain_ms)])
    if (signals > 1) return
    in_flight.cut()
    await in_flight.idle()
    await Promise.race([answered(), Bun.sleep(FLUSH_MS)])
    await server.close()
    await closeToOperators()
    await close()
    if (signals > 1) return
    logCompletion("drained")
    exit(0)
  }

  /** Resolves when no call runs and every answer is sent. */
  async function answered(): Promise<void> {
    await in_flight.idle()
    await allSent(server)
  }

  /** Answers the requests of operators that are open, for at most `FLUSH_MS`, and closes their listener. */
  async function closeToOperators(): Promise<void> {
    if (admin_server === null) return
    admin_server.refuseConnections()
    await Promise.race([allSent(admin_server), Bun.sleep(FLUSH_MS)])
    await admin_server.close()
  }

  async function forceStop(): Promise<void> {
    server.refuseConnections()
    admin_server?.refuseConnections()
    in_flight.cut()
    await Promise.race([in_flight.idle().then(close), Bun.sleep(FORCE_MS)])
    logCompletion("shutdown completed early after a second signal")
    exit(1)
  }

  function logCompletion(what: string): void {
    const { finished, cut } = in_flight.ended
    const duration_ms = Math.round(performance.now() - began_ms)
    log.info({ calls_finished: finished - finished_before, calls_cut: cut, duration_ms }, what)
  }

  function close(): Promise<void> {
    closed ??= closeLedger()
    return closed
  }

  return {
    get begun() {
      return signals > 0
    },
    signal(): void {
      signals += 1
      if (signals === 1) exitOnFailure(drain())
      else if (signals === 2) exitOnFailure(forceStop())
    },
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
