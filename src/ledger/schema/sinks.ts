import { sql } from "drizzle-orm"
import { boolean, check, integer, jsonb, text, uniqueIndex, uuid } from "drizzle-orm/pg-core"
import { type SinkKind, type SkippedEvent, sinkKinds } from "../../wire/sink-kinds.ts"
import { ledger, moment, words, xid8 } from "./tables.ts"

/** Receivers of events (D96). State, not entries. In several shards each has a row for every sink, with its own place. */
export const sinks = ledger.table(
  "sinks",
  {
    id: uuid("id").primaryKey(),
    name: text("name").notNull(),
    kind: text("kind").$type<SinkKind>().notNull().default("webhook"),
    /** The name of the meter or metric at the vendor; null for the other kinds. */
    meter: text("meter"),
    url: text("url").notNull(),
    /** Null for all. */
    types: text("types").array(),
    /** True if the address may be in a private network. */
    allow_private: boolean("allow_private").notNull(),
    /** The key of a webhook's signatures, or the vendor's token. */
    secret: text("secret").notNull(),
    /** The secret before the last rotation, which signs too until `old_until`. */
    old_secret: text("old_secret"),
    old_until: moment("old_until"),
    /** `active`, `paused` or `stopped`. */
    state: text("state").notNull().default("active"),
    created_at: moment("created_at").notNull().defaultNow(),
    /** One more with each change by an operator, so that a delivery that runs meanwhile does not overwrite it. */
    revision: integer("revision").notNull().default(0),
    /** The place in the feed after the last event that was delivered. */
    epoch: uuid("epoch").notNull(),
    is_restored: boolean("is_restored").notNull(),
    xid: xid8("xid").notNull(),
    event_id: uuid("event_id").notNull(),
    delivered_at: moment("delivered_at"),
    /** Failures in a row of the event after the place, and when it is tried again. */
    failures: integer("failures").notNull().default(0),
    failing_since: moment("failing_since"),
    retry_at: moment("retry_at"),
    /** Reason of the last failure, in words of the gateway. */
    reason: text("reason"),
    /** The last events that it refused for ever and that were skipped, the newest first. */
    skipped: jsonb("skipped").$type<readonly SkippedEvent[]>().notNull().default([]),
    skips: integer("skips").notNull().default(0),
    /** The gateway that delivers, as long as its lease lasts (D35). */
    gateway_id: uuid("gateway_id"),
  },
  (sink) => [
    uniqueIndex("sink_by_name").on(sink.name),
    check("sink_kind_known", sql`${sink.kind} IN (${words(sinkKinds)})`),
    check("sink_state_known", sql`${sink.state} IN ('active', 'paused', 'stopped')`),
  ],
)
