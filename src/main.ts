import { resolve } from "node:path"
import { checkExposure, type Environment, readEnvironment } from "./config/environment.ts"
import { type Loaded, takeSnapshot } from "./config/load.ts"
import { removeDemoAccess, writeDemoAccess } from "./demo/access.ts"
import { demoAccount } from "./demo/account.ts"
import { demoConfig } from "./demo/demo-config.ts"
import { startDemoProvider } from "./demo/provider.ts"
import { startEmbedded } from "./embedded/embedded.ts"
import { lockFolder, makeDataDir } from "./embedded/lock.ts"
import { MAIN, openShards } from "./ledger/shards.ts"
import { type Log, openLog } from "./log.ts"
import { openService, type Service } from "./service/service.ts"
import { listenForSignals } from "./service/shutdown.ts"
import { addressOf, type BannerFacts, banner, USUAL_DATA_DIR } from "./start/banner.ts"
import { painter } from "./start/paint.ts"
import { reloadsOf } from "./start/reloads.ts"
import { configPath, configuredShards, readConfig, readWorkers, sourcesWith } from "./start/setup.ts"
import { startWorkers } from "./workers/supervisor.ts"

/** The number of calls of `fetch` that the runtime makes at a time. It reads this at its own start, so it cannot be set here. */
const FETCH_LIMIT = "BUN_CONFIG_MAX_HTTP_REQUESTS"

const sources = sourcesWith(process.env)

interface RunningGateway {
  readonly port: number
  /** SIGTERM or SIGINT (D34). */
  signal(): void
  reload(loaded: Loaded): Promise<void>
}

try {
  await start()
} catch (error) {
  console.error(`tollgate: ${messageOf(error)}`)
  process.exit(1)
}

/** A failed start closes what it has opened: no Postgres, no lock and no lease is left. */
async function start(): Promise<void> {
  const workers = readWorkers(process.argv.slice(2))
  const environment = readEnvironment(sources)
  const log = openLog(environment.log_level)
  const forwardSignals = listenForSignals()
  process.on("unhandledRejection", (error) =>
    log.error({ err: error }, "unhandled error: the gateway keeps running"),
  )
  const closing = new AsyncDisposableStack()
  try {
    forwardSignals(await open(environment, workers, log, closing))
  } catch (error) {
    await closing.disposeAsync()
    throw error
  }
}

/** Opens the gateway. `closing` gets everything to close after it. */
async function open(
  environment: Environment,
  workers: number | null,
  log: Log,
  closing: AsyncDisposableStack,
) {
  const { host, port, data_dir, database_url, log_level, tracing, pushed_metrics } = environment
  const path = configPath(environment)
  const demo = path === null ? await startDemoProvider() : null
  closing.defer(() => demo?.stop())
  const load = () =>
    path === null ? takeSnapshot(demoConfig(demo?.url ?? ""), sources) : readConfig(path, sources)
  const loaded = load()
  const { admin } = loaded.config
  const admin_token =
    environment.admin_token ?? (demo === null ? null : `tg_admin_${crypto.randomUUID().replaceAll("-", "")}`)
  checkExposure({ host, port, admin, admin_token })

  const configured = configuredShards(environment, loaded.config)
  const is_external = database_url !== null || configured.length > 0
  const embedded = !is_external ? await startEmbedded({ data_dir, log }) : null
  closing.defer(embedded === null ? takeFolder(data_dir) : () => embedded.stop())
  if (embedded !== null) {
    // Left by a demo that was killed.
    await removeDemoAccess(data_dir)
    closing.defer(() => removeDemoAccess(data_dir))
  }
  const only = { name: MAIN, open: true, address: embedded?.address ?? { url: database_url ?? "" } }
  const addresses = configured.length > 0 ? configured : [only]
  const shards = await openShards(addresses)
  for (const { database } of shards) closing.defer(() => database.close())
  const key = demo === null ? null : await demoAccount(shards[0].database.operators, data_dir)
  const common = { data_dir, admin_token, host, port, admin, tracing, pushed_metrics }
  const ending = { log, closeAfter: () => closing.disposeAsync(), exit: process.exit }
  const size = workers ?? loaded.config.workers
  const gateway =
    size === 1
      ? alone(await openService({ ...common, ...ending, config: loaded.config, shards }))
      : await startWorkers({
          ...ending,
          size,
          assignment: { ...common, shards: [...addresses], log_level, snapshot: loaded.snapshot },
        })

  const { env } = sources
  const apply = (next: Loaded) => gateway.reload(next)
  const reloads = path === null ? null : reloadsOf({ started: loaded, env, log, load, apply })
  reloads?.watch()
  const made_token = demo !== null && environment.admin_token === null
  if (made_token && admin_token !== null) {
    await writeDemoAccess(data_dir, { url: addressOf(host, gateway.port), admin_token })
  }
  const shown = host.includes(":") ? `[${host}]` : host
  console.log(`tollgate listening on http://${shown}:${gateway.port} (pid ${process.pid})`)
  if (loaded.config.upstreams.some(({ transport }) => transport === "fetch") && !sources.env[FETCH_LIMIT]) {
    log.warn(
      `${FETCH_LIMIT} is not set: at most 256 calls at a time use the transport fetch, and others wait (D59)`,
    )
  }
  if (admin_token === null) log.info("/admin is disabled: TOLLGATE_ADMIN_TOKEN is not set")
  const model = loaded.config.models.find(({ operations }) => operations.includes("chat"))?.name ?? null
  const made = key === null ? null : { key, made_token, data_dir: dataDirFrom(data_dir) }
  announce({ host, port: gateway.port, admin, admin_token, model, command: commandLine(), demo: made })
  return {
    signal: () => gateway.signal(),
    reload() {
      if (reloads === null) log.warn("nothing was reloaded: the demo has no configuration file")
      else void reloads.reload()
    },
  }
}

/** Locks the data directory, as the embedded database would. Returns the function that unlocks it. */
function takeFolder(data_dir: string): () => void {
  return lockFolder(makeDataDir(data_dir))
}

/** Prints the start message; of a configured gateway only in a terminal, because programs read its output. */
function announce(facts: BannerFacts): void {
  const { isTTY } = process.stdout
  if (facts.demo !== null || isTTY) console.log(banner(facts, painter(isTTY, process.env)))
}

function commandLine(): string {
  return process.execPath.includes("/_npx/") ? `npx -y bun@${Bun.version} run tollgate` : "bun run tollgate"
}

/** The default stays relative; any other is absolute, so that it works in every working directory. */
function dataDirFrom(data_dir: string): string {
  return data_dir === USUAL_DATA_DIR ? data_dir : resolve(data_dir)
}

function alone(service: Service): RunningGateway {
  return {
    port: service.server.port,
    signal: () => service.shutdown.signal(),
    reload: ({ config }) => service.reload(config),
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
