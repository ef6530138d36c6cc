import { LOOPBACK } from "../config/environment.ts"
import { type Sources, secretIn } from "../config/values.ts"
import { type DemoAccess, demoAccessPath, parseDemoAccess } from "../demo/access.ts"
import type { ShardAddress } from "../ledger/shards.ts"
import { findShards } from "../start/setup.ts"
import { CliError, orFail, UsageError } from "./cli-error.ts"

/** The target of an admin command: a running gateway, or the database directly (D52). */
export type Target =
  | { readonly kind: "gateway"; readonly url: string; readonly token: string; readonly from: TokenSource }
  /** `data_dir` is where its gateways on this machine have their spool. */
  | { readonly kind: "database"; readonly url: string; readonly data_dir: string }
  /** The shards of the configuration (D74). */
  | { readonly kind: "shards"; readonly shards: readonly ShardAddress[]; readonly data_dir: string }
  | { readonly kind: "embedded"; readonly data_dir: string }

type TokenSource = "environment" | "demo"

export interface TargetFlags {
  readonly url: string | null
  readonly database: boolean
  readonly data_dir: string | null
}

export const DEFAULT_URL = "http://127.0.0.1:8080"

/** Flags override variables, which override the demo's file. Secrets are never flags: others can read those. */
export function findTarget(wanted: TargetFlags, sources: Sources): Target {
  const { env } = sources
  const data_dir = wanted.data_dir ?? (env.TOLLGATE_DATA_DIR || ".tollgate")
  if (wanted.database) {
    if (wanted.url !== null) throw new UsageError("--url and --database cannot be combined")
    if (wanted.data_dir !== null) return { kind: "embedded", data_dir }
    const url = secret("DATABASE_URL", sources)
    if (url !== null) return { kind: "database", url, data_dir }
    const shards = orFail(() => findShards(sources))
    return shards.length > 0 ? { kind: "shards", shards, data_dir } : { kind: "embedded", data_dir }
  }
  const named = wanted.url ?? (env.TOLLGATE_URL || null)
  if (named !== null && !isAddress(named)) {
    const name = wanted.url === null ? "TOLLGATE_URL" : "--url"
    throw new UsageError(`${name}: expected the address of a gateway, such as ${DEFAULT_URL}`)
  }
  const token = secret("TOLLGATE_ADMIN_TOKEN", sources)
  const demo = demoAccessIn(data_dir, sources)
  if (token !== null) {
    // A file in the folder of someone else cannot name where a token goes.
    const is_here = demo !== null && URL.canParse(demo.url) && LOOPBACK.test(new URL(demo.url).hostname)
    return { kind: "gateway", url: named ?? (is_here ? demo.url : DEFAULT_URL), token, from: "environment" }
  }
  if (demo !== null && (named === null || new URL(named).origin === new URL(demo.url).origin)) {
    return { kind: "gateway", url: demo.url, token: demo.admin_token, from: "demo" }
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

function demoAccessIn(data_dir: string, { readFile }: Sources): DemoAccess | null {
  try {
    return parseDemoAccess(readFile(demoAccessPath(data_dir)))
  } catch {
    return null
  }
}

function secret(name: string, sources: Sources): string | null {
  return secretIn(name, sources, (path, expected) => {
    throw new UsageError(`${path}: expected ${expected}`)
  })
}
