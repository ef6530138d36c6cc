import { existsSync, readFileSync } from "node:fs"
import pino, { type Logger } from "pino"
import type { Config } from "./config/config.ts"
import { type Environment, readEnvironment } from "./config/environment.ts"
import { loadConfig } from "./config/load.ts"
import { demoAccount } from "./demo/account.ts"
import { demoBanner } from "./demo/banner.ts"
import { demoConfig } from "./demo/config.ts"
import { startDemoProvider } from "./demo/provider.ts"
import { openDatabase } from "./ledger/database.ts"
import { startEmbedded } from "./ledger/embedded.ts"
import { Service } from "./service.ts"

const DEFAULT_CONFIG = "tollgate.yaml"
const sources = { env: process.env, readFile: (path: string) => readFileSync(path, "utf8") }

try {
  await start()
} catch (error) {
  console.error(`tollgate: ${error instanceof Error ? error.message : String(error)}`)
  process.exit(1)
}

async function start(): Promise<void> {
  requireLauncher()
  const environment = readEnvironment(sources)
  const log = pino({ level: environment.log_level })
  const path = configPath(environment)
  const demo = path === null ? await startDemoProvider() : null
  const load = (): Config =>
    loadConfig(path === null ? demoConfig(demo?.url ?? "") : sources.readFile(path), sources)
  const config = load()

  const { host, port, data_dir, database_url } = environment
  const embedded = database_url === null ? await startEmbedded({ data_dir, log }) : null
  const database = await openDatabase(embedded?.address ?? { url: database_url ?? "" })
  const admin_token = environment.admin_token ?? (demo === null ? null : `tg_admin_${crypto.randomUUID().replaceAll("-", "")}`)
  const key = demo === null ? null : await demoAccount(database.operators, data_dir)
  const service = await Service.open({
    config,
    database,
    data_dir,
    admin_token,
    host,
    port,
    log,
    closeAfter: async () => {
      await demo?.stop()
      await embedded?.stop()
    },
    exit: process.exit,
  })

  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => service.shutdown.signal())
  process.on("SIGHUP", () => reload(service, load, log))
  console.log(`tollgate listening on http://${host}:${service.server.port} (pid ${process.pid})`)
  if (key !== null && admin_token !== null) {
    console.log(demoBanner({ host, port: service.server.port, key, admin_token }))
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
  if (process.env.BUN_CONFIG_MAX_HTTP_REQUESTS !== undefined) return
  throw new Error("start with `bun run start`, or set BUN_CONFIG_MAX_HTTP_REQUESTS=65535 before Bun starts")
}
