import { Catalog, termsOf } from "./admission/catalog.ts"
import { InFlight } from "./admission/in-flight.ts"
import { KeyLoads } from "./admission/key-loads.ts"
import { type Audience, createApp, type Operators } from "./app.ts"
import { answerOf } from "./books.ts"
import type { Config } from "./config/config.ts"
import type { Tracing } from "./config/tracing.ts"
import type { Gateway } from "./gateway.ts"
import type { Database } from "./ledger/database/database.ts"
import { Ledger } from "./ledger/ledger.ts"
import { openClientReports } from "./ledger/reports/client.ts"
import type { Log } from "./log.ts"
import { createMetrics, type Metrics } from "./metrics/metrics.ts"
import { ADMIN_SETTINGS, type Listening, SETTINGS, Server } from "./server.ts"
import { checkpoint } from "./settlement/settle.ts"
import { Shutdown } from "./shutdown.ts"
import type { Tracer } from "./trace.ts"
import { CircuitBreakers, upstreamStatuses } from "./upstream/circuit-breakers.ts"
import type { UpstreamBody } from "./wire/upstreams.ts"

/** How long an operator waits for a database that stays silent: as long as a call does (D27). */
const OPERATOR_DEADLINE_MS = 2_000
/** How long an operator waits for sums, which keep the database busy for 8 s at most (D48). */
const SUMS_DEADLINE_MS = 10_000
/** How long an audit may take: less than a connection may be silent. */
const AUDIT_DEADLINE_MS = 55_000

/** For a process that shares its port with others: its number, and how to ask all of them. */
export interface WorkerContext {
  readonly number: number
  /** The metrics of all workers, as `/metrics` shows them. */
  printAll(): Promise<string>
  /** The statuses of the upstreams in every worker. */
  upstreamStatusesOfAll(): Promise<readonly UpstreamBody[]>
}

export interface ServiceOptions {
  readonly config: Config
  readonly database: Database
  /** Where closings are spooled that the books cannot take (D27). */
  readonly data_dir: string
  readonly admin_token: string | null
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** Where operators are served apart from the clients, if they are (D39). */
  readonly admin: Config["admin"]
  readonly log: Log
  /** Null when no traces are kept (D54). */
  readonly tracing: Tracing | null
  /** Absent when this process is the only one. */
  readonly worker?: WorkerContext
  /** What is to be closed after the books, once everything is settled: the database, and what runs it. */
  closeAfter(): Promise<void>
  exit(code: number): void
}

/** One gateway process, put together: the books, the routes, the server, and how it ends. */
export class Service {
  readonly server: Server
  /** Null when operators are served where clients are. */
  readonly admin_server: Server | null
  readonly shutdown: Shutdown
  /** The metrics of this process alone. */
  readonly printMetrics: () => Promise<string>
  /** The statuses of the upstreams in this process. */
  readonly upstreamStatuses: () => readonly UpstreamBody[]
  readonly #ledger: Ledger
  readonly #gateway: { -readonly [Part in keyof Gateway]: Gateway[Part] }

  /** Rejects, with nothing left open, when the books cannot be reached or the address is taken. */
  static async open(options: ServiceOptions): Promise<Service> {
    const metrics = createMetrics(options.worker?.number)
    const tracer = options.tracing === null ? null : await tracerFor(options.tracing, options, metrics)
    const in_flight = new InFlight()
    const ledger = await Ledger.open({
      database: options.database,
      data_dir: options.data_dir,
      lease: options.config.lease,
      log: options.log,
      checkpoints: () => checkpointsOf(in_flight),
      events: {
        statement: metrics.statement,
        expired: metrics.expired,
        spooled: metrics.spooled,
        endIgnored: metrics.endIgnored,
      },
    })
    try {
      const catalog = await catalogOf(ledger, options.config)
      return new Service(options, ledger, catalog, in_flight, metrics, tracer)
    } catch (error) {
      await ledger.stop()
      throw error
    }
  }

  private constructor(
    options: ServiceOptions,
    ledger: Ledger,
    catalog: Catalog,
    in_flight: InFlight,
    metrics: Metrics,
    tracer: Tracer | null,
  ) {
    const { config, database, admin_token, log, worker } = options
    this.#ledger = ledger
    this.printMetrics = metrics.print
    this.#gateway = {
      config,
      catalog,
      ledger,
      reports: openClientReports(database.receipts, database.sums),
      breakers: new CircuitBreakers(),
      in_flight,
      key_loads: new KeyLoads(metrics.keyLimited),
      metrics: worker === undefined ? metrics : { ...metrics, print: () => worker.printAll() },
      log,
      tracer,
      sockets: {
        keepOpen: (request) => this.server.sockets.keepOpen(request),
        restore: (request) => this.server.sockets.restore(request),
        cut: (request) => this.server.sockets.cut(request),
      },
      notReady: () => {
        if (this.shutdown.begun) return "draining"
        return ledger.writable() ? null : "the ledger cannot be written"
      },
    }
    metrics.watchCalls(() => openCalls(in_flight))
    metrics.watchDepths(() => ledger.depths())
    const gateway = this.#gateway
    metrics.watchReady(() => gateway.notReady() === null)
    metrics.watchBreakers(() =>
      gateway.config.upstreams.map(({ name }) => [name, !gateway.breakers.admits(name)] as const),
    )
    this.upstreamStatuses = () => upstreamStatuses(gateway.config, gateway.breakers, worker?.number ?? null)
    const operators = {
      admin_token,
      database: database.operators,
      get limits() {
        return gateway.config.limits
      },
      deadline_ms: OPERATOR_DEADLINE_MS,
      sums_deadline_ms: SUMS_DEADLINE_MS,
      audit_deadline_ms: AUDIT_DEADLINE_MS,
      upstreams: async () =>
        worker === undefined ? this.upstreamStatuses() : await worker.upstreamStatusesOfAll(),
      unheld: () => ledger.unheld(),
      onAudit: metrics.audited,
    }
    const { server, admin_server } = listen(this.#gateway, operators, options)
    this.server = server
    this.admin_server = admin_server
    this.shutdown = new Shutdown({
      server: this.server,
      admin_server: this.admin_server,
      in_flight,
      log,
      limits: () => this.#gateway.config.shutdown,
      closeLedger: async () => {
        await ledger.stop()
        // Neither waits for the other: a collector that is away keeps no database running.
        await Promise.all([tracer?.stop(), options.closeAfter()])
      },
      exit: options.exit,
    })
  }

  /**
   * Takes a new configuration; calls in flight keep what they were admitted with. Rejects with a sentence, and changes
   * nothing, without a database (D56).
   */
  async reload(config: Config): Promise<void> {
    const catalog = await answerOf(catalogOf(this.#ledger, config))
    this.#gateway.config = config
    this.#gateway.catalog = catalog
  }
}

/** The models of a configuration with the ledger's numbers of their terms (D56). */
async function catalogOf(ledger: Ledger, { models }: Config): Promise<Catalog> {
  return new Catalog(models, await ledger.terms(termsOf(models)))
}

/** What keeps traces is only loaded where somebody wants them. */
async function tracerFor(
  tracing: Tracing,
  { log, worker }: Pick<ServiceOptions, "log" | "worker">,
  metrics: Metrics,
): Promise<Tracer> {
  const { openTracer } = await import("./traces/tracer.ts")
  return openTracer({
    tracing,
    worker: worker?.number ?? null,
    exported: metrics.spansExported,
    dropped: metrics.spansDropped,
    failing: (reason) =>
      log.warn({ reason }, "trace export is failing: the collector is unreachable or rejects the spans"),
    recovered: () => log.info("trace export is working again"),
  })
}

/** Listens for everyone at one address, or for operators at one of their own (D39). */
function listen(gateway: Gateway, operators: Operators, options: ServiceOptions) {
  const { host, port, admin, log } = options
  const shared = options.worker !== undefined
  const open = (audience: Audience, address: Listening) =>
    new Server(createApp(gateway, operators, audience), address)
  const address = { host, port, shared, settings: SETTINGS }
  if (admin === null) return { server: open("everyone", address), admin_server: null }
  const admin_server = open("operators", { ...admin, shared, settings: ADMIN_SETTINGS })
  try {
    const server = open("clients", address)
    log.info(
      { host: admin.host, port: admin_server.port },
      "the admin listener is separate from the client listener",
    )
    return { server, admin_server }
  } catch (error) {
    void admin_server.close()
    throw error
  }
}

/** What every running call would be charged now that has something to charge (D57). */
function checkpointsOf(in_flight: InFlight) {
  return in_flight
    .calls()
    .map(checkpoint)
    .filter((known) => known !== null)
}

function openCalls(in_flight: InFlight) {
  const calls = in_flight.calls()
  return { count: calls.length, held_nano: calls.reduce((sum, call) => sum + call.hold.amount_nano, 0n) }
}
