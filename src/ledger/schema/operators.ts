import { sql } from "drizzle-orm"
import { check, index, integer, json, text, uniqueIndex, uuid } from "drizzle-orm/pg-core"
import { type RecordedRole, type Role, roles } from "../../wire/roles.ts"
import { ledger, moment, words, xid } from "./tables.ts"

/** Operators with tokens of their own (D101), in the first shard. State, not entries: their changes are in the log. */
export const operators = ledger.table(
  "operators",
  {
    id: uuid("id").primaryKey(),
    name: text("name").notNull(),
    role: text("role").$type<Role>().notNull(),
    /** SHA-256 of the token, in hex. */
    token_hash: text("token_hash").notNull(),
    expires_at: moment("expires_at"),
    /** Written at most once a minute. */
    last_used_at: moment("last_used_at"),
    created_at: moment("created_at").notNull().defaultNow(),
    revoked_at: moment("revoked_at"),
  },
  (operator) => [
    uniqueIndex("operator_by_token").on(operator.token_hash),
    uniqueIndex("operator_by_name").on(operator.name).where(sql`${operator.revoked_at} IS NULL`),
    check("operator_role_known", sql`${operator.role} IN (${words(roles)})`),
  ],
)

/** The log of changes (D102), in the first shard, written before a change runs; without an end: unknown. */
export const operator_changes = ledger.table(
  "operator_changes",
  {
    /** In the order of time. */
    id: uuid("id").primaryKey(),
    at: moment("at").notNull().default(sql`clock_timestamp()`),
    /** The name of the operator. */
    actor: text("actor").notNull(),
    /** Null for an actor without a row in `operators`. */
    operator_id: uuid("operator_id"),
    role: text("role").$type<RecordedRole>().notNull(),
    /** The address of the socket; null for a change directly in the database. */
    address: text("address"),
    /** The `X-Forwarded-For` of the request, which the sender can invent. */
    forwarded_for: text("forwarded_for"),
    method: text("method").notNull(),
    /** The path with names of parameters: `/admin/keys/:id`. */
    route: text("route").notNull(),
    /** The id in the path. */
    resource_id: uuid("resource_id"),
    reason: text("reason"),
    /** The body without secrets. `json`, because it keeps what `jsonb` refuses. */
    request: json("request").$type<unknown>(),
    /** The resource before; null if there was none. */
    before: json("before").$type<unknown>(),
  },
  (change) => [
    index("operator_changes_of_actor").on(change.actor, change.id),
    index("operator_changes_of_resource").on(change.resource_id, change.id),
  ],
)

/** The outcomes of operators' changes (D102): entries, one for each change at most. */
export const operator_change_ends = ledger.table(
  "operator_change_ends",
  {
    id: uuid("id").primaryKey(),
    ended_at: moment("ended_at").notNull().default(sql`clock_timestamp()`),
    /** The status of the answer; null if the gateway died before it could write one. */
    status: integer("status"),
    /** The id in the answer: of a new resource, or again the one in the path. */
    made_id: uuid("made_id"),
    /** The answer without secrets: the resource after the change. */
    after: json("after").$type<unknown>(),
    xid: xid(),
  },
  (end) => [
    index("operator_change_ends_by_xid").on(end.xid).where(sql`${end.xid} IS NOT NULL`),
    index("operator_change_ends_of_resource").on(end.made_id, end.id),
  ],
)

/** The open sessions of the console (D50). State, not entries: a row is deleted when its session ends. */
export const console_sessions = ledger.table("console_sessions", {
  /** Of the secret in the cookie, keyed with the admin token: another token ends every session. */
  hash: text("hash").primaryKey(),
  expires_at: moment("expires_at").notNull(),
  /** Who signed in (D101). The defaults are those of the configured token, for gateways of an older version. */
  actor: text("actor").notNull().default("configured"),
  role: text("role").$type<Role>().notNull().default("admin"),
  /** The operator whose token opened it, and whose row decides; null for another sign-in. */
  operator_id: uuid("operator_id"),
})
