import { sql } from "drizzle-orm"
import {
  bigint,
  boolean,
  check,
  index,
  integer,
  pgSchema,
  primaryKey,
  text,
  timestamp,
  uniqueIndex,
  uuid,
} from "drizzle-orm/pg-core"
import { bases, endings, periods, states } from "../wire/call.ts"

/**
 * The books. Every statement names its tables through `book`, so the schema's name stands in one place.
 * No foreign keys (they lock hot accounts) and no index on a column that changes (it would end in-page updates).
 */
export const book = pgSchema("tollgate")

const nano = (name: string) => bigint(name, { mode: "bigint" })
const pico = nano
const moment = (name: string) => timestamp(name, { withTimezone: true, mode: "date" })
const words = (list: readonly string[]) => sql.raw(list.map((word) => `'${word}'`).join(", "))

/** Whose money it is. `available = balance - held`; the journal is `credits` and `reservations`. */
export const accounts = book.table(
  "accounts",
  {
    id: uuid("id").primaryKey(),
    name: text("name").notNull(),
    balance_nano: nano("balance_nano").notNull().default(sql`0`),
    held_nano: nano("held_nano").notNull().default(sql`0`),
    created_at: moment("created_at").notNull().defaultNow(),
    suspended_at: moment("suspended_at"),
  },
  (account) => [check("held_not_negative", sql`${account.held_nano} >= 0`)],
)

/** Money put on an account, or taken off it by a negative correction. Never edited; the id is the caller's. */
export const credits = book.table(
  "credits",
  {
    id: uuid("id").primaryKey(),
    account_id: uuid("account_id").notNull(),
    amount_nano: nano("amount_nano").notNull(),
    reason: text("reason"),
    created_at: moment("created_at").notNull().defaultNow(),
  },
  (credit) => [index("credits_of_account").on(credit.account_id, credit.created_at)],
)

/** API keys: only the SHA-256 (hex) and a displayable prefix are kept (D26). */
export const keys = book.table(
  "keys",
  {
    id: uuid("id").primaryKey(),
    account_id: uuid("account_id").notNull(),
    name: text("name"),
    hash: text("hash").notNull(),
    prefix: text("prefix").notNull(),
    /** Null: every model. */
    models: text("models").array(),
    expires_at: moment("expires_at"),
    revoked_at: moment("revoked_at"),
    last_used_at: moment("last_used_at"),
    created_at: moment("created_at").notNull().defaultNow(),
    suspended_at: moment("suspended_at"),
    /** What the key's calls may cost in one period (D42); null for no limit. */
    spend_limit_nano: nano("spend_limit_nano"),
    spend_period: text("spend_period"),
    /** Which limit it is: calls that were counted under an earlier one are no longer. */
    spend_epoch: integer("spend_epoch").notNull().default(0),
    /** Of the period that began at `spent_since`: what is held, and what settled calls cost. */
    spent_nano: nano("spent_nano").notNull().default(sql`0`),
    spent_since: moment("spent_since"),
  },
  (key) => [
    uniqueIndex("key_by_hash").on(key.hash),
    index("keys_of_account").on(key.account_id, key.id),
    check("period_known", sql`${key.spend_period} IN (${words(periods)})`),
    check("limit_has_period", sql`(${key.spend_limit_nano} IS NULL) = (${key.spend_period} IS NULL)`),
    check("limit_not_negative", sql`${key.spend_limit_nano} >= 0`),
  ],
)

/** Gateway processes and their leases (D35). `floor_id` is at or below every call id of the process. */
export const gateways = book.table("gateways", {
  id: uuid("id").primaryKey(),
  floor_id: uuid("floor_id").notNull(),
  lease_until: moment("lease_until").notNull(),
  dead_at: moment("dead_at"),
  /** Set once nothing of a dead gateway can be open any more. */
  swept_at: moment("swept_at"),
  started_at: moment("started_at").notNull().defaultNow(),
})

/** Which call an `Idempotency-Key` stands for (D43): one row an account and key, taken by the statement that holds the call. */
export const idempotency = book.table(
  "idempotency",
  {
    account_id: uuid("account_id").notNull(),
    /** SHA-256 (hex) of what the client sent, which may be a secret of its own. */
    key_hash: text("key_hash").notNull(),
    /** SHA-256 (hex) of the body that came with it. */
    body_hash: text("body_hash").notNull(),
    call_id: uuid("call_id").notNull(),
    claimed_at: moment("claimed_at").notNull().defaultNow(),
  },
  (claim) => [
    primaryKey({ name: "idempotency_pkey", columns: [claim.account_id, claim.key_hash] }),
    index("idempotency_by_age").on(claim.claimed_at),
  ],
)

/** JSON answers that are kept to be told again (D43), where the configuration says so. */
export const answers = book.table(
  "answers",
  {
    call_id: uuid("call_id").primaryKey(),
    body: text("body").notNull(),
    expires_at: moment("expires_at").notNull(),
  },
  (answer) => [index("answers_by_end").on(answer.expires_at)],
)

/** One row per call: a hold first, a line of the journal afterwards; what is settled or released never changes again (D13). */
export const reservations = book.table(
  "reservations",
  {
    id: uuid("id").primaryKey(),
    account_id: uuid("account_id").notNull(),
    key_id: uuid("key_id").notNull(),
    gateway_id: uuid("gateway_id").notNull(),
    amount_nano: nano("amount_nano").notNull(),
    /** What expiry charges: the observed part of a call that outlived a lease renewal. */
    checkpoint_nano: nano("checkpoint_nano").notNull().default(sql`0`),
    charge_nano: nano("charge_nano"),
    input_pico: pico("input_pico").notNull(),
    cached_input_pico: pico("cached_input_pico").notNull(),
    output_pico: pico("output_pico").notNull(),
    started_at: moment("started_at").notNull().defaultNow(),
    closed_at: moment("closed_at"),
    prompt_tokens: integer("prompt_tokens"),
    cached_tokens: integer("cached_tokens"),
    completion_tokens: integer("completion_tokens"),
    ttft_ms: integer("ttft_ms"),
    duration_ms: integer("duration_ms"),
    stream: boolean("stream").notNull(),
    state: text("state").notNull().default("open"),
    model: text("model").notNull(),
    family: text("family").notNull(),
    upstream: text("upstream").notNull(),
    basis: text("basis"),
    ending: text("ending"),
    failure: text("failure"),
    notes: text("notes").array().notNull().default(sql`'{}'`),
    per_call_nano: nano("per_call_nano").notNull().default(sql`0`),
    /** The limit of the key under which the hold was counted (D42); null for none. */
    spend_epoch: integer("spend_epoch"),
  },
  (call) => [
    index("calls_of_account").on(call.account_id, call.id),
    index("calls_of_key").on(call.key_id, call.id),
    index("calls_of_model").on(call.model, call.id),
    check("amount_not_negative", sql`${call.amount_nano} >= 0`),
    check("checkpoint_not_negative", sql`${call.checkpoint_nano} >= 0`),
    check("charge_not_negative", sql`${call.charge_nano} >= 0`),
    check("state_known", sql`${call.state} IN (${words(states)})`),
    check("basis_known", sql`${call.basis} IN (${words(bases)})`),
    check("ending_known", sql`${call.ending} IN (${words(endings)})`),
    check("open_until_closed", sql`(${call.state} = 'open') = (${call.closed_at} IS NULL)`),
    check("charged_when_closed", sql`(${call.state} = 'open') = (${call.charge_nano} IS NULL)`),
    check("released_is_free", sql`${call.state} <> 'released' OR ${call.charge_nano} = 0`),
  ],
)
