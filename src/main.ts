import { existsSync, readFileSync } from "node:fs"
import pino, { type Logger } from "pino"
import type { Config } from "./config/config.ts"
import { type Environment, readEnvironment } from "./config/environment.ts"
import { loadConfig } from "./config/load.ts"
import { demoAccount } from "./demo/account.ts"
import { demoBanner } from "./demo/banner.ts"
import { demoConfig } from "./demo/config.ts"
import { startDemoProvider } from "./demo/provider.ts"
import type { Address } from "./ledger/address.ts"
import { type Database, openDatabase } from "./ledger/database.ts"
import { startEmbedded } from "./ledger/embedded.ts"
import { Service } from "./service.ts"

const DEFAULT_CONFIG = "tollgate.yaml"
/** Ctrl-C reaches the gateway twice: from the terminal, and passed on by `bun run`. */
const SAME_SIGNAL_MS = 500
const sources = { env: process.env, readFile: (path: string) => readFileSync(path, "utf8") }

try {
  await start()
} catch (error) {
  console.error(`tollgate: ${messageOf(error)}`)
  process.exit(1)
}

/** What a start that fails has opened is closed again: no Postgres, no lock and no lease outlive it. */
async function start(): Promise<void> {
  requireLauncher()
  const environment = readEnvironment(sources)
  const log = pino({ level: environment.log_level })
  const shutDown = watchSignals()
  process.on("unhandledRejection", (error) => log.error({ err: error }, "a fault of the gateway; it goes on"))
  const closing = new AsyncDisposableStack()
  try {
    shutDown(await open(environment, log, closing))
  } catch (error) {
    await closing.disposeAsync()
    throw error
  }
}

/** Opens the service; `closing` gets what is to be closed after it. */
async function open(environment: Environment, log: Logger, closing: AsyncDisposableStack): Promise<Service> {
  const { host, port, data_dir, database_url } = environment
  const path = configPath(environment)
  const demo = path === null ? await startDemoProvider() : null
  closing.defer(() => demo?.stop())
  const load = () => serving(loadConfig(path === null ? demoConfig(demo?.url ?? "") : textOf(path), sources))
  const config = load()

  const embedded = database_url === null ? await startEmbedded({ data_dir, log }) : null
  closing.defer(() => embedded?.stop())
  const database = await openBooks(embedded?.address ?? { url: database_url ?? "" })
  closing.defer(() => database.close())
  const admin_token =
    environment.admin_token ?? (demo === null ? null : `tg_admin_${crypto.randomUUID().replaceAll("-", "")}`)
  const key = demo === null ? null : await demoAccount(database.operators, data_dir)
  const service = await Service.open({
    config,
    database,
    data_dir,
    admin_token,
    host,
    port,
    log,
    closeAfter: () => closing.disposeAsync(),
    exit: process.exit,
  })

  process.on("SIGHUP", () => {
    if (path === null) log.warn("the demo has no configuration file; nothing was reloaded")
    else reload(service, load, log)
  })
  const shown = host.includes(":") ? `[${host}]` : host
  console.log(`tollgate listening on http://${shown}:${service.server.port} (pid ${process.pid})`)
  if (admin_token === null) log.info("there is no /admin: TOLLGATE_ADMIN_TOKEN is not set")
  if (key !== null && admin_token !== null) {
    console.log(demoBanner({ host, port: service.server.port, key, admin_token }))
  }
  return service
}

/** The driver's own reason, without the statement that met it. */
async function openBooks(address: Address): Promise<Database> {
  try {
    return await openDatabase(address)
  } catch (error) {
    const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error
    throw new Error(`the database cannot be used: ${messageOf(reason)}`, { cause: error })
  }
}

/**
 * From now on SIGTERM and SIGINT shut the service down that is given later: a signal that comes during the start is kept
 * for it, and a second one then ends the process.
 */
function watchSignals(): (service: Service) => void {
  let service: Service | null = null
  let heard_ms = Number.NEGATIVE_INFINITY
  let early = false
  const hear = () => {
    if (performance.now() - heard_ms < SAME_SIGNAL_MS) return
    heard_ms = performance.now()
    if (service !== null) service.shutdown.signal()
    else if (early) process.exit(1)
    else early = true
  }
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, hear)
  return (opened) => {
    service = opened
    if (early) service.shutdown.signal()
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

/** A file that was cut short or emptied must not take every model away. */
function serving(config: Config): Config {
  if (config.models.length > 0) return config
  throw new Error("models: expected a list of at least one model")
}

function textOf(path: string): string {
  try {
    return sources.readFile(path)
  } catch (error) {
    throw new Error(`the configuration file ${path} cannot be read: ${messageOf(error)}`, { cause: error })
  }
}

/** A wrong file is refused and the old configuration stays. */
function reload(service: Service, load: () => Config, log: Logger): void {
  try {
    service.reload(load())
    log.info("the configuration was reloaded")
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
