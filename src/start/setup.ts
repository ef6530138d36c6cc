import { existsSync, readFileSync } from "node:fs"
import { parseArgs } from "node:util"
import { type Config, ConfigError } from "../config/config.ts"
import type { Environment } from "../config/environment.ts"
import { MAX_WORKERS } from "../config/file.ts"
import { type Loaded, loadConfig, takeSnapshot } from "../config/load.ts"
import type { Sources } from "../config/values.ts"
import { parseYaml } from "../config/yaml.ts"
import { type Address, USUAL_SCHEMA } from "../ledger/database/address.ts"
import type { ShardAddress } from "../ledger/shards.ts"
import { systemReason } from "../system-reason.ts"
import { isObject } from "../wire/usage.ts"

/** The place of the configuration, for the gateway and for `tollgate check`. */

const DEFAULT_CONFIG = "tollgate.yaml"

/** The environment as it is, or with some variables replaced, and the files of this machine. */
export function sourcesWith(env: Sources["env"]): Sources {
  return { env, readFile: (path) => readFileSync(path, "utf8") }
}

/** The file, or null for the demo (D37); throws a sentence when there is neither. */
export function configPath({ config_path, database_url }: Environment): string | null {
  const path = config_path ?? (existsSync(DEFAULT_CONFIG) ? DEFAULT_CONFIG : null)
  if (path === null && database_url !== null) {
    throw new Error(
      "DATABASE_URL is set, but there is no configuration: set TOLLGATE_CONFIG, or create tollgate.yaml",
    )
  }
  return path
}

/** Reads and loads the file; throws a sentence, or a `ConfigError` whose faults name it. */
export function readConfig(path: string, sources: Sources): Loaded {
  const text = textOf(path, sources)
  try {
    return serving(takeSnapshot(text, sources))
  } catch (error) {
    throw error instanceof ConfigError ? error.in(path) : error
  }
}

/** Refuses a configuration without models: a truncated file must not remove all of them. */
function serving(loaded: Loaded): Loaded {
  if (loaded.config.models.length > 0) return loaded
  throw new ConfigError([{ path: "models", expected: "a list of at least one model" }])
}

function textOf(path: string, sources: Sources): string {
  try {
    return sources.readFile(path)
  } catch (error) {
    throw new Error(`cannot read the configuration file ${path}: ${systemReason(error)}`, { cause: error })
  }
}

/** The shards of the configuration; none with one database. Throws a sentence if both are set (D74). */
export function configuredShards({ database_url }: Environment, { shards }: Config): readonly ShardAddress[] {
  if (shards.length > 0 && database_url !== null) {
    const expected =
      "no such key while DATABASE_URL is set: list that database as a shard, and unset DATABASE_URL"
    throw new ConfigError([{ path: "shards", expected }])
  }
  return shards.map(addressOf)
}

/** The file's shards, for a command that reads nothing else of it. Throws a sentence, or a `ConfigError`. */
export function findShards(sources: Sources): readonly ShardAddress[] {
  const named = sources.env.TOLLGATE_CONFIG || null
  const path = named ?? DEFAULT_CONFIG
  const text = named === null ? textIfThere(path, sources) : textOf(path, sources)
  try {
    const file = text === null ? null : parseYaml(text)
    if (!isObject(file) || file.shards === undefined) return []
    return loadConfig(JSON.stringify({ shards: file.shards }), sources).shards.map(addressOf)
  } catch (error) {
    throw error instanceof ConfigError ? error.in(path) : error
  }
}

function textIfThere(path: string, { readFile }: Sources): string | null {
  try {
    return readFile(path)
  } catch {
    return null
  }
}

function addressOf({ name, open, url, schema }: Config["shards"][number]): ShardAddress {
  return { name, open, address: addressIn(url, schema) }
}

function addressIn(url: string, schema: string): Address {
  return schema === USUAL_SCHEMA ? { url } : { url, schema }
}

/** Throws a sentence if a reload would change what cannot change while the gateway runs (D74). */
export function refuseOtherShards(started: Config, next: Config): void {
  if (Bun.deepEquals(started.shards, next.shards)) return
  throw new Error("shards cannot be changed by a reload: restart the gateway to apply them")
}

/** Sections that are read at the start only. A reload does not apply them. */
const READ_AT_START = ["admin", "journal", "lease", "workers"] as const

/** The changed sections of `next` that need a restart to take effect. */
export function needRestart(started: Config, next: Config): string[] {
  return READ_AT_START.filter((section) => !Bun.deepEquals(started[section], next[section]))
}

const USAGE = "unknown argument: the only option is --workers N"

/** The number of workers from the command line; null if not given. Throws an error with a sentence for the user. */
export function readWorkers(args: readonly string[]): number | null {
  const { workers } = valuesOf(args)
  if (workers === undefined) return null
  if (/^[1-9]\d?$/.test(workers) && Number(workers) <= MAX_WORKERS) return Number(workers)
  throw new Error(`--workers: expected an integer from 1 to ${MAX_WORKERS}`)
}

function valuesOf(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: { workers: { type: "string" } } }).values
  } catch (error) {
    throw new Error(USAGE, { cause: error })
  }
}
