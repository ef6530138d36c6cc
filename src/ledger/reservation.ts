import type { Price } from "../money.ts"
import type { Basis, Ending, Failure, Note, Period } from "../wire/call.ts"
import type { Usage } from "../wire/usage.ts"

/** What a call asks the books to hold. `id` is its UUIDv7: the same id again never holds twice. */
export interface Hold {
  readonly id: string
  readonly account_id: string
  readonly key_id: string
  readonly amount_nano: bigint
  readonly model: string
  readonly family: string
  /** The first upstream that will be tried; the closing names the one that answered. */
  readonly upstream: string
  readonly stream: boolean
  /** Pinned: what the call settles at, whatever the configuration says later. */
  readonly price: Price
  /** Null when the client sent no `Idempotency-Key` (D43). */
  readonly idempotency: Idempotency | null
}

/** What a client's `Idempotency-Key` and the body that came with it are known by: SHA-256, in hex (D43). */
export interface Idempotency {
  readonly key_hash: string
  readonly body_hash: string
}

/** What the books said. The reserving statement itself read the key, its models and the balance (D26). */
export type HoldResult =
  | { readonly outcome: "held" }
  | { readonly outcome: "insufficient_balance"; readonly available_nano: bigint }
  | { readonly outcome: "invalid_api_key" }
  | { readonly outcome: "model_not_allowed" }
  | { readonly outcome: "account_suspended" }
  | { readonly outcome: "key_suspended" }
  | { readonly outcome: "spending_limit_reached"; readonly remaining_nano: bigint; readonly period: Period }
  /** Another call of the account has this `Idempotency-Key`, with the same body or another one (D43). */
  | { readonly outcome: "idempotency_key_used" | "idempotency_key_reused"; readonly call_id: string }

/** How a reservation ends: exactly once (D13). A release is a charge of 0 with basis `none`. */
export interface Closing {
  readonly id: string
  readonly outcome: "settled" | "released"
  readonly charge_nano: bigint
  readonly basis: Basis
  readonly ending: Ending | null
  readonly failure: Failure | null
  readonly notes: readonly Note[]
  readonly usage: Usage | null
  readonly upstream: string | null
  /** From admission to the first event of output, in milliseconds; null when there was none. */
  readonly ttft_ms: number | null
  readonly duration_ms: number
}

/** What a running call would be charged if its gateway died now (D13). */
export interface Checkpoint {
  readonly id: string
  readonly charge_nano: bigint
  readonly basis: Basis
  readonly usage: Usage | null
}

/** Whose key it is and what it may do now, read from the books in one snapshot (D22, D26, D30). */
export interface Standing {
  readonly account_id: string
  readonly key_id: string
  /** Neither revoked nor expired. */
  readonly active: boolean
  /** The models the key is limited to; null for all. */
  readonly models: readonly string[] | null
  readonly available_nano: bigint
  readonly account_suspended: boolean
  readonly key_suspended: boolean
  /** What the key may still spend in this period (D42); null when it has no limit. */
  readonly spending: { readonly remaining_nano: bigint; readonly period: Period } | null
}

/** Account and key of a key's hash: what never changes. */
export interface Owner {
  readonly account_id: string
  readonly key_id: string
}

/** The books as the calls see them. */
export interface Books {
  /**
   * The standing of the key with this SHA-256 (hex), or null when there is no such key. Throws `ledger_unavailable`.
   */
  standing(key_hash: string): Promise<Standing | null>
  /**
   * Account and key of a hash: what never changes, so a bounded cache may answer (D26). Null when there is no such key.
   */
  owner(key_hash: string): Promise<Owner | null>
  /** Holds or says why not. Throws `ledger_unavailable` within 2 s, the id closed behind it (D27). */
  reserve(hold: Hold): Promise<HoldResult>
  /**
   * Resolves once the closing is durable in the books; what cannot be written is spooled and tried until it is (D27).
   * Never rejects. Only a closing that the books refuse for its data, or that is not written when the process stops,
   * resolves with nothing but its line in the spool.
   */
  close(closing: Closing): Promise<void>
  /** Keeps a JSON answer to be told again for `keep_ms` (D43). Rejects when the books do not take it within 250 ms. */
  keepAnswer(call_id: string, body: string, keep_ms: number): Promise<void>
  /** The answer that is kept of a call; null when there is none. Throws `ledger_unavailable`. */
  keptAnswer(call_id: string): Promise<string | null>
}
