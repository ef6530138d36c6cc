import type { Price } from "../money.ts"

/** What a configuration file means once it is read: units in the names, prices parsed, upstreams resolved. */

/** The entry an upstream or a model is open for: chat completions, or the messages-style family. */
export type Family = "chat" | "messages"

/** What happens to a provider's answer when its client leaves (D9). */
export type OnDisconnect = "abort" | "drain"

/** When an estimate charges the prompt too (D6): `client_cut` is for a stream that its client left or let stall. */
export type EstimatePrompt = "never" | "client_cut" | "always"

export interface Upstream {
  readonly name: string
  readonly family: Family
  /** Without a trailing slash. */
  readonly base_url: string
  /** Null when the upstream takes none. */
  readonly api_key: string | null
  readonly timeouts: { readonly first_byte_ms: number; readonly idle_ms: number; readonly total_ms: number }
  readonly on_disconnect: {
    readonly stream: OnDisconnect
    readonly json: OnDisconnect
    readonly drain_for_ms: number
  }
}

/** One way to a model: an upstream and what it calls the model. */
export interface Route {
  readonly upstream: Upstream
  readonly model: string
}

export interface Model {
  /** What clients say; matched byte for byte (D19). */
  readonly name: string
  readonly family: Family
  /** Tried in this order (D14); never empty. */
  readonly routes: readonly [Route, ...Route[]]
  readonly price: Price
  readonly max_output_tokens: number
  /** Output tokens held when the request bounds none (D12). */
  readonly hold_output_tokens: number
  /** Tokens held for an image part, and at least for an audio or file part (D12). */
  readonly part_tokens: number
  /** The most tokens a prompt can have; null when it is not known (D12). */
  readonly context_tokens: number | null
  /** Bytes of output per estimated token (D6). */
  readonly bytes_per_token: number
  /** When an estimate also charges the gateway's own prompt estimate (D6). */
  readonly estimate: { readonly prompt: EstimatePrompt }
}

export interface Config {
  /** Where operators are served, apart from the clients (D39); null where the clients are. Read at the start only. */
  readonly admin: { readonly host: string; readonly port: number } | null
  /** Origins whose pages may call from a browser (D40). */
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
  }
  readonly limits: {
    readonly body_bytes: number
    readonly body_timeout_ms: number
    /** Of a provider's JSON answer that is delivered. */
    readonly response_bytes: number
    /** So much of a larger one is read for its usage (D5). */
    readonly response_read_bytes: number
    readonly event_bytes: number
    readonly in_flight: number
    /** What one key may take of one process (D38); null for no limit. */
    readonly per_key: { readonly in_flight: number | null; readonly requests_per_minute: number | null }
  }
  /** How long JSON answers are kept to be told again under their `Idempotency-Key` (D43); null: they are not. */
  readonly idempotency: { readonly keep_answers_ms: number | null }
  readonly lease: { readonly renew_ms: number; readonly expire_ms: number }
  readonly shutdown: { readonly ready_delay_ms: number; readonly drain_ms: number }
  /** How many processes share the port; 1 is this process alone. */
  readonly workers: number
}
