import { index, primaryKey, text, uuid } from "drizzle-orm/pg-core"
import { ledger, moment } from "./tables.ts"

/** Calls by `Idempotency-Key` (D43): one row for an account and key, taken by the statement that holds the call. */
export const idempotency = ledger.table(
  "idempotency",
  {
    account_id: uuid("account_id").notNull(),
    /** SHA-256 (hex) of the client's value, which may be a secret. */
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

/** JSON answers that are kept to be sent again (D43), if configured. */
export const answers = ledger.table(
  "answers",
  {
    call_id: uuid("call_id").primaryKey(),
    body: text("body").notNull(),
    expires_at: moment("expires_at").notNull(),
  },
  (answer) => [index("answers_by_end").on(answer.expires_at)],
)
