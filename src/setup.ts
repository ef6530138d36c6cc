import { existsSync, readFileSync } from "node:fs"
import type { Environment } from "./config/environment.ts"
import { ConfigError } from "./config/error.ts"
import type { Sources } from "./config/reference.ts"
import { type Loaded, takeSnapshot } from "./config/snapshot.ts"

/** Where a start finds its configuration, for the gateway and for whoever looks before it starts. */

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

/** A file that was cut short or emptied must not take every model away. */
function serving(loaded: Loaded): Loaded {
  if (loaded.config.models.length > 0) return loaded
  throw new ConfigError([{ path: "models", expected: "a list of at least one model" }])
}

function textOf(path: string, sources: Sources): string {
  try {
    return sources.readFile(path)
  } catch (error) {
    throw new Error(`cannot read the configuration file ${path}: ${reasonOf(error)}`, { cause: error })
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
