import type { Price, PriceTexts } from "../money.ts"
import type { BudgetSettings, RateLeft } from "../wire/budget.ts"
import type {
  AgentSession,
  Basis,
  Ending,
  Failure,
  LostAttempt,
  Note,
  Period,
  ProviderIds,
  Tags,
} from "../wire/call.ts"
import type { Usage } from "../wire/usage.ts"

/** A call's request for money. `id` is the call's UUIDv7; the same id never holds twice. */
export interface Hold {
  readonly id: string
  readonly account_id: string
  readonly key_id: string
  /** The maximum cost of the call; once the hold is made, the held amount, which is that times its price multiplier (D69). */
  readonly amount_nano: bigint
  /** The maximum cost of the call at a price multiplier of 1, before it is rounded; absent where `amount_nano` is exact. */
  readonly cost_pico?: bigint
  /** The account's price multiplier, in `amount_nano` already; absent for 1, and before the hold is made. */
  readonly price_multiplier_bp?: number
  /**
   * `accounts.is_limited` when the hold was made; absent for false, or if it is not known. True before for a call at customer
   * terms (D100), because the statements for other accounts do not check those.
   */
  readonly is_limited?: boolean
  /** True if a budget per minute (D99) counts the call; absent for false, and before the hold is made. */
  readonly is_rated?: boolean
  /** The most tokens that the call can use, for budgets of tokens (D97). */
  readonly tokens?: number
  /** Terms of the call's model at the first upstream in its list, whichever is tried first (D56). */
  readonly terms_id: number
  readonly stream: boolean
  /** Null when the client sent no `Idempotency-Key` (D43). */
  readonly idempotency: Idempotency | null
  /** Absent where the client names none. */
  readonly session?: AgentSession
  /** Who and what the call is for (D94); absent for a call without an end user and tags. */
  readonly labels?: Labels
  /** The version of the key's labels and rules for tags that `labels` obey; absent for 0. Another one refuses the hold (D94). */
  readonly labels_version?: number
}

/** An end user and tags, as the account's shard has interned them (D94). Equal content has equal ids. */
export interface Labels {
  /** Of the row in `labels`, which `holds.labels_id` names. */
  readonly id: number
  /** Of the row in `end_users`; null if the call names no end user. */
  readonly end_user_id: string | null
  /** The key's own labels among them. */
  readonly tags: Tags
}

/** The end user and tags of a call, before they are interned (D94). */
export interface Labelled {
  readonly account_id: string
  readonly end_user: string | null
  /** Set by the operator for the key. */
  readonly fixed: Tags
  /** Sent by the client; none has the name of a fixed one. */
  readonly sent: Tags
}

/** Hashes of a client's `Idempotency-Key` and of its body: SHA-256, in hex (D43). */
export interface Idempotency {
  readonly key_hash: string
  readonly body_hash: string
}

/** An account's price multiplier as the holding statement read it, absent for 1 (D69). */
export interface Multiplied {
  readonly price_multiplier_bp?: number
}

/** The holding statement itself reads the key, its models, the balance and the price multiplier (D26, D69). */
export type HoldResult =
  | (Multiplied & Rated & { readonly outcome: "held"; readonly is_limited?: boolean })
  | (Multiplied & { readonly outcome: "insufficient_balance"; readonly available_nano: bigint })
  | { readonly outcome: "invalid_api_key" }
  | { readonly outcome: "model_not_allowed" }
  | { readonly outcome: "account_suspended" }
  | { readonly outcome: "key_suspended" }
  /** The key's labels or rules for tags have changed since the owner was read (D94). Read its standing and try again. */
  | { readonly outcome: "labels_changed" }
  /** The terms are not those of the customer price that applies now (D100). Read the standing and try again. */
  | { readonly outcome: "prices_changed" }
  | (Multiplied & {
      readonly outcome: "spending_limit_reached"
      readonly remaining_nano: bigint
      readonly period: Period
    })
  | (Multiplied &
      Rated & {
        readonly outcome: "budget_reached"
        /** One that leaves too little for the call (D97), after the holds that were admitted with it. Amounts are in its unit. */
        readonly budget: BudgetUse & { readonly needed: bigint }
        /** The time after which the call fits in its budgets per minute (D99), if it can and only they refuse it. */
        readonly wait_ms?: number
      })
  /** Another call of the account has this `Idempotency-Key`, with the same body or another one (D43). */
  | { readonly outcome: "idempotency_key_used" | "idempotency_key_reused"; readonly call_id: string }

/** The budgets per minute that a call counts in (D99), after the holds that were admitted with it; absent for none. */
export interface Rated {
  readonly rates?: readonly RateLeft[]
}

export interface BudgetUse
  extends Pick<BudgetSettings, "name" | "selector" | "selected" | "unit" | "period"> {
  readonly id: string
  /** That is in force now. */
  readonly amount: bigint
  readonly spent: bigint
  /** Of open calls. In an error of a budget per minute, what is kept for another call that was refused (D99). */
  readonly held: bigint
  /** The end of the window; null for a minute and a total. */
  readonly resets_at: Date | null
}

/** The end of a hold, exactly once (D13). A release is a charge of 0 with basis `none`. */
export interface End {
  readonly id: string
  readonly outcome: "settled" | "released"
  readonly charge_nano: bigint
  readonly basis: Basis
  readonly ending: Ending | null
  readonly failure: Failure | null
  readonly notes: readonly Note[]
  readonly usage: Usage | null
  readonly details?: EndDetails
  /** The terms of the upstream that answered; null for those of the hold, if none did. */
  readonly terms_id: number | null
  /** From admission to the first event of output, in milliseconds; null when there was none. */
  readonly ttft_ms: number | null
  readonly duration_ms: number
  /** The hash of an `Idempotency-Key` that is free again, because no provider answered the call with a 2xx (D43). */
  readonly freed_key_hash: string | null
}

/** Details of a call besides its charge (D86, D87, D90). A field without a value is absent. */
export interface EndDetails extends ProviderIds {
  /** Only of entries before D93. */
  readonly attempts?: readonly LostAttempt[]
  /** Paths of numbers in the provider's usage that Tollgate does not know: of ASCII letters, digits and `_ . - [ ] ?`. */
  readonly unread?: readonly string[]
  /** The provider's total less its parts. */
  readonly unexplained_tokens?: number
  readonly provider_cost_nano?: string
  readonly estimate?: {
    readonly output_bytes: number
    readonly prompt_bytes: number
    readonly bytes_per_token: number
  }
}

/** An attempt that did not become the answer of its call (D93). */
export interface AttemptEntry extends LostAttempt {
  /** The call's. */
  readonly id: string
  /** The number of the call's attempts before it in the journal. */
  readonly ordinal: number
  readonly account_id: string
  /** By the ledger's clock, in RFC 3339. */
  readonly ended_at: string
}

/** The charge of a running call if its gateway died now (D13, D57). */
export type Checkpoint = Pick<End, "id" | "charge_nano" | "basis" | "usage" | "terms_id">

/** Prices of calls: one row of the ledger, which never changes (D56). */
export interface PriceTerms {
  readonly family: string
  /** The operation (D63); absent for chat. */
  readonly operation?: string
  readonly model: string
  readonly upstream: string
  readonly price: Price
  /** For prompts with more tokens than this (D62); absent for 0. */
  readonly above_tokens?: number
  /** Of the provider (D70); absent for the model's own price. */
  readonly service_tier?: string
  /** The customer price that the price is of, and the terms in whose place it is (D100); absent for prices of the configuration. */
  readonly customer_price_id?: string
  readonly list_terms_id?: number
}

/** A customer price that applies now (D100): a multiplier, or prices by kind. */
export interface CustomerPrice {
  readonly id: string
  /** Null for all models. */
  readonly model: string | null
  readonly price_multiplier_bp: number | null
  readonly prices: CustomerPriceTexts | null
}

/** A price of a price list (D110). */
export type PriceOfList = Omit<CustomerPrice, "id">

/** Prices of the kinds that they name. */
export type CustomerPriceTexts = Partial<PriceTexts>

/** Data about estimates from a call with final usage (D92). */
export interface EstimateSample {
  readonly model: string
  readonly operation: string
  /** The prompt and the output as an estimate counts them (D6). */
  readonly prompt_bytes: number
  readonly output_bytes: number
  /** As the provider reported them. Output tokens are those of text, and include the reasoning tokens. */
  readonly prompt_tokens: number
  readonly output_tokens: number
  readonly reasoning_tokens: number
  /** The settings of the model; `hidden_output` is 0 if it has none. */
  readonly bytes_per_token: number
  readonly hidden_output: number
}

/** A call that was refused before anything was held (D80). */
export interface RefusedCall {
  /** Null for an unknown key, or without one. */
  readonly owner: Pick<Owner, "account_id" | "key_id"> | null
  readonly code: string
}

/** The key's owner and current permissions, read from the ledger in one snapshot (D22, D26, D30). */
export interface Standing extends Owner, Multiplied {
  /** The hash of the key's secret, if the hash that was asked for is that of the one before it, which still works (D104). */
  readonly current_hash?: string
  /** Neither revoked nor expired. */
  readonly active: boolean
  /** The models the key is limited to; null for all. */
  readonly models: readonly string[] | null
  readonly available_nano: bigint
  readonly account_suspended: boolean
  readonly key_suspended: boolean
  /** The rest of the key's limit in this period (D42); null without a limit. */
  readonly spending: { readonly remaining_nano: bigint; readonly period: Period } | null
  /** True if the account has spending limits, groups, budgets or customer prices. */
  readonly is_limited: boolean
}

/** Account, key and shard of a hash. Remembered rules and prices may be older; the hold refuses those (D94, D100). */
export interface Owner {
  /** The index of the account's shard in the list of all; 0 where there is one (D74). */
  readonly shard: number
  readonly account_id: string
  readonly key_id: string
  /** Absent for a key that never had any. */
  readonly tag_rules?: TagRules
  /** The customer prices of the account that hold now (D100); absent if there are none. */
  readonly prices?: readonly CustomerPrice[]
}

/** A key's labels, and its rules for the tags of its calls (D94). */
interface TagRules {
  readonly version: number
  /** Tags of all its calls, which no client can change. */
  readonly labels: Tags
  readonly required_tags: readonly string[]
  readonly ignores_client_tags: boolean
}

/** A part of an answer that several shards gave together. */
export interface OfShard {
  /** The name of the shard; absent where there is one (D74). */
  readonly shard?: string
}

/** The ledger did not answer in time, or cannot take a call now. Nothing is held for the caller. */
export class LedgerUnavailable extends Error {
  override readonly name: string = "LedgerUnavailable"
}

/** The account is being moved to another shard (D76). Nothing is held, and nothing was changed. */
export class AccountMoving extends LedgerUnavailable {
  override readonly name = "AccountMoving"

  constructor() {
    super("the account is being moved to another shard")
  }
}

/** The database did not answer an operator or a client in time, or failed. A change may have been applied. */
export class NoAnswer extends LedgerUnavailable {
  override readonly name = "NoAnswer"
  /** The id of what may have been made. */
  readonly id: string | undefined
  /** The name of the shard that did not answer, if there are several (D74). */
  readonly shard: string | undefined

  constructor(cause: string, { id, shard }: { readonly id?: string | undefined; readonly shard?: string }) {
    super(cause)
    this.id = id
    this.shard = shard
  }
}

/** Thrown for a shard that does not exist (D74). */
export class UnknownShard extends Error {
  override readonly name = "UnknownShard"
  readonly known: readonly string[]

  constructor(known: readonly string[]) {
    super("there is no shard of this name")
    this.known = known
  }
}

/** Thrown when a usage report that must have all groups has too many, or too many to add them over several shards (D74). */
export class TooManyGroups extends Error {
  override readonly name = "TooManyGroups"
}

/** Thrown when the ledger's queue is full. */
export class LedgerBusy extends Error {
  override readonly name = "LedgerBusy"

  constructor() {
    super("too many calls wait for the ledger")
  }
}

/** Thrown when a request needs entries that are no longer in the journal (D75). */
export class EntriesArchived extends Error {
  override readonly name = "EntriesArchived"
  /** Reports before this time have only sums of whole hours. */
  readonly until: Date

  constructor(until: Date) {
    super("the entries are archived")
    this.until = until
  }
}

const GAPS = {
  archived: "events after the place in the feed are archived",
  unknown_cursor: "the ledger does not know the place in the feed",
  no_order:
    "the ledger was restored twice and no longer knows which events were sent: create the sink again without `from`",
} as const

/** Thrown when the event feed cannot continue after a cursor without leaving out events (D96). */
export class FeedGap extends Error {
  override readonly name = "FeedGap"
  /** `unknown_cursor`: of another ledger, or later than a backup. `no_order`: events would come again. */
  readonly reason: keyof typeof GAPS

  constructor(reason: FeedGap["reason"]) {
    super(GAPS[reason])
    this.reason = reason
  }
}

/** The ledger as calls see it, as far as it knows no shard. Every method may reject with `LedgerUnavailable`. */
export interface CallLedger {
  /** The standing of the key with this SHA-256 (hex), or null when there is no such key. */
  standing(key_hash: string): Promise<Standing | null>
  /** Account and key of a hash that could call when last read (D26). They never change. Null if not known. */
  owner(key_hash: string): Owner | null
  forget(key_hash: string): void
  /** The shard of a key that its former shard no longer has, because accounts can move (D74); null if no shard has it. */
  elsewhere(key_hash: string, owner: Owner): Promise<Owner | null>
  shard(index: number): ShardLedger
}

/** One shard as calls see it. Every method may reject with `LedgerUnavailable`, those that queue with `LedgerBusy`. */
export interface ShardLedger {
  /** The labels of a call (D94). A promise only for a combination that this process does not know yet. */
  labels(labelled: Labelled): Labels | Promise<Labels>
  /** The ids of terms, which are made if they are new (D56). All are of one customer price (D100). */
  customerTerms(wanted: readonly PriceTerms[]): Promise<readonly number[]>
  /** Holds or refuses within 2 s. The id of a hold that may have been made nevertheless is closed (D27). */
  hold(hold: Hold): Promise<HoldResult>
  /**
   * Resolves once the end is durable in the ledger. Until then it is spooled and retried (D27). Never rejects. If the ledger
   * refuses the end for its data, or the process stops first, the end is only in the spool. Only the ledger itself uses the
   * result.
   */
  end(end: End): Promise<unknown>
  /** Resolves when an end that is not in the ledger yet is in the spool on the disk, or the disk has refused it. */
  spooled(call_id: string): Promise<void>
  /** Adds an attempt to the journal in the background, retried and spooled like an end (D93). */
  attempted(attempt: AttemptEntry): void
  /** Adds the call to the sums about estimates, which are written once a minute (D92). */
  recordEstimate(sample: EstimateSample): void
  /** Counts a call that was refused (D80). Counts are written once a minute. */
  refused(refusal: RefusedCall): void
  /** Keeps a JSON answer to be sent again for `keep_ms` (D43). Rejects when it is not taken within 250 ms. */
  keepAnswer(call_id: string, body: string, keep_ms: number): Promise<void>
  keptAnswer(call_id: string): Promise<string | null>
}
