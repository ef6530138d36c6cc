import type { Static } from "@sinclair/typebox"
import type { Rate, ServiceTier } from "../money.ts"
import type { ErrorMeanings } from "../presets/preset.ts"
import type { ReaderName } from "../usage/readers.ts"
import type { OperationName } from "../wire/call.ts"
import type { Fault } from "../wire/fault.ts"
import type { ModelSettings, Settings, Shard } from "./file.ts"
import type { UpstreamSettings } from "./file-upstream.ts"
import type { OidcSettings } from "./oidc.ts"
import type { Decoded } from "./schema.ts"

/** The parsed configuration: units in the names, prices parsed, upstreams resolved. What it has as the file has it is said there. */

export type Family = "chat" | "messages"

/** The operations that the models of a family can offer (D63). */
export const operationsOf: Readonly<Record<Family, readonly [OperationName, ...OperationName[]]>> = {
  chat: ["chat", "embeddings", "responses"],
  messages: ["messages"],
}

export interface Upstream extends Decoded<Static<typeof UpstreamSettings>> {
  readonly name: string
  readonly family: Family
  /** Without a trailing slash. */
  readonly base_url: string
  /** Its keys, never empty (D82). */
  readonly keys: readonly [Credential, ...Credential[]]
  /** The reader of its usage (D87). */
  readonly usage: ReaderName
  /** The header of the credential, in lower case, and what precedes the credential in it (D81). */
  readonly auth: { readonly header: string; readonly prefix: string }
  /** Further headers of every request, by lower-case name (D81). */
  readonly headers: Readonly<Record<string, string>>
  /** The query that every request adds, without a question mark; `""` for nothing (D81). */
  readonly query: string
  /** The changes to the body of every request; null for none (D81). */
  readonly edits: Edits | null
  /** The preset of the upstream (D83), and the key of the file that selected it; null if there is none. */
  readonly preset: { readonly name: string; readonly from: "provider" | "base_url" } | null
  /** The meaning of its refusals, if their status does not tell it (D82). */
  readonly errors: ErrorMeanings
  /** Texts that no client may be shown: the credential, and long values of headers and the query. */
  readonly secrets: readonly string[]
  /** The HTTP client (D59): the gateway's own (`direct`) or the runtime's (`fetch`). */
  readonly transport: "direct" | "fetch"
  /** The URL of its proxy, with the credentials (D59); null for none. */
  readonly proxy: string | null
  /** Certificates in PEM: the trusted ones instead of the system's, and the gateway's own (D59); null for the system's alone. */
  readonly tls: {
    readonly ca: string | null
    readonly cert: string | null
    readonly key: string | null
  } | null
}

export interface Credential {
  /** In the log and the console; empty for the only one. */
  readonly name: string
  /** Null if the upstream needs none. */
  readonly api_key: string | null
  /** Its share of the calls, beside those of the other keys. */
  readonly weight: number
}

/** Fields by dotted path: those that get another value, and those that are left out. */
export interface Edits {
  readonly set: Readonly<Record<string, unknown>>
  readonly drop: readonly string[]
}

export interface Route {
  readonly upstream: Upstream
  readonly model: string
  /** Lower ones are asked first (D82). */
  readonly priority: number
  /** Its share of the calls, beside those of the same priority. */
  readonly weight: number
}

export interface Model extends Rate, Decoded<Static<typeof ModelSettings>> {
  /** Its operations (D63); never empty. */
  readonly operations: readonly OperationName[]
  /** In the order of the file; never empty. D82 says in which order they are tried. */
  readonly routes: readonly [Route, ...Route[]]
  /** Service tiers that have a price of their own; mostly none (D70). */
  readonly service_tiers: readonly ServiceTier[]
  /** 0 for a model that only makes embeddings. */
  readonly max_output_tokens: number
  /** Output tokens held if the request sets no limit (D12). */
  readonly hold_output_tokens: number
  /** True if no limit of a request bounds its thinking (D12). */
  readonly unlimited_thinking: boolean
  /** The fields that a request may not have (D61). */
  readonly refuse: readonly RefusedField[]
}

export interface RefusedField {
  /** Names, separated by dots. */
  readonly path: string
  /** As text; null for any value. */
  readonly value: string | null
}

/** True if any of these operations has output tokens: all but embeddings have (D67). */
export function haveOutput(operations: readonly OperationName[]): boolean {
  return operations.some((operation) => operation !== "embeddings")
}

/** The address of the listener for operators (D39). */
export type AdminAddress = Pick<NonNullable<Config["admin"]>, "host" | "port">

/** A byte of a body is there as itself, as text, as a value, and as what is sent; all at a time while it is read (D77). */
export const COPIES = 4

type FileSettings = Decoded<Static<typeof Settings>>

export interface Config extends Omit<FileSettings, "admin"> {
  /** The separate listener for operators (D39); null if they share the public one. Read at the start only. */
  readonly admin:
    | (Omit<NonNullable<FileSettings["admin"]>, "oidc" | "port"> & { readonly port: number })
    | null
  /** Sign-in to the console by an OpenID provider (D103); null for none. Read at the start only. */
  readonly oidc: OidcSettings | null
  readonly vendors: readonly string[]
  readonly upstreams: readonly Upstream[]
  readonly models: readonly Model[]
  /** Time for which a month stays in the journal after its end (D75); null for ever. */
  readonly journal: { readonly keep_months: number | null }
  /** Empty where the ledger is in one database that the environment names, or in the embedded one. Read at the start only. */
  readonly shards: readonly Decoded<Static<typeof Shard>>[]
}

/** An invalid configuration: one line per error, `path.of.key: expected …`. The gateway does not start. */
export class ConfigError extends Error {
  override readonly name = "ConfigError"
  readonly faults: readonly Fault[]

  constructor(faults: readonly Fault[]) {
    super(faults.map(({ path, expected }) => `${path || "the file"}: expected ${expected}`).join("\n"))
    this.faults = faults
  }

  in(path: string): ConfigError {
    return new ConfigError(
      this.faults.map((fault) => ({ ...fault, path: fault.path === "" ? path : `${path}: ${fault.path}` })),
    )
  }
}
