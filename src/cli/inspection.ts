import { access, constants } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import { type Config, ConfigError } from "../config/config.ts"
import { checkExposure, type Environment, readEnvironment } from "../config/environment.ts"
import type { Sources } from "../config/values.ts"
import { findEmbedded } from "../embedded/embedded.ts"
import { requirePrograms } from "../embedded/programs.ts"
import type { Address } from "../ledger/database/address.ts"
import { databaseReason } from "../ledger/database/database.ts"
import { errorCode } from "../ledger/database/database-errors.ts"
import { readVersion } from "../ledger/database/migration.ts"
import { configPath, configuredShards, readConfig } from "../setup.ts"
import { isObject } from "../wire/usage.ts"
import { type Finding, right, wrong } from "./finding.ts"
import { inspectUpstreams } from "./inspect-upstreams.ts"

/**
 * Checks everything that the gateway needs to start, and changes nothing. Skips checks that depend on a failed one. `calls`:
 * also makes a call for each model of each upstream.
 */
export async function inspect(sources: Sources, calls: boolean): Promise<Finding[]> {
  const environment = attempt("environment", FIX_VARIABLE, () => readEnvironment(sources))
  if (!("value" in environment)) return environment.wrong
  const told = environment.value
  const file = attempt("configuration", FIX_FILE, () => readFile(told, sources))
  const config = "value" in file ? file.value : null
  const findings = await Promise.all([
    [right("environment", "all variables are valid")],
    "value" in file ? [right("configuration", configWords(told, file.value))] : file.wrong,
    "value" in file ? [operators(told, config)] : [],
    databases(told, config),
    config === null ? [] : inspectUpstreams(config, calls),
    Promise.all(addresses(told, config).map(([host, port, names]) => listening(host, port, names))),
  ])
  return findings.flat()
}

const FIX_VARIABLE = "Correct the variable, or unset it."
const FIX_FILE = "Correct the file. docs/configuration.md describes every key."

/** The value that `read` returns, or one finding per error. */
function attempt<Value>(what: string, fix: string, read: () => Value) {
  try {
    return { value: read() }
  } catch (error) {
    if (error instanceof ConfigError) {
      const lines = error.message.split("\n")
      return { wrong: lines.map((line) => wrong(what, line, fix)) }
    }
    return { wrong: [wrong(what, wordsOf(error), fix)] }
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The configuration; null for the demo, which has its own. */
function readFile(told: Environment, sources: Sources): Config | null {
  const path = configPath(told)
  return path === null ? null : readConfig(path, sources).config
}

function configWords({ config_path }: Environment, config: Config | null): string {
  if (config === null) return "none, so the gateway will start as a demo"
  const { models, upstreams } = config
  return `${config_path ?? "tollgate.yaml"}: ${several(models.length, "model")}, ${several(upstreams.length, "upstream")}`
}

function several(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`
}

/** Whether `/admin` is protected (D39). The demo creates its own token. */
function operators({ host, port, admin_token }: Environment, config: Config | null): Finding {
  const admin = config?.admin ?? null
  try {
    checkExposure({ host, port, admin, admin_token: config === null ? "made by the demo" : admin_token })
  } catch (error) {
    return wrong("operators", wordsOf(error), "Set TOLLGATE_ADMIN_TOKEN, or change the address.")
  }
  if (config === null) return right("operators", "the demo creates an admin token")
  if (admin_token === null)
    return right("operators", "/admin is disabled, because TOLLGATE_ADMIN_TOKEN is not set")
  return right(
    "operators",
    admin === null ? "/admin shares the port of the clients" : `/admin has its own port, ${admin.port}`,
  )
}

/** The shards of the configuration, or the one database of the environment (D74). */
async function databases(told: Environment, config: Config | null): Promise<Finding[]> {
  const { database_url, data_dir } = told
  const shards =
    config === null ? { value: [] } : attempt("database", FIX_FILE, () => configuredShards(told, config))
  if (!("value" in shards)) return shards.wrong
  if (shards.value.length > 0)
    return Promise.all(
      shards.value.map(({ name, address }) => external(`shard ${name}`, address, `the url of the shard`)),
    )
  return [
    database_url === null
      ? await embedded(data_dir)
      : await external("database", { url: database_url }, "DATABASE_URL"),
  ]
}

/** `setting` is what to correct. */
async function external(what: string, address: Address, setting: string): Promise<Finding> {
  try {
    return { ...versionFinding(await readVersion(address)), what }
  } catch (error) {
    return wrong(what, databaseReason(error), databaseFix(errorCode(error), setting))
  }
}

async function embedded(data_dir: string): Promise<Finding> {
  try {
    requirePrograms()
    const address = await findEmbedded(data_dir)
    if (address !== null) return versionFinding(await readVersion(address))
  } catch (error) {
    return wrong(
      "database",
      databaseReason(error),
      "Correct this, or set DATABASE_URL to use your own Postgres.",
    )
  }
  const writable = await isWritable(data_dir)
  if (writable) return right("database", `embedded, in ${data_dir}; starts and stops with the gateway`)
  return wrong(
    "database",
    `${data_dir} is not writable`,
    "Set TOLLGATE_DATA_DIR to a directory that the gateway's user can write.",
  )
}

/** Whether this user can write the directory, or its nearest existing parent. */
async function isWritable(path: string): Promise<boolean> {
  const place = resolve(path)
  try {
    await access(place, constants.W_OK)
    return true
  } catch (error) {
    const is_missing = errorCode(error) === "ENOENT"
    return is_missing && dirname(place) !== place && isWritable(dirname(place))
  }
}

/** By the SQLSTATE. */
function databaseFix(code: string, setting: string): string {
  switch (code) {
    case "28P01":
      return `Correct the user or the password in ${setting}.`
    case "28000":
      return `Allow this user in pg_hba.conf, or correct ${setting}.`
    case "3D000":
      return `Create the database (createdb), or correct its name in ${setting}.`
    default:
      return `Start Postgres there, or correct ${setting}.`
  }
}

function versionFinding(version: Awaited<ReturnType<typeof readVersion>>): Finding {
  switch (version) {
    case "same":
      return right("database", "reachable, and its tables match this version")
    case "older":
      return right("database", "reachable; the next start migrates its tables to this version")
    case "none":
      return right("database", "reachable; the next start creates its tables")
    case "newer":
      return wrong(
        "database",
        "its tables are from a newer Tollgate version",
        "Use that version, or another database.",
      )
  }
}

type Names = readonly [host: string, port: string]

/** The addresses that the gateway will listen on: the public one, and the admin one if configured. */
function addresses({ host, port }: Environment, config: Config | null): [string, number, Names][] {
  const admin = config?.admin ?? null
  const clients: [string, number, Names] = [host, port, ["HOST", "PORT"]]
  return admin === null ? [clients] : [clients, [admin.host, admin.port, ["admin.host", "admin.port"]]]
}

/** Whether the address is free. An address that a running gateway uses is fine. */
async function listening(host: string, port: number, [host_name, port_name]: Names): Promise<Finding> {
  const what = `port ${port}`
  try {
    Bun.listen({ hostname: host, port, socket: { data() {} } }).stop(true)
    return right(what, port === 0 ? "the gateway picks a free port" : `free on ${host}`)
  } catch (error) {
    if (errorCode(error) !== "EADDRINUSE") {
      return wrong(
        what,
        `cannot listen on ${host}: ${databaseReason(error)}`,
        `Set ${host_name} to an address of this machine, and ${port_name} to a port that this user can use.`,
      )
    }
    if (await isGateway(host, port)) return right(what, `in use by a running gateway`)
    return wrong(
      what,
      `another program listens on ${host}:${port}`,
      `Stop that program, or set ${port_name} to another port.`,
    )
  }
}

async function isGateway(host: string, port: number): Promise<boolean> {
  const shown = { "0.0.0.0": "127.0.0.1", "::": "[::1]" }[host] ?? (host.includes(":") ? `[${host}]` : host)
  try {
    const answer = await fetch(`http://${shown}:${port}/livez`, { signal: AbortSignal.timeout(2_000) })
    const body: unknown = await answer.json()
    return answer.headers.has("x-request-id") && isObject(body) && body.status === "alive"
  } catch {
    return false
  }
}
