import { sql } from "drizzle-orm"
import {
  bigint,
  boolean,
  check,
  customType,
  index,
  integer,
  jsonb,
  pgSchema,
  primaryKey,
  text,
  timestamp,
  uniqueIndex,
  uuid,
} from "drizzle-orm/pg-core"
import { buckets, picoRecord } from "../../kinds.ts"
import { bases, endings, endOutcomes, failures, periods, type Tags } from "../../wire/call.ts"
import { DEFAULT_PRIORITY, recordedKinds } from "../../wire/credits.ts"
import type { EndDetails } from "../entries.ts"

/**
 * The tables of the ledger. Entries of the journal (credits, terms, holds, ends, corrections, attempts, changes and thresholds of
 * budgets) are added and never changed: triggers refuse UPDATE, DELETE and TRUNCATE (D55). Everything else is state. There are no
 * foreign keys: they would lock the rows of busy accounts; the audit checks what they would.
 */
export const ledger = pgSchema("tollgate")

export const nano = (name: string) => bigint(name, { mode: "bigint" })
const pico = nano
export const moment = (name: string) => timestamp(name, { withTimezone: true, mode: "date" })
/** The id of a transaction, which never wraps; as digits. */
export const xid8 = customType<{ data: string }>({ dataType: () => "xid8" })
/** The transaction that wrote the entry: the order of the event feed (D96). Null in entries from before there was a feed. */
export const xid = () => xid8("xid").default(sql`pg_current_xact_id()`)
const details = () => jsonb("details").$type<EndDetails>()
export const words = (list: readonly string[]) => sql.raw(list.map((word) => `'${word}'`).join(", "))

export const endOutcome = ledger.enum("end_outcome", endOutcomes)
export const basis = ledger.enum("basis", bases)
export const ending = ledger.enum("ending", endings)
export const failure = ledger.enum("failure", failures)

/** Who pays. `available = balance - held`; both are sums over the journal, kept beside it (D55). */
export const accounts = ledger.table(
  "accounts",
  {
    id: uuid("id").primaryKey(),
    name: text("name").notNull(),
    /** The operator's own id of it (D94); null for none. */
    external_id: text("external_id"),
    balance_nano: nano("balance_nano").notNull().default(sql`0`),
    held_nano: nano("held_nano").notNull().default(sql`0`),
    created_at: moment("created_at").notNull().defaultNow(),
    suspended_at: moment("suspended_at"),
    /** True if the account has a budget or a customer price, or a key with a spending limit or a group. The limited and the exact statements read these (D42, D97, D100). */
    is_limited: boolean("is_limited").notNull().default(false),
    /** Incremented with every change of `budgets` and `customer_prices`, so that a statement finds that its snapshot is too old for them (D97, D100). */
    budgets_version: integer("budgets_version").notNull().default(0),
    /** The account's price multiplier, in basis points (D69). */
    price_multiplier_bp: integer("price_multiplier_bp").notNull().default(10_000),
    /** The name of the shard where the account is; null if it is here (D76). */
    moved_to: text("moved_to"),
    /** The name of the shard to which the account is, or was, moved from here, or of this one while it arrives; null: calls can be held. */
    moving_to: text("moving_to"),
    /** The id of that move, from which the ids of its credits are derived. */
    moving_id: uuid("moving_id"),
    /**
     * Time of the next start or expiry of a credit grant (D95); `infinity` for grants without such a time, `-infinity` while open calls
     * pin money of an expired one, and null for an account without grants.
     */
    next_change_at: timestamp("next_change_at", { withTimezone: true, mode: "string" }),
    /** The allowed overdraft: `available = balance + credit limit - held`; null for none. */
    credit_limit_nano: nano("credit_limit_nano"),
    /** The balance below which there is an alert (D96); null for none. */
    low_balance_nano: nano("low_balance_nano"),
    /** True from that alert until the balance is no longer below it. */
    is_balance_low: boolean("is_balance_low").notNull().default(false),
    /** True if the holders of its keys may make, rotate and revoke them (D104). */
    may_manage_keys: boolean("may_manage_keys").notNull().default(false),
  },
  (account) => [
    index("accounts_with_low_balance").on(account.id).where(sql`${account.low_balance_nano} IS NOT NULL`),
    uniqueIndex("account_by_external_id")
      .on(account.external_id)
      .where(sql`${account.external_id} IS NOT NULL AND ${account.moved_to} IS NULL`),
    index("accounts_moved").on(account.id).where(sql`${account.moved_to} IS NOT NULL`),
    index("accounts_to_change").on(account.next_change_at).where(sql`${account.next_change_at} < 'infinity'`),
    check("credit_limit_not_negative", sql`${account.credit_limit_nano} >= 0`),
    check("held_not_negative", sql`${account.held_nano} >= 0`),
    check("price_multiplier_positive", sql`${account.price_multiplier_bp} > 0`),
  ],
)

/** Money put on an account, or taken off it by a negative amount. The id is the caller's. With D95, a credit is a grant. */
export const credits = ledger.table(
  "credits",
  {
    id: uuid("id").primaryKey(),
    account_id: uuid("account_id").notNull(),
    amount_nano: nano("amount_nano").notNull(),
    reason: text("reason"),
    created_at: moment("created_at").notNull().defaultNow(),
    xid: xid(),
    /** Null for credits of version 0.2. */
    kind: text("kind").$type<(typeof recordedKinds)[number]>(),
    /** The draw-down order (D95): the smallest first, then the first to expire, then the oldest. */
    priority: integer("priority").notNull().default(DEFAULT_PRIORITY),
    /** The amount is in the balance from then on; null for immediately. */
    effective_at: moment("effective_at"),
    expires_at: moment("expires_at"),
    /** The seller's reference of a payment; a second credit with it is not made. */
    source_ref: text("source_ref"),
    /** The call that a refund gives money back for (D106); null for other credits. */
    call_id: uuid("call_id"),
    /** The first credit of the move with which it came from another shard (D76); null for others, and before version 0.3. */
    moved_with: uuid("moved_with"),
  },
  (credit) => [
    index("credits_of_call").on(credit.call_id).where(sql`${credit.call_id} IS NOT NULL`),
    index("credits_of_account").on(credit.account_id, credit.created_at),
    index("credits_by_xid").on(credit.xid).where(sql`${credit.xid} IS NOT NULL`),
    uniqueIndex("credit_by_source_ref").on(credit.source_ref).where(sql`${credit.source_ref} IS NOT NULL`),
    check("credit_kind_known", sql`${credit.kind} IN (${words(recordedKinds)})`),
    check("priority_known", sql`${credit.priority} BETWEEN 0 AND 100`),
  ],
)

/** API keys: only the SHA-256 (hex) and a displayable prefix are kept (D26). */
export const keys = ledger.table(
  "keys",
  {
    id: uuid("id").primaryKey(),
    account_id: uuid("account_id").notNull(),
    name: text("name"),
    hash: text("hash").notNull(),
    prefix: text("prefix").notNull(),
    /** Null means all models. */
    models: text("models").array(),
    expires_at: moment("expires_at"),
    revoked_at: moment("revoked_at"),
    last_used_at: moment("last_used_at"),
    created_at: moment("created_at").notNull().defaultNow(),
    suspended_at: moment("suspended_at"),
    /** Limit of the key's calls in one period (D42); null for no limit. */
    spend_limit_nano: nano("spend_limit_nano"),
    spend_period: text("spend_period"),
    /** Sum over the calls held since `spent_since`: the hold while a call is open, then its charge. Kept only with a limit. */
    spent_nano: nano("spent_nano").notNull().default(sql`0`),
    spent_since: moment("spent_since"),
    /** Tags of all its calls (D94); null for none. */
    labels: jsonb("labels").$type<Tags>(),
    /** Names of tags without which a call is refused; null for none. */
    required_tags: text("required_tags").array(),
    ignores_client_tags: boolean("ignores_client_tags").notNull().default(false),
    /** Counts the changes of these three, and rotations, so that the hold refuses calls by older rules or secrets. */
    labels_version: integer("labels_version").notNull().default(0),
    /** A path in the account's tree of groups, such as `acme/search` (D97). Its parents are the paths that it begins with. */
    group_path: text("group_path"),
    /** Hash of the secret before the last rotation (D104), which also works until then; null for none. */
    previous_hash: text("previous_hash"),
    previous_until: moment("previous_until"),
  },
  (key) => [
    uniqueIndex("key_by_hash").on(key.hash),
    index("key_by_previous_hash").on(key.previous_hash).where(sql`${key.previous_hash} IS NOT NULL`),
    index("keys_of_account").on(key.account_id, key.id),
    check("period_known", sql`${key.spend_period} IN (${words(periods)})`),
    check("limit_has_period", sql`(${key.spend_limit_nano} IS NULL) = (${key.spend_period} IS NULL)`),
    check("limit_not_negative", sql`${key.spend_limit_nano} >= 0`),
  ],
)

/** Spending on a key's former shard in the move's day and month (D76), which limits of that period count. */
export const carried_spending = ledger.table(
  "carried_spending",
  {
    key_id: uuid("key_id").notNull(),
    period: text("period").notNull(),
    since: moment("since").notNull(),
    spent_nano: nano("spent_nano").notNull(),
  },
  (carried) => [
    primaryKey({ columns: [carried.key_id, carried.period] }),
    check("carried_period_known", sql`${carried.period} IN (${words(periods)})`),
  ],
)

/** Gateway processes and their leases (D35). `floor_id` is at or below every id of a call that the process has open. */
export const gateways = ledger.table("gateways", {
  id: uuid("id").primaryKey(),
  floor_id: uuid("floor_id").notNull(),
  lease_until: moment("lease_until").notNull(),
  dead_at: moment("dead_at"),
  /** Set once a dead gateway has no open hold and can no longer get one. */
  swept_at: moment("swept_at"),
  started_at: moment("started_at").notNull().defaultNow(),
})

/** The columns of prices and of what they are for. */
const soldAt = () => ({
  family: text("family").notNull(),
  model: text("model").notNull(),
  upstream: text("upstream").notNull(),
  input_pico: pico("input_pico").notNull(),
  cached_input_pico: pico("cached_input_pico").notNull(),
  output_pico: pico("output_pico").notNull(),
  per_call_nano: nano("per_call_nano").notNull(),
  /** Null for kinds without a price of their own (D60). */
  ...picoRecord((bucket) => pico(`${bucket}_pico`)),
  /** The prices of prompts with more tokens than this (D62). */
  above_tokens: integer("above_tokens").notNull().default(0),
  /** The operation of the call (D63). */
  operation: text("operation").notNull().default("chat"),
  /** The service tier that the prices are for (D70); null for the model's own. */
  service_tier: text("service_tier"),
  /** The provider's names of its tools in their order, and the price of a run of each in the same order; null for none (D60). */
  tool_runs: text("tool_runs").array(),
  tool_run_pico: pico("tool_run_pico").array(),
  /** The customer price that the prices are of (D100), and the terms of the configuration in whose place they are; null for the latter. */
  customer_price_id: uuid("customer_price_id"),
  list_terms_id: integer("list_terms_id"),
})

/** Prices of calls: one immutable row for each model, upstream and set of prices that was ever configured (D56). */
export const terms = ledger.table(
  "terms",
  {
    id: integer("id").primaryKey().generatedAlwaysAsIdentity(),
    created_at: moment("created_at").notNull().defaultNow(),
    ...soldAt(),
  },
  (row) => [
    index("terms_of_customer_price")
      .on(row.customer_price_id)
      .where(sql`${row.customer_price_id} IS NOT NULL`),
  ],
)

/** Money held for a call. The id is the call's, a UUIDv7 of the gateway; `held_at` is the ledger's time. */
export const holds = ledger.table(
  "holds",
  {
    id: uuid("id").primaryKey(),
    account_id: uuid("account_id").notNull(),
    key_id: uuid("key_id").notNull(),
    gateway_id: uuid("gateway_id").notNull(),
    amount_nano: nano("amount_nano").notNull(),
    held_at: moment("held_at").notNull().defaultNow(),
    /** Of the first upstream in the model's list. */
    terms_id: integer("terms_id").notNull(),
    stream: boolean("stream").notNull(),
    /** The account's price multiplier, which is in the amount (D69); null for 1. */
    price_multiplier_bp: integer("margin_bp"),
    /** The session that the client named (D65); null for most calls. */
    session_id: text("session_id"),
    agent_id: text("agent_id"),
    /** The end user and tags (D94); null for calls without any. */
    labels_id: integer("labels_id"),
    /** The key's group when the call was held (D97); null for none. */
    group_path: text("group_path"),
    /** The most tokens that the call can use (D97); null in an account without limits. */
    held_tokens: integer("held_tokens"),
  },
  (hold) => [
    index("holds_of_session").on(hold.session_id, hold.id).where(sql`${hold.session_id} IS NOT NULL`),
    index("holds_of_account").on(hold.account_id, hold.id),
    index("holds_by_time").using("brin", hold.held_at),
    check("amount_not_negative", sql`${hold.amount_nano} >= 0`),
  ],
)

/** The columns that ends and corrections have in common. */
const settlement = () => ({
  id: uuid("id").primaryKey(),
  account_id: uuid("account_id").notNull(),
  key_id: uuid("key_id").notNull(),
  charge_nano: nano("charge_nano").notNull(),
  /** Of the upstream that answered. */
  terms_id: integer("terms_id").notNull(),
  prompt_tokens: integer("prompt_tokens"),
  cached_tokens: integer("cached_tokens"),
  completion_tokens: integer("completion_tokens"),
  ttft_ms: integer("ttft_ms"),
  duration_ms: integer("duration_ms"),
  basis: basis("basis").notNull(),
  ending: ending("ending"),
  failure: failure("failure"),
  notes: text("notes").array(),
  /** Counts charged of each bucket (D60), in the table's order; from `FIRST_RUN` on, of each tool. Or null. */
  buckets: integer("buckets").array(),
  /** That of the hold, which is in the charge (D69); null for 1. */
  price_multiplier_bp: integer("margin_bp"),
  /** Details besides the charge (D86, D87, D90); null if there are none. */
  details: details(),
  xid: xid(),
})

/** Ends of holds, each exactly once, because the primary key is the call's id (D13). */
export const ends = ledger.table(
  "ends",
  {
    ...settlement(),
    freed_nano: nano("freed_nano").notNull(),
    ended_at: moment("ended_at").notNull().defaultNow(),
    outcome: endOutcome("outcome").notNull(),
  },
  (end) => [
    index("ends_by_time").using("brin", end.ended_at),
    index("ends_by_xid").on(end.xid).where(sql`${end.xid} IS NOT NULL`),
    check("charge_not_negative", sql`${end.charge_nano} >= 0`),
  ],
)

/** Settlements after the expiry of their holds (D13): the call's final charge, and the difference. */
export const corrections = ledger.table(
  "corrections",
  {
    ...settlement(),
    /** `charge_nano` less the expiry's charge: the change of the balance. */
    difference_nano: nano("difference_nano").notNull(),
    corrected_at: moment("corrected_at").notNull().defaultNow(),
  },
  (correction) => [
    index("corrections_by_time").on(correction.corrected_at),
    index("corrections_by_xid").on(correction.xid).where(sql`${correction.xid} IS NOT NULL`),
    check("correction_not_negative", sql`${correction.charge_nano} >= 0`),
  ],
)

/** Charges of running calls if they expired (D57): overwritten while the call runs, removed when it has ended. No entry. */
export const checkpoints = ledger.table("checkpoints", {
  id: uuid("id").primaryKey(),
  gateway_id: uuid("gateway_id").notNull(),
  charge_nano: nano("charge_nano").notNull(),
  basis: basis("basis").notNull(),
  prompt_tokens: integer("prompt_tokens"),
  cached_tokens: integer("cached_tokens"),
  completion_tokens: integer("completion_tokens"),
  buckets: integer("buckets").array(),
  /** Of the upstream that answers; null for the terms of the hold, while none answers and before version 0.3. */
  terms_id: integer("terms_id"),
})

/** One row for a call: its hold, its end and its correction together, as receipts and lists show it. */
export const calls = ledger
  .view("calls", {
    id: uuid("id").notNull(),
    account_id: uuid("account_id").notNull(),
    key_id: uuid("key_id").notNull(),
    gateway_id: uuid("gateway_id").notNull(),
    amount_nano: nano("amount_nano").notNull(),
    charge_nano: nano("charge_nano"),
    held_at: moment("held_at").notNull(),
    ended_at: moment("ended_at"),
    prompt_tokens: integer("prompt_tokens"),
    cached_tokens: integer("cached_tokens"),
    completion_tokens: integer("completion_tokens"),
    ttft_ms: integer("ttft_ms"),
    duration_ms: integer("duration_ms"),
    stream: boolean("stream").notNull(),
    state: text("state").notNull(),
    basis: text("basis"),
    ending: text("ending"),
    failure: text("failure"),
    notes: text("notes").array().notNull(),
    buckets: integer("buckets").array(),
    price_multiplier_bp: integer("price_multiplier_bp"),
    session_id: text("session_id"),
    agent_id: text("agent_id"),
    details: details(),
    labels_id: integer("labels_id"),
    tags: jsonb("tags").$type<Tags>(),
    end_user_id: uuid("end_user_id"),
    end_user: text("end_user"),
    ...soldAt(),
  })
  .as(sql`
    SELECT h.id, h.account_id, h.key_id, h.gateway_id, h.amount_nano, coalesce(c.charge_nano, e.charge_nano) AS charge_nano,
      h.held_at, coalesce(c.corrected_at, e.ended_at) AS ended_at,
      CASE WHEN c.id IS NULL THEN e.prompt_tokens ELSE c.prompt_tokens END AS prompt_tokens,
      CASE WHEN c.id IS NULL THEN e.cached_tokens ELSE c.cached_tokens END AS cached_tokens,
      CASE WHEN c.id IS NULL THEN e.completion_tokens ELSE c.completion_tokens END AS completion_tokens,
      coalesce(c.ttft_ms, e.ttft_ms) AS ttft_ms, coalesce(c.duration_ms, e.duration_ms) AS duration_ms, h.stream,
      CASE WHEN e.id IS NULL THEN 'open' WHEN c.id IS NULL THEN e.outcome::text ELSE 'settled' END AS state,
      t.family, t.model, t.upstream, t.input_pico, t.cached_input_pico, t.output_pico, t.per_call_nano,
      coalesce(c.basis, e.basis)::text AS basis,
      (CASE WHEN c.id IS NULL THEN e.ending ELSE c.ending END)::text AS ending,
      (CASE WHEN c.id IS NULL THEN e.failure ELSE c.failure END)::text AS failure,
      coalesce(c.notes, e.notes, '{}') AS notes, CASE WHEN c.id IS NULL THEN e.buckets ELSE c.buckets END AS buckets,
      t.above_tokens, t.operation, h.margin_bp AS price_multiplier_bp, t.service_tier, h.session_id, h.agent_id,
      CASE WHEN c.id IS NULL THEN e.details ELSE c.details END AS details,
      h.labels_id, l.tags, l.end_user_id, u.subject AS end_user, t.customer_price_id, t.list_terms_id, t.tool_runs, t.tool_run_pico, ${sql.raw(buckets.map((bucket) => `t.${bucket}_pico`).join(", "))}
    FROM tollgate.holds h
    LEFT JOIN tollgate.ends e ON e.id = h.id
    LEFT JOIN tollgate.corrections c ON c.id = h.id
    LEFT JOIN tollgate.labels l ON l.id = h.labels_id
    LEFT JOIN tollgate.end_users u ON u.id = l.end_user_id
    JOIN tollgate.terms t ON t.id = coalesce(c.terms_id, e.terms_id, h.terms_id)`)
