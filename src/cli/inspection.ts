import { access, constants } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import { type Config, ConfigError } from "../config/config.ts"
import { checkExposure, type Environment, readEnvironment } from "../config/environment.ts"
import type { Sources } from "../config/values.ts"
import { findEmbedded } from "../embedded/embedded.ts"
import { isLocked } from "../embedded/lock.ts"
import { requirePrograms } from "../embedded/programs.ts"
import type { Address } from "../ledger/database/address.ts"
import { databaseReason } from "../ledger/database/database.ts"
import { errorCode } from "../ledger/database/database-errors.ts"
import { readUnfit } from "../ledger/database/fitness.ts"
import { readVersion, type Version } from "../ledger/database/migration.ts"
import { identityProvider, SignInRefused } from "../oidc/identity-provider.ts"
import { addressOf } from "../start/banner.ts"
import { configPath, configuredShards, readConfig } from "../start/setup.ts"
import { isObject } from "../wire/usage.ts"
import { reasonOf } from "./cli-error.ts"
import { type Finding, type FindingVerdict, finding } from "./finding.ts"
import { inspectUpstreams } from "./inspect-upstreams.ts"
import { counted } from "./screen.ts"

/** Checks what the gateway needs to start, without changes. `calls`: also makes a call for each model. */
export async function inspect(sources: Sources, calls: boolean): Promise<Finding[]> {
  const environment = attempt("environment", FIX_VARIABLE, () => readEnvironment(sources))
  if (!("value" in environment)) return environment.wrong
  const env = environment.value
  const file = attempt("configuration", FIX_FILE, () => readFile(env, sources))
  const config = "value" in file ? file.value : null
  const findings = await Promise.all([
    [finding("environment", "all variables are valid")],
    "value" in file ? [finding("configuration", configWords(env, config))] : file.wrong,
    "value" in file ? [finding("operators", operators(env, config))] : [],
    databases(env, config),
    config === null ? [] : inspectUpstreams(config, calls),
    config === null ? [] : signIn(env, config),
    Promise.all(
      addresses(env, config).map(async ([host, port, names]) =>
        finding(`port ${port}`, await listening(host, port, names, env.data_dir)),
      ),
    ),
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
    const lines = error instanceof ConfigError ? error.message.split("\n") : [reasonOf(error)]
    return { wrong: lines.map((line) => finding(what, [line, fix])) }
  }
}

/** The configuration; null for the demo, which has its own. */
function readFile(env: Environment, sources: Sources): Config | null {
  const path = configPath(env)
  return path === null ? null : readConfig(path, sources).config
}

function configWords({ config_path }: Environment, config: Config | null): string {
  if (config === null) return "none, so the gateway will start as a demo"
  const { models, upstreams } = config
  return `${config_path ?? "tollgate.yaml"}: ${counted(models.length, "model")}, ${counted(upstreams.length, "upstream")}`
}

/** True if `/admin` is protected (D39). The demo creates its own token. */
function operators({ host, port, admin_token }: Environment, config: Config | null): FindingVerdict {
  const admin = config?.admin ?? null
  try {
    checkExposure({ host, port, admin, admin_token: config === null ? "made by the demo" : admin_token })
  } catch (error) {
    return [reasonOf(error), "Set TOLLGATE_ADMIN_TOKEN, or change the address."]
  }
  if (config === null) return "the demo creates an admin token"
  if (admin_token === null) return "/admin is disabled, because TOLLGATE_ADMIN_TOKEN is not set"
  return admin === null ? "/admin shares the port of the clients" : `/admin has its own port, ${admin.port}`
}

/** True if the OpenID provider of the console can be discovered (D103). */
async function signIn({ admin_token }: Environment, { oidc }: Config): Promise<Finding[]> {
  if (oidc === null) return []
  const provider = identityProvider(oidc)
  try {
    await provider.discover()
  } catch (error) {
    const found = error instanceof SignInRefused ? error.reason : reasonOf(error)
    return [
      finding("sign-in", [`${oidc.issuer}: ${found}`, "Correct admin.oidc.issuer, or check the network."]),
    ]
  }
  if (admin_token === null)
    return [finding("sign-in", ["there is no /admin to sign in to", "Set TOLLGATE_ADMIN_TOKEN."])]
  return [
    finding("sign-in", `${provider.name} was discovered; its redirect URI here is ${provider.redirect_uri}`),
  ]
}

/** The shards of the configuration, or the one database of the environment (D74). */
async function databases(env: Environment, config: Config | null): Promise<Finding[]> {
  const { database_url: url, data_dir } = env
  const shards =
    config === null ? { value: [] } : attempt("database", FIX_FILE, () => configuredShards(env, config))
  if (!("value" in shards)) return shards.wrong
  if (shards.value.length === 0)
    return [
      finding("database", await (url === null ? embedded(data_dir) : external({ url }, "DATABASE_URL"))),
    ]
  return Promise.all(
    shards.value.map(async ({ name, address }) =>
      finding(`shard ${name}`, await external(address, "the url of the shard")),
    ),
  )
}

/** `setting` is what to correct. */
async function external(address: Address, setting: string): Promise<FindingVerdict> {
  try {
    return (await readUnfit(address)) ?? VERSIONS[await readVersion(address)]
  } catch (error) {
    const reason = databaseReason(error)
    // The only word by which the server says that it wants TLS.
    if (reason.endsWith("no encryption")) return [reason, `Add sslmode=verify-full to ${setting}.`]
    const { [errorCode(error)]: fix = `Start Postgres there, or correct ${setting}.` } = FIXES(setting)
    return [reason, fix]
  }
}

async function embedded(data_dir: string): Promise<FindingVerdict> {
  try {
    requirePrograms()
    const address = await findEmbedded(data_dir)
    if (address !== null) return VERSIONS[await readVersion(address)]
  } catch (error) {
    return [databaseReason(error), "Correct this, or set DATABASE_URL to use your own Postgres."]
  }
  return (await isWritable(data_dir))
    ? `embedded, in ${data_dir}; starts and stops with the gateway`
    : [
        `${data_dir} is not writable`,
        "Set TOLLGATE_DATA_DIR to a directory that the gateway's user can write.",
      ]
}

/** True if this user can write the directory, or its nearest existing parent. */
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

const FIX_AUTHORITY = "Name the file of the server's authority in NODE_EXTRA_CA_CERTS."
const FIXES = (setting: string): Readonly<Record<string, string>> => ({
  "28P01": `Correct the user or the password in ${setting}.`,
  "28000": `Allow this user in pg_hba.conf, or correct ${setting}.`,
  "3D000": `Create the database (createdb), or correct its name in ${setting}.`,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: FIX_AUTHORITY,
  SELF_SIGNED_CERT_IN_CHAIN: FIX_AUTHORITY,
  DEPTH_ZERO_SELF_SIGNED_CERT: FIX_AUTHORITY,
  ERR_TLS_CERT_ALTNAME_INVALID: `Use a name of the server's certificate in ${setting}.`,
})

const VERSIONS: Readonly<Record<Version, FindingVerdict>> = {
  same: "reachable, and its tables match this version",
  older: "reachable; the next start migrates its tables to this version",
  none: "reachable; the next start creates its tables",
  newer: ["its tables are from a newer Tollgate version", "Use that version, or another database."],
}

type AddressNames = readonly [host: string, port: string]

/** The addresses that the gateway will listen on: the public one, and the admin one if configured. */
function addresses({ host, port }: Environment, config: Config | null): [string, number, AddressNames][] {
  const admin = config?.admin ?? null
  const clients: [string, number, AddressNames] = [host, port, ["HOST", "PORT"]]
  return admin === null ? [clients] : [clients, [admin.host, admin.port, ["admin.host", "admin.port"]]]
}

/** True if the address is free. An address of the gateway that runs with this data directory is fine. */
async function listening(
  host: string,
  port: number,
  [host_name, port_name]: AddressNames,
  data_dir: string,
): Promise<FindingVerdict> {
  try {
    Bun.listen({ hostname: host, port, socket: { data() {} } }).stop(true)
    return port === 0 ? "the gateway picks a free port" : `free on ${host}`
  } catch (error) {
    if (errorCode(error) !== "EADDRINUSE")
      return [
        `cannot listen on ${host}: ${errorCode(error) === "ENOTFOUND" ? "the host name is unknown" : databaseReason(error)}`,
        `Set ${host_name} to an address of this machine, and ${port_name} to a port that this user can use.`,
      ]
    const is_gateway = await isGateway(host, port)
    if (is_gateway && isLocked(data_dir)) return "in use by a running gateway"
    const program = is_gateway ? "a gateway with another data directory" : "another program"
    const fix = `Stop that ${is_gateway ? "gateway" : "program"}, or set ${port_name} to another port.`
    return [`${program} listens on ${host}:${port}`, fix]
  }
}

async function isGateway(host: string, port: number): Promise<boolean> {
  try {
    const answer = await fetch(`${addressOf(host, port)}/livez`, { signal: AbortSignal.timeout(2_000) })
    const body: unknown = await answer.json()
    return answer.headers.has("x-request-id") && isObject(body) && body.status === "alive"
  } catch {
    return false
  }
}
