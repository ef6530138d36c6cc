import { access, constants } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import { type Config, ConfigError, type Credential, type Upstream } from "../config/config.ts"
import { checkExposure, type Environment, readEnvironment } from "../config/environment.ts"
import type { Sources } from "../config/values.ts"
import { findEmbedded } from "../embedded/embedded.ts"
import { requirePrograms } from "../embedded/programs.ts"
import { nextId } from "../id.ts"
import type { Address } from "../ledger/database/address.ts"
import { databaseReason } from "../ledger/database/database.ts"
import { errorCode } from "../ledger/database/database-errors.ts"
import { readVersion } from "../ledger/database/migration.ts"
import { configPath, configuredShards, readConfig } from "../setup.ts"
import { requestHeaders } from "../upstream/headers.ts"
import { urlOf } from "../upstream/http/client.ts"
import { isObject } from "../wire/usage.ts"

/** The result of one check; `fix` says what to do if it failed. */
export interface Finding {
  readonly what: string
  readonly ok: boolean
  readonly found: string
  readonly fix: string | null
}

/** Checks everything that the gateway needs to start, and changes nothing. Skips checks that depend on a failed one. */
export async function inspect(sources: Sources): Promise<Finding[]> {
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
    ...(config?.upstreams ?? []).map((upstream) =>
      Promise.all(upstream.keys.map((key) => probe(upstream, key, config?.vendors ?? []))),
    ),
    Promise.all(addresses(told, config).map(([host, port, names]) => listening(host, port, names))),
  ])
  return findings.flat()
}

const FIX_VARIABLE = "Correct the variable, or unset it."
const FIX_FILE = "Correct the file. docs/configuration.md describes every key."

function right(what: string, found: string): Finding {
  return { what, ok: true, found, fix: null }
}

function wrong(what: string, found: string, fix: string): Finding {
  return { what, ok: false, found, fix }
}

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

const PROBE_MS = 10_000

/** Requests the model list of an upstream with its API key, which costs nothing. */
async function probe(upstream: Upstream, key: Credential, vendors: readonly string[]): Promise<Finding> {
  const { name, family } = upstream
  const what = key.name === "" ? `upstream ${name}` : `upstream ${name}, key ${key.name}`
  const versions = Object.fromEntries(vendors.map((vendor) => [`${vendor}-version`, "2023-06-01"]))
  try {
    const { status } = await fetch(urlOf(upstream, family === "chat" ? "/models" : "/v1/models", ""), {
      headers: requestHeaders(upstream, key, nextId(), false, family === "chat" ? {} : versions),
      redirect: "manual",
      signal: AbortSignal.timeout(PROBE_MS),
    })
    if (status === 401 || status === 403) {
      const fix =
        key.api_key === null
          ? `Set upstreams.${name}.api_key.`
          : `Correct ${key.name === "" ? `upstreams.${name}.api_key` : "this key"}.`
      return wrong(what, `refuses the key (status ${status})`, fix)
    }
    if (status >= 500)
      return wrong(what, `answers with an error (status ${status})`, "Try again later, or ask the provider.")
    if (status < 300) return right(what, "reachable, and accepts the key")
    const misplaced = status === 404 ? misplacedPath(upstream) : null
    if (misplaced !== null) return wrong(what, ...misplaced)
    return right(what, `reachable (status ${status}), but it has no model list, so the key was not tested`)
  } catch (error) {
    const late = error instanceof Error && error.name === "TimeoutError"
    const found = late ? `did not answer within ${PROBE_MS / 1000} s` : `not reachable (${errorCode(error)})`
    return wrong(what, found, `Correct upstreams.${name}.base_url, or check the network and the firewall.`)
  }
}

/** What is wrong with the path of a `base_url` that has no model list, and what to do; null if it may be right. */
function misplacedPath({ name, family, base_url }: Upstream): readonly [found: string, fix: string] | null {
  const setting = `upstreams.${name}.base_url`
  if (family === "messages" && base_url.endsWith("/v1"))
    return [
      "base_url ends with /v1, and the gateway appends /v1/messages to it",
      `Remove /v1 from the end of ${setting}.`,
    ]
  if (family === "chat" && new URL(base_url).pathname === "/")
    return [
      "base_url has no path, and the gateway appends /chat/completions to it",
      `Add the path of the provider's API to ${setting}: usually /v1.`,
    ]
  return null
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
