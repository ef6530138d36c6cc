import { readVariable, type Sources } from "../config/reference.ts"
import { type Pass, parsePass, passPath } from "../pass.ts"
import { CliError, UsageError } from "./cli-error.ts"

/** What an admin command talks to: a running gateway, or the database directly (D52). */
export type Target =
  | { readonly kind: "gateway"; readonly url: string; readonly token: string; readonly from: TokenSource }
  /** `data_dir` is where its gateways on this machine have their spool. */
  | { readonly kind: "database"; readonly url: string; readonly data_dir: string }
  /** The embedded database of the gateway that runs on this data directory. */
  | { readonly kind: "embedded"; readonly data_dir: string }

/** Where the token comes from: the environment, or the file that a demo wrote. */
export type TokenSource = "environment" | "demo"

/** The flags that select the target; null if not given. */
export interface Wanted {
  readonly url: string | null
  readonly database: boolean
  readonly data_dir: string | null
}

export const DEFAULT_URL = "http://127.0.0.1:8080"

/**
 * Flags override environment variables, which override the demo's file in the data directory. Secrets are never flags,
 * because every user of the machine can read the arguments of a running process.
 */
export function findTarget(wanted: Wanted, sources: Sources): Target {
  const { env } = sources
  const data_dir = wanted.data_dir ?? (env.TOLLGATE_DATA_DIR || ".tollgate")
  if (wanted.database) {
    if (wanted.url !== null) throw new UsageError("--url and --database cannot be combined")
    const url = secret("DATABASE_URL", sources)
    const embedded = wanted.data_dir !== null || url === null
    return embedded ? { kind: "embedded", data_dir } : { kind: "database", url, data_dir }
  }
  const named = wanted.url ?? (env.TOLLGATE_URL || null)
  if (named !== null && !isAddress(named)) {
    const name = wanted.url === null ? "TOLLGATE_URL" : "--url"
    throw new UsageError(`${name}: expected the address of a gateway, such as ${DEFAULT_URL}`)
  }
  const token = secret("TOLLGATE_ADMIN_TOKEN", sources)
  if (token !== null) return { kind: "gateway", url: named ?? DEFAULT_URL, token, from: "environment" }
  const pass = passOf(data_dir, sources)
  if (pass !== null && (named === null || new URL(named).origin === new URL(pass.url).origin)) {
    return { kind: "gateway", url: pass.url, token: pass.admin_token, from: "demo" }
  }
  throw new CliError(
    `no admin token for ${named ?? DEFAULT_URL}, and no demo is running in ${data_dir}: set TOLLGATE_ADMIN_TOKEN or TOLLGATE_ADMIN_TOKEN_FILE, or use the database directly with --database`,
  )
}

function isAddress(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return (
    ["http:", "https:"].includes(protocol) && [username, password, search, hash].every((part) => part === "")
  )
}

function passOf(data_dir: string, { readFile }: Sources): Pass | null {
  try {
    return parsePass(readFile(passPath(data_dir)))
  } catch {
    return null
  }
}

function secret(name: string, sources: Sources): string | null {
  const variable = readVariable(name, sources)
  switch (variable.state) {
    case "set":
      return variable.text
    case "unset":
      return null
    case "unreadable":
      throw new UsageError(`${name}_FILE: expected the path of a readable, non-empty file`)
    case "set twice":
      throw new UsageError(`${name} and ${name}_FILE are both set: unset one of them`)
  }
}
