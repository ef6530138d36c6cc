import { databaseUrlFault } from "../ledger/database/database-url.ts"
import type { Fault } from "../wire/fault.ts"
import { type AdminAddress, ConfigError } from "./config.ts"
import { type PushedMetrics, readPushedMetrics } from "./pushed-metrics.ts"
import { readTracing, type Tracing } from "./tracing.ts"
import { type Sources, secretIn } from "./values.ts"

const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const
type LogLevel = (typeof logLevels)[number]

export interface Environment {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** Null for the embedded database. */
  readonly database_url: string | null
  /** Null if not set: then `tollgate.yaml` if it exists, otherwise the demo. */
  readonly config_path: string | null
  /** Of the spools (D27), and of the embedded database. */
  readonly data_dir: string
  /** Null if not set: then `/admin` is a 404. */
  readonly admin_token: string | null
  readonly log_level: LogLevel
  /** Null if tracing is off (D54). */
  readonly tracing: Tracing | null
  /** Null if metrics are not pushed (D108). */
  readonly pushed_metrics: PushedMetrics | null
}

/** Reads the environment, secrets also from files. Throws a `ConfigError` with every invalid variable, without values. */
export function readEnvironment(sources: Sources): Environment {
  const { env } = sources
  const faults: Fault[] = []
  const refuse = (path: string, expected: string) => void faults.push({ path, expected })
  const plain = (name: string) => env[name] || null
  const secret = (name: string) => secretIn(name, sources, refuse)

  const port = plain("PORT") ?? "8080"
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) refuse("PORT", "an integer from 0 to 65535")
  const level = plain("LOG_LEVEL") ?? "info"
  const log_level = logLevels.find((known) => known === level)
  if (log_level === undefined) refuse("LOG_LEVEL", `one of ${logLevels.join(", ")}`)
  const host = plain("HOST") ?? "127.0.0.1"
  if (!/^[A-Za-z0-9.:_-]+$/.test(host)) refuse("HOST", "a host name or an IP address")
  const database_url = secret("DATABASE_URL")
  const url_fault = database_url === null ? null : databaseUrlFault(database_url)
  if (url_fault !== null) refuse("DATABASE_URL", url_fault)
  const admin_token = secret("TOLLGATE_ADMIN_TOKEN")
  if (admin_token !== null && !/^[\x21-\x7e]{16,}$/.test(admin_token)) {
    refuse("TOLLGATE_ADMIN_TOKEN", "at least 16 printable ASCII characters without spaces")
  }

  if (faults.length > 0 || log_level === undefined) throw new ConfigError(faults)
  return {
    host,
    port: Number(port),
    database_url,
    config_path: plain("TOLLGATE_CONFIG"),
    data_dir: plain("TOLLGATE_DATA_DIR") ?? ".tollgate",
    admin_token,
    log_level,
    tracing: readTracing(sources),
    pushed_metrics: readPushedMetrics(sources),
  }
}

/** The address at which a gateway listens, and the token that guards `/admin` there. */
export interface Exposure extends Pick<Environment, "host" | "port" | "admin_token"> {
  /** The separate listener for operators; null if they share the clients' (D39). */
  readonly admin: AdminAddress | null
}

export const LOOPBACK = /^(?:localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1)$/

/** Throws a `ConfigError` for a public gateway without a token, or if both listeners have one port (D39). */
export function checkExposure({ host, port, admin, admin_token }: Exposure): void {
  if (admin_token === null && !LOOPBACK.test(host)) throw refusal("HOST", WITHOUT_TOKEN)
  if (admin === null) return
  if (admin_token === null && !LOOPBACK.test(admin.host)) throw refusal("admin.host", WITHOUT_TOKEN)
  if (admin.port === port && port !== 0) throw refusal("admin.port", "a port other than PORT")
}

const WITHOUT_TOKEN =
  "a loopback address such as 127.0.0.1, or a TOLLGATE_ADMIN_TOKEN of at least 16 characters"

function refusal(path: string, expected: string): ConfigError {
  return new ConfigError([{ path, expected }])
}
