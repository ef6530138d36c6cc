import { bigint, primaryKey, text, uuid } from "drizzle-orm/pg-core"
import { ledger, moment } from "./tables.ts"

/** Counts of refused calls (D80) by hour, key and code. State: rows are updated, and deleted after 30 days. */
export const refusals = ledger.table(
  "refusals",
  {
    hour: moment("hour").notNull(),
    /** The nil UUID, like `key_id`, for calls with an unknown key, or without one. */
    account_id: uuid("account_id").notNull(),
    key_id: uuid("key_id").notNull(),
    code: text("code").notNull(),
    requests: bigint("requests", { mode: "bigint" }).notNull(),
    last_at: moment("last_at").notNull(),
  },
  (row) => [primaryKey({ name: "refusals_pkey", columns: [row.hour, row.account_id, row.key_id, row.code] })],
)
