import { sql } from "drizzle-orm"
import { check, index, integer, primaryKey, text, uuid } from "drizzle-orm/pg-core"
import { attemptFailures } from "../../wire/call.ts"
import { ledger, moment, words, xid } from "./tables.ts"

/** Entries: attempts that may have reached a provider (D93), by the call's id and their `ordinal` from 0 on. */
export const attempts = ledger.table(
  "attempts",
  {
    id: uuid("id").notNull(),
    ordinal: integer("ordinal").notNull(),
    account_id: uuid("account_id").notNull(),
    upstream: text("upstream").notNull(),
    /** Null for an upstream with a single key. */
    upstream_key: text("upstream_key"),
    /** Null if there was no answer; then `failure` says why. */
    status: integer("status"),
    failure: text("failure"),
    duration_ms: integer("duration_ms").notNull(),
    /** The provider's own id of the request; null if it sent none. */
    request_id: text("request_id"),
    ended_at: moment("ended_at").notNull(),
    xid: xid(),
  },
  (attempt) => [
    primaryKey({ name: "attempts_pkey", columns: [attempt.id, attempt.ordinal] }),
    index("attempts_by_time").on(attempt.ended_at),
    index("attempts_by_xid").on(attempt.xid).where(sql`${attempt.xid} IS NOT NULL`),
    check("attempt_failure_known", sql`${attempt.failure} IN (${words(attemptFailures)})`),
    check("attempt_has_outcome", sql`(${attempt.status} IS NULL) <> (${attempt.failure} IS NULL)`),
  ],
)
