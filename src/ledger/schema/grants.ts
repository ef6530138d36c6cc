import { sql } from "drizzle-orm"
import { bigint, check, index, integer, primaryKey, text, uuid } from "drizzle-orm/pg-core"
import { type GrantChange, grantChanges } from "../../wire/credits.ts"
import { ledger, moment, nano, words, xid } from "./tables.ts"

/** Changes of credit grants (D95), entries of the journal. */
export const grant_entries = ledger.table(
  "grant_entries",
  {
    id: uuid("id").primaryKey().default(sql`gen_random_uuid()`),
    account_id: uuid("account_id").notNull(),
    credit_id: uuid("credit_id").notNull(),
    change: text("change").$type<GrantChange>().notNull(),
    amount_nano: nano("amount_nano").notNull(),
    /** The instant of a start or an expiry, even if it was written later. */
    at: moment("at").notNull().defaultNow(),
    /** The call whose end drew or freed pinned money, or the first credit of a move; otherwise null. */
    cause_id: uuid("cause_id"),
    /** The operator's reason to void a grant. */
    reason: text("reason"),
    xid: xid(),
  },
  (entry) => [
    index("grant_entries_by_xid").on(entry.xid),
    index("grant_entries_of_account").on(entry.account_id, entry.credit_id),
    /** Serves the sums of the metrics. */
    index("grant_entries_of_ended")
      .on(entry.change, entry.amount_nano)
      .where(sql`${entry.change} IN ('expired', 'voided')`),
    check("change_known", sql`${entry.change} IN (${words(grantChanges)})`),
  ],
)

/** Rests of credits as of the last grant entry. State, which the audit compares. A row goes when nothing is left. */
export const grants = ledger.table(
  "grants",
  {
    credit_id: uuid("credit_id").primaryKey(),
    account_id: uuid("account_id").notNull(),
    priority: integer("priority").notNull(),
    /** Set until the grant is effective; its amount is not in the balance before. */
    starts_at: moment("starts_at"),
    expires_at: moment("expires_at"),
    voided_at: moment("voided_at"),
    void_reason: text("void_reason"),
    /** The age, which moves with the account. */
    made_at: moment("made_at").notNull(),
    left_nano: nano("left_nano").notNull(),
  },
  (grant) => [
    index("grants_of_account").on(grant.account_id),
    check("left_not_negative", sql`${grant.left_nano} >= 0`),
  ],
)

/** Money of an expired or voided grant that an open call has held and may still spend. State. */
export const grant_pins = ledger.table(
  "grant_pins",
  {
    call_id: uuid("call_id").notNull(),
    credit_id: uuid("credit_id").notNull(),
    account_id: uuid("account_id").notNull(),
    change: text("change").$type<GrantChange>().notNull(),
    amount_nano: nano("amount_nano").notNull(),
    /** A call spends its oldest pin first. */
    place: bigint("place", { mode: "bigint" }).generatedAlwaysAsIdentity(),
  },
  (pin) => [
    primaryKey({ name: "grant_pins_pkey", columns: [pin.call_id, pin.credit_id] }),
    index("grant_pins_of_account").on(pin.account_id),
    check("pin_positive", sql`${pin.amount_nano} > 0`),
  ],
)
