import { Catalog } from "./admission/catalog.ts"
import { InFlight } from "./admission/in-flight.ts"
import { KeyLoads } from "./admission/key-loads.ts"
import { type Audience, createApp, type Operators } from "./app.ts"
import type { Config } from "./config/config.ts"
import type { Tracing } from "./config/tracing.ts"
import type { Gateway } from "./gateway.ts"
import type { Database } from "./ledger/database.ts"
import { openJournal } from "./ledger/journal.ts"
import { Ledger } from "./ledger/ledger.ts"
import type { Log } from "./log.ts"
import { createMetrics, type Metrics } from "./metrics/metrics.ts"
import { ADMIN_SETTINGS, type Listening, SETTINGS, Server } from "./server.ts"
import { checkpoint } from "./settlement/settle.ts"
import { Shutdown } from "./shutdown.ts"
import type { Tracer } from "./trace.ts"
import { Health } from "./upstream/health.ts"
import { standings } from "./upstream/standings.ts"
import type { UpstreamBody } from "./wire/upstreams.ts"

/** How long an operator's query of the books may take. */
const OPERATOR_DEADLINE_MS = 10_000

/** A process among several that share a port. */
export interface Worker {
  readonly number: number
  /** The metrics of all of them, as `/metrics` shows them. */
  printAll(): Promise<string>
  /** How the upstreams do, as each of them finds it. */
  standingsOfAll(): Promise<readonly UpstreamBody[]>
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
  /** Left out where this process is alone. */
  readonly worker?: Worker
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
  /** How the upstreams do, as this process finds it. */
  readonly standings: () => readonly UpstreamBody[]
  readonly #gateway: { -readonly [Part in keyof Gateway]: Gateway[Part] }

  /** Rejects, with nothing left open, when the books cannot be reached or the address is taken. */
  static async open(options: ServiceOptions): Promise<Service> {
    const metrics = createMetrics(options.worker?.number)
    const tracer = options.tracing === null ? null : await tracerFor(options.tracing, options, metrics)
    const in_flight = new InFlight()
    const books = await Ledger.open({
      database: options.database,
      data_dir: options.data_dir,
      lease: options.config.lease,
      log: options.log,
      checkpoints: () => checkpointsOf(in_flight, options.config.lease.renew_ms),
      events: {
        statement: metrics.statement,
        expired: metrics.expired,
        spooled: metrics.spooled,
        closingIgnored: metrics.closingIgnored,
      },
    })
    try {
      return new Service(options, books, in_flight, metrics, tracer)
    } catch (error) {
      await books.stop()
      throw error
    }
  }

  private constructor(
    options: ServiceOptions,
    books: Ledger,
    in_flight: InFlight,
    metrics: Metrics,
    tracer: Tracer | null,
  ) {
    const { config, database, admin_token, log, worker } = options
    this.printMetrics = metrics.print
    this.#gateway = {
      config,
      catalog: new Catalog(config.models),
      books,
      journal: openJournal(database.receipts, database.sums),
      health: new Health(),
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
        return books.writable() ? null : "the books cannot be written"
      },
    }
    metrics.watchCalls(() => openCalls(in_flight))
    metrics.watchDepths(() => books.depths())
    const gateway = this.#gateway
    metrics.watchReady(() => gateway.notReady() === null)
    metrics.watchBreakers(() =>
      gateway.config.upstreams.map(({ name }) => [name, !gateway.health.admits(name)] as const),
    )
    this.standings = () => standings(gateway.config, gateway.health, worker?.number ?? null)
    const operators = {
      admin_token,
      database: database.operators,
      get limits() {
        return gateway.config.limits
      },
      deadline_ms: OPERATOR_DEADLINE_MS,
      upstreams: async () => (worker === undefined ? this.standings() : await worker.standingsOfAll()),
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
      closeBooks: async () => {
        await books.stop()
        // Neither waits for the other: a collector that is away keeps no database running.
        await Promise.all([tracer?.stop(), options.closeAfter()])
      },
      exit: options.exit,
    })
  }

  /** Takes a new configuration; calls in flight keep what they were admitted with. */
  reload(config: Config): void {
    this.#gateway.config = config
    this.#gateway.catalog = new Catalog(config.models)
  }
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
    failing: (reason) => log.warn({ reason }, "spans are not exported: the collector does not take them"),
    recovered: () => log.info("spans are exported again"),
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
    log.info({ host: admin.host, port: admin_server.port }, "operators are served apart from clients")
    return { server, admin_server }
  } catch (error) {
    void admin_server.close()
    throw error
  }
}

/** The calls that live through a renewal, and what each would be charged now (D13). */
function checkpointsOf(in_flight: InFlight, renew_ms: number) {
  const before_ms = performance.now() - renew_ms
  return in_flight
    .calls()
    .filter((call) => call.admitted_ms <= before_ms)
    .map(checkpoint)
    .filter((known) => known !== null)
}

function openCalls(in_flight: InFlight) {
  const calls = in_flight.calls()
  return { count: calls.length, held_nano: calls.reduce((sum, call) => sum + call.hold.amount_nano, 0n) }
}
