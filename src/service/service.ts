import { Catalog, termsOf } from "../admission/catalog.ts"
import { InFlight } from "../admission/in-flight.ts"
import { KeyLoads } from "../admission/key-loads.ts"
import { defaultMemoryBytes, Memory } from "../admission/memory.ts"
import type { AdminAddress, Config } from "../config/config.ts"
import type { PushedMetrics } from "../config/pushed-metrics.ts"
import type { Tracing } from "../config/tracing.ts"
import { deliveriesTo } from "../events/deliveries.ts"
import { watchTroubles } from "../events/trouble-watch.ts"
import { databaseAnswer } from "../ledger/database/database.ts"
import { type Ledger, openLedger } from "../ledger/ledger.ts"
import type { ShardDatabase } from "../ledger/shards.ts"
import type { Log } from "../log.ts"
import { createMetrics, type Metrics } from "../metrics/metrics.ts"
import { UsageWarnings } from "../metrics/usage-warnings.ts"
import { identityProvider } from "../oidc/identity-provider.ts"
import { RepeatedRefusals } from "../routes/repeated-refusals.ts"
import { checkpoint } from "../settlement/settle.ts"
import { CircuitBreakers, troublesOf, upstreamStatuses } from "../upstream/circuit-breakers.ts"
import { HiddenOutput } from "../upstream/hidden-output.ts"
import type { OneOrMore } from "../wire/list.ts"
import type { UpstreamBody } from "../wire/statistics.ts"
import { type Audience, createApp, type Operators, operatorPaths } from "./app.ts"
import type { Gateway } from "./gateway.ts"
import { ADMIN_SETTINGS, type Listening, SETTINGS, Server } from "./server.ts"
import { shutdownOf } from "./shutdown.ts"

/** For a process that shares its port with others: its number, and how to ask all of them. */
interface WorkerContext {
  readonly number: number
  /** The metrics of all workers, as `/metrics` shows them. */
  printAll(): Promise<string>
  upstreamStatusesOfAll(): Promise<readonly UpstreamBody[]>
}

async function* fromAll({ printAll }: WorkerContext) {
  yield await printAll()
}

interface ServiceOptions {
  readonly config: Config
  /** The databases of the ledger (D74); mostly one. */
  readonly shards: OneOrMore<ShardDatabase>
  /** Holds the spools: ends that the database has not taken yet (D27). */
  readonly data_dir: string
  readonly admin_token: string | null
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** The separate listener for operators; null if they share the clients' (D39). */
  readonly admin: AdminAddress | null
  readonly log: Log
  /** Null when no traces are kept (D54). */
  readonly tracing: Tracing | null
  /** Null when metrics are not pushed (D108). */
  readonly pushed_metrics: PushedMetrics | null
  /** Absent when this process is the only one. */
  readonly worker?: WorkerContext
  /** Closes the database, and the server that runs it, once everything is settled. */
  closeAfter(): Promise<void>
  exit(code: number): void
}

/** One gateway process: its ledger, routes, server and shutdown. */
export type Service = Awaited<ReturnType<typeof openService>>

/** Rejects, with nothing left open, if the database cannot be reached or the address is in use. */
export async function openService(options: ServiceOptions) {
  const { config, log } = options
  const metrics = createMetrics(options.worker?.number)
  const telemetry = await telemetryOf(options, metrics)
  const in_flight = new InFlight()
  let service: ReturnType<typeof serve> | undefined
  const ledger = await openLedger({
    databases: options.shards,
    data_dir: options.data_dir,
    lease: config.lease,
    keep_months: config.journal.keep_months,
    log,
    checkpoints: (shard) => checkpointsOf(in_flight, shard),
    events: { ...metrics, promoted: (shard) => service?.forgetSold(shard) },
  })
  try {
    const catalog = await catalogOf(ledger, config)
    service = serve(options, ledger, catalog, in_flight, metrics, telemetry)
    return service
  } catch (error) {
    await ledger.stop()
    throw error
  }
}

function serve(
  options: ServiceOptions,
  ledger: Ledger,
  catalog: Catalog,
  in_flight: InFlight,
  metrics: Metrics,
  { tracer, push }: Awaited<ReturnType<typeof telemetryOf>>,
) {
  const { config, admin_token, log, worker } = options
  const gateway: { -readonly [Part in keyof Gateway]: Gateway[Part] } = {
    config,
    catalog,
    ledger,
    reports: ledger.reports,
    breakers: new CircuitBreakers(),
    hidden_output: new HiddenOutput(),
    usage_warnings: new UsageWarnings(),
    in_flight,
    key_loads: new KeyLoads(metrics.keyLimited),
    memory: new Memory(defaultMemoryBytes(config.workers)),
    metrics: worker === undefined ? metrics : { ...metrics, parts: () => fromAll(worker) },
    log,
    tracer,
    get sockets() {
      return server.sockets
    },
    notReady: () => {
      if (shutdown.begun) return "draining"
      return ledger.writable() ? null : "the ledger cannot be written"
    },
  }
  const statuses = () => upstreamStatuses(gateway.config, gateway.breakers, worker?.number ?? null)
  const operators = {
    admin_token,
    ledger: ledger.operators,
    get limits() {
      return gateway.config.limits
    },
    get models() {
      return gateway.config.models
    },
    memory: gateway.memory,
    upstreams: async () => (worker === undefined ? statuses() : await worker.upstreamStatusesOfAll()),
    draining: () => shutdown.begun,
    addressOf: (request: Request) => (admin_server ?? server).addressOf(request),
    senderOf: (request: Request) => (admin_server ?? server).sockets.address(request),
    identity_provider: config.oidc === null ? null : identityProvider(config.oidc),
    signInFailed: (reason: string) => log.warn({ reason }, "a sign-in by the OpenID provider failed"),
    onChange: metrics.changed,
    onAudit: metrics.audited,
    onReconciliation: metrics.reconciled,
  }
  /** Null when operators share the clients' listener. */
  const { server, admin_server } = listen(gateway, operators, options)
  const deliveries = deliveriesTo({ queues: ledger.sinks, log, sent: metrics.eventSent })
  const [home] = ledger.sinks
  const troubles = watchTroubles(
    () => troublesOf(gateway.config, gateway.breakers),
    async (seen) => home?.troubles(seen),
  )
  const shutdown = shutdownOf({
    server,
    admin_server,
    in_flight,
    log,
    limits: () => gateway.config.shutdown,
    closeLedger: async () => {
      await Promise.all([deliveries.stop(), troubles.stop()])
      await ledger.stop()
      // In parallel: an unreachable trace collector must not keep the database running.
      await Promise.all([tracer?.stop(), push?.stop(), options.closeAfter()])
    },
    exit: options.exit,
  })
  metrics.watchCalls(() => openCalls(in_flight))
  metrics.watchDepths(() => ledger.depths())
  if (ledger.writableShards().length > 0) metrics.watchShards(() => ledger.writableShards())
  metrics.watchReady(() => gateway.notReady() === null)
  metrics.watchBreakers(() =>
    gateway.config.upstreams.map(({ name }) => [name, !gateway.breakers.admits(name)] as const),
  )
  metrics.watchSinks(() => deliveries.lags())
  return {
    server,
    admin_server,
    shutdown,
    printMetrics: metrics.print,
    upstreamStatuses: statuses,
    /** Uses a new configuration for new calls. Rejects, unchanged, if its terms are not registered (D56). */
    async reload(config: Config): Promise<void> {
      const catalog = await databaseAnswer(catalogOf(ledger, config))
      gateway.config = config
      gateway.catalog = catalog
    },
    /** Forgets the ids of terms of customer prices in a shard whose database may have lost them (D100). */
    forgetSold: (shard: number) => gateway.catalog.forgetAllSold(shard),
  }
}

/** The models of a configuration, with the ids of their terms in each shard (D56). */
async function catalogOf(ledger: Ledger, { models }: Config): Promise<Catalog> {
  return new Catalog(models, await ledger.terms(termsOf(models)))
}

/** The exporters of traces and metrics, which are loaded only when they are configured. */
async function telemetryOf(
  { tracing, pushed_metrics: pushed, log, worker: context }: ServiceOptions,
  metrics: Metrics,
) {
  const worker = context?.number ?? null
  const tracer =
    tracing &&
    (await import("../traces/tracer.ts")).otlpTracer({
      tracing,
      worker,
      exported: metrics.spansExported,
      dropped: metrics.spansDropped,
      failing: (reason) =>
        log.warn({ reason }, "trace export is failing: the collector is unreachable or refuses the spans"),
      recovered: () => log.info("trace export is working again"),
    })
  const push =
    pushed &&
    (await import("../traces/metrics-push.ts")).pushMetrics({
      pushed,
      worker,
      families: metrics.families,
      failing: (reason) =>
        log.warn({ reason }, "metrics cannot be pushed: the collector is unreachable or refuses them"),
      recovered: () => log.info("metrics are pushed again"),
    })
  return { tracer, push }
}

/** Opens one listener for everyone, or a second one for operators (D39). */
function listen(gateway: Gateway, operators: Operators, options: ServiceOptions) {
  const { host, port, admin, log } = options
  const shared = options.worker !== undefined
  const open = (audience: Audience, address: Listening) => {
    const repeated = new RepeatedRefusals()
    const app = createApp(gateway, operators, audience, repeated)
    const handle = (request: Request) => repeated.answer(request) ?? app.handle(request)
    return new Server({ handle }, { ...address, literal: operatorPaths(app) })
  }
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

/** The checkpoints of the running calls of a shard that have something to charge (D57). */
function checkpointsOf(in_flight: InFlight, shard: number) {
  return in_flight
    .calls()
    .filter((call) => call.shard === shard)
    .map(checkpoint)
    .filter((known) => known !== null)
}

function openCalls(in_flight: InFlight) {
  const calls = in_flight.calls()
  return { count: calls.length, held_nano: calls.reduce((sum, call) => sum + call.hold.amount_nano, 0n) }
}
