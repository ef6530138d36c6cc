import type { Rate, ServiceTier } from "../money.ts"
import type { ErrorMeanings } from "../presets/preset.ts"
import type { ReaderName } from "../usage/readers.ts"
import type { OperationName } from "../wire/call.ts"
import type { Fault } from "../wire/fault.ts"

/** The parsed configuration: units in the names, prices parsed, upstreams resolved. */

/** The API family of an upstream or a model: chat completions or messages. */
export type Family = "chat" | "messages"

/** The operations that the models of a family can offer (D63). */
export const operationsOf: Readonly<Record<Family, readonly [OperationName, ...OperationName[]]>> = {
  chat: ["chat", "embeddings", "responses"],
  messages: ["messages"],
}

/** What happens to the upstream request when the client disconnects (D9). */
export type OnDisconnect = "abort" | "drain"

/** The same for a stream: `auto` drains where output may be hidden from clients, and otherwise aborts after `leave_wait`. */
export type OnStreamDisconnect = OnDisconnect | "auto"

/** When an estimate charges the prompt too (D6): `client_cut` is for a stream that its client left or let stall. */
export type EstimatePrompt = "never" | "client_cut" | "always"

export interface Upstream {
  readonly name: string
  readonly family: Family
  /** Without a trailing slash. */
  readonly base_url: string
  /** What it is asked with: never empty (D82). */
  readonly keys: readonly [Credential, ...Credential[]]
  /** How its usage is read (D87). */
  readonly usage: ReaderName
  /** The header of the credential, in lower case, and what precedes the credential in it (D81). */
  readonly auth: { readonly header: string; readonly prefix: string }
  /** Further headers of every request, by lower-case name (D81). */
  readonly headers: Readonly<Record<string, string>>
  /** What every request adds to its query, without a question mark; `""` for nothing (D81). */
  readonly query: string
  /** What is changed in the body of every request; null for nothing (D81). */
  readonly edits: Edits | null
  /** The preset of the upstream (D83), and the key of the file that selected it; null if there is none. */
  readonly preset: { readonly name: string; readonly from: "provider" | "base_url" } | null
  /** The meaning of its refusals, if their status does not tell it (D82). */
  readonly errors: ErrorMeanings
  /** What no client may be shown: the credential, and long values of headers and the query. */
  readonly secrets: readonly string[]
  readonly timeouts: {
    /** For a connection, TLS included (D31). */
    readonly connect_ms: number
    readonly first_byte_ms: number
    readonly idle_ms: number
    readonly total_ms: number
  }
  /** How long a connection without a request is kept (D59); null for the default. */
  readonly idle_connection_ms: number | null
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
  /** Whether clients see what the provider says that a call costs the operator (D24). */
  readonly pass_cost: boolean
  readonly on_disconnect: {
    readonly stream: OnStreamDisconnect
    readonly json: OnDisconnect
    readonly drain_for_ms: number
  }
}

/** A key of an upstream. */
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

/** An upstream for a model, and the upstream's name of the model. */
export interface Route {
  readonly upstream: Upstream
  readonly model: string
  /** Lower ones are asked first (D82). */
  readonly priority: number
  /** Its share of the calls, beside those of the same priority. */
  readonly weight: number
}

export interface Model extends Rate {
  /** The name that clients send; matched byte for byte (D19). */
  readonly name: string
  readonly family: Family
  /** What clients can call it for (D63); never empty. */
  readonly operations: readonly OperationName[]
  /** In the order of the file; never empty. D82 says in which order they are tried. */
  readonly routes: readonly [Route, ...Route[]]
  /** Service tiers that have a price of their own; mostly none (D70). */
  readonly service_tiers: readonly ServiceTier[]
  /** 0 for a model that only makes embeddings. */
  readonly max_output_tokens: number
  /** Output tokens held if the request sets no limit (D12). */
  readonly hold_output_tokens: number
  /** Tokens held for a picture, and at least for a sound or a file; null: its pixels say, and else 4,096 (D12). */
  readonly part_tokens: number | null
  /** The most tokens a prompt can have; null when it is not known (D12). */
  readonly context_tokens: number | null
  /** How many contexts an open prompt holds, and how many are plausible (D89). */
  readonly open: { readonly hold_rounds: number; readonly max_rounds: number }
  /** What a request may not ask for (D61). */
  readonly refuse: readonly Refusal[]
  /** Fields that every request gets, by their paths. */
  readonly set: Readonly<Record<string, unknown>>
  /** How careful a hold is: a token for each byte of the prompt's text, or for two (D68). */
  readonly hold: "worst" | "likely"
  /** Searches held for a call that asks for them, if the price names them (D60). */
  readonly hold_searches: number
  /** Bytes of output per estimated token (D6). */
  readonly bytes_per_token: number
  /** When an estimate also charges the gateway's own prompt estimate (D6). */
  readonly estimate: {
    readonly prompt: EstimatePrompt
    /** Tokens that an estimate adds for unseen reasoning where a client cut its stream after output. */
    readonly hidden_output?: number | undefined
  }
}

/** A field of a request that the operator refuses. */
export interface Refusal {
  /** Names, separated by dots. */
  readonly path: string
  /** As text; null for any value. */
  readonly value: string | null
}

/** A database that keeps a part of the accounts (D74). */
export interface ShardConfig {
  /** In the log, and in the path of its spool. */
  readonly name: string
  /** With its password: for no log. */
  readonly url: string
  readonly schema: string
  /** Whether accounts are created in it. */
  readonly open: boolean
}

/** Whether any of these operations has output tokens: all but embeddings have (D67). */
export function haveOutput(operations: readonly OperationName[]): boolean {
  return operations.some((operation) => operation !== "embeddings")
}

/** Where the listener for operators is (D39). */
export interface AdminAddress {
  readonly host: string
  readonly port: number
}

/** A byte of a body is there as itself, as text, as a value, and as what is sent; all at a time while it is read (D77). */
export const COPIES = 4

export interface Config {
  /** The separate listener for operators (D39); null if they share the public one. Read at the start only. */
  readonly admin:
    | (AdminAddress & { /** No token for `/metrics` there. */ readonly open_metrics: boolean })
    | null
  /** Origins whose pages can call the API from a browser (D40). */
  readonly cors: { readonly origins: readonly string[] }
  readonly vendors: readonly string[]
  readonly upstreams: readonly Upstream[]
  readonly models: readonly Model[]
  readonly stream: {
    readonly keepalive_ms: number
    readonly commit_after_ms: number
    readonly stall_ms: number
    /** How long a finished answer whose client is gone is read on for its usage (D9). */
    readonly finish_wait_ms: number
    /** How long any other answer whose client is gone is read on, where nothing is hidden from clients (D9). */
    readonly leave_wait_ms: number
  }
  readonly limits: {
    readonly body_bytes: number
    readonly body_timeout_ms: number
    /** Of a provider's JSON answer that is delivered. */
    readonly response_bytes: number
    /** So much of a larger one is read for its usage (D5). */
    readonly response_read_bytes: number
    readonly event_bytes: number
    /** For bodies and answers of one process (D77); null for a part of the machine's memory. */
    readonly memory_bytes: number | null
    readonly in_flight: number
    /** Limits of one key in one process (D38); null for no limit. */
    readonly per_key: {
      readonly in_flight: number | null
      readonly requests_per_minute: number | null
      readonly abandoned_per_minute: number | null
    }
  }
  /** Whether clients see the margin of their account, and the prices without it (D69). */
  readonly receipts: { readonly show_margin: boolean }
  /** How long JSON responses are stored for replay under their `Idempotency-Key` (D43); null: not stored. */
  readonly idempotency: { readonly keep_answers_ms: number | null }
  /** How long after its end a month stays in the journal (D75); null for ever. */
  readonly journal: { readonly keep_months: number | null }
  readonly lease: { readonly renew_ms: number; readonly expire_ms: number }
  readonly shutdown: { readonly ready_delay_ms: number; readonly drain_ms: number }
  /** Empty where the ledger is in one database that the environment names, or in the embedded one. Read at the start only. */
  readonly shards: readonly ShardConfig[]
  /** How many processes share the port; 1 means no worker processes. */
  readonly workers: number
}

/** An invalid configuration: one line per error, `path.of.key: expected …`. The gateway does not start. */
export class ConfigError extends Error {
  override readonly name = "ConfigError"
  readonly faults: readonly Fault[]

  constructor(faults: readonly Fault[]) {
    super(faults.map(({ path, expected }) => `${path || "the file"}: expected ${expected}`).join("\n"))
    this.faults = faults
  }

  /** The same errors, prefixed with the path of the file. */
  in(path: string): ConfigError {
    return new ConfigError(
      this.faults.map((fault) => ({ ...fault, path: fault.path === "" ? path : `${path}: ${fault.path}` })),
    )
  }
}
