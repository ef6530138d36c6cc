import { existsSync, readFileSync } from "node:fs"
import { openBooks } from "./books.ts"
import { readWorkers } from "./config/arguments.ts"
import { type Environment, readEnvironment } from "./config/environment.ts"
import { ConfigError } from "./config/error.ts"
import { checkExposure } from "./config/exposure.ts"
import { needRestart } from "./config/restart.ts"
import { type Loaded, takeSnapshot } from "./config/snapshot.ts"
import { demoAccount } from "./demo/account.ts"
import { demoBanner } from "./demo/banner.ts"
import { demoConfig } from "./demo/config.ts"
import { startDemoProvider } from "./demo/provider.ts"
import { startEmbedded } from "./ledger/embedded.ts"
import { type Log, openLog } from "./log.ts"
import { Service } from "./service.ts"
import { hearSignals } from "./signals.ts"
import { Crew } from "./workers/crew.ts"

const DEFAULT_CONFIG = "tollgate.yaml"
const sources = { env: process.env, readFile: (path: string) => readFileSync(path, "utf8") }

/** What serves: this process, or its workers. */
interface Gateway {
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

/** What a start that fails has opened is closed again: no Postgres, no lock and no lease outlive it. */
async function start(): Promise<void> {
  requireLauncher()
  const workers = readWorkers(process.argv.slice(2))
  const environment = readEnvironment(sources)
  const log = openLog(environment.log_level)
  const attend = hearSignals()
  process.on("unhandledRejection", (error) => log.error({ err: error }, "a fault of the gateway; it goes on"))
  const closing = new AsyncDisposableStack()
  try {
    attend(await open(environment, workers, log, closing))
  } catch (error) {
    await closing.disposeAsync()
    throw error
  }
}

/** Opens the gateway, for the signals; `closing` gets what is to be closed after it. */
async function open(
  environment: Environment,
  workers: number | null,
  log: Log,
  closing: AsyncDisposableStack,
) {
  const { host, port, data_dir, database_url, log_level } = environment
  const path = configPath(environment)
  const demo = path === null ? await startDemoProvider() : null
  closing.defer(() => demo?.stop())
  const load = () => (path === null ? takeSnapshot(demoConfig(demo?.url ?? ""), sources) : readConfig(path))
  const loaded = load()
  const { admin } = loaded.config
  const admin_token =
    environment.admin_token ?? (demo === null ? null : `tg_admin_${crypto.randomUUID().replaceAll("-", "")}`)
  checkExposure({ host, port, admin, admin_token })

  const embedded = database_url === null ? await startEmbedded({ data_dir, log }) : null
  closing.defer(() => embedded?.stop())
  const address = embedded?.address ?? { url: database_url ?? "" }
  const database = await openBooks(address)
  closing.defer(() => database.close())
  const key = demo === null ? null : await demoAccount(database.operators, data_dir)
  const common = { data_dir, admin_token, host, port, admin }
  const ending = { log, closeAfter: () => closing.disposeAsync(), exit: process.exit }
  const size = workers ?? loaded.config.workers
  const gateway =
    size === 1
      ? alone(await Service.open({ ...common, ...ending, config: loaded.config, database }))
      : await Crew.start({
          ...ending,
          size,
          assignment: { ...common, address, log_level, snapshot: loaded.snapshot },
        })

  const shown = host.includes(":") ? `[${host}]` : host
  console.log(`tollgate listening on http://${shown}:${gateway.port} (pid ${process.pid})`)
  if (admin_token === null) log.info("there is no /admin: TOLLGATE_ADMIN_TOKEN is not set")
  if (key !== null && admin_token !== null) {
    console.log(demoBanner({ host, port: gateway.port, key, admin_token }))
  }
  return {
    signal: () => gateway.signal(),
    reload() {
      if (path === null) log.warn("the demo has no configuration file; nothing was reloaded")
      else void reload(gateway, loaded, load, log)
    },
  }
}

function alone(service: Service): Gateway {
  return {
    port: service.server.port,
    signal: () => service.shutdown.signal(),
    reload: async ({ config }) => service.reload(config),
  }
}

/** The file, or null for the demo (D37). */
function configPath({ config_path, database_url }: Environment): string | null {
  const path = config_path ?? (existsSync(DEFAULT_CONFIG) ? DEFAULT_CONFIG : null)
  if (path === null && database_url !== null) {
    throw new Error(
      "DATABASE_URL is set, but no configuration: name one by TOLLGATE_CONFIG or write tollgate.yaml",
    )
  }
  return path
}

function readConfig(path: string): Loaded {
  const text = textOf(path)
  try {
    return serving(takeSnapshot(text, sources))
  } catch (error) {
    throw error instanceof ConfigError ? error.in(path) : error
  }
}

/** A file that was cut short or emptied must not take every model away. */
function serving(loaded: Loaded): Loaded {
  if (loaded.config.models.length > 0) return loaded
  throw new ConfigError([{ path: "models", expected: "a list of at least one model" }])
}

function textOf(path: string): string {
  try {
    return sources.readFile(path)
  } catch (error) {
    throw new Error(`the configuration file ${path} cannot be read: ${messageOf(error)}`, { cause: error })
  }
}

/** A wrong file is refused and the old configuration stays. */
async function reload(gateway: Gateway, started: Loaded, load: () => Loaded, log: Log): Promise<void> {
  try {
    const next = load()
    await gateway.reload(next)
    const { models, upstreams } = next.config
    log.info({ models: models.length, upstreams: upstreams.length }, "the configuration was reloaded")
    const unchanged = needRestart(started.config, next.config)
    if (unchanged.length > 0) log.warn(`a restart is needed for the new ${unchanged.join(", ")}`)
  } catch (error) {
    log.error({ err: error }, "the configuration was not reloaded; the old one stays")
  }
}

/** Bun reads this when it starts and caps the streams of a process at 256 without it; the rest would hang silently. */
function requireLauncher(): void {
  if (process.env.BUN_CONFIG_MAX_HTTP_REQUESTS) return
  throw new Error("start with `bun run start`, or set BUN_CONFIG_MAX_HTTP_REQUESTS=65535 before Bun starts")
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
