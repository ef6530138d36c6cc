import { bigint, boolean, text, uuid } from "drizzle-orm/pg-core"
import { ledger, moment } from "./tables.ts"

const count = (name: string) => bigint(name, { mode: "number" }).notNull()

/** The audits of this shard that ended (D107). Never changed, like the entries that they read. */
export const audits = ledger.table("audits", {
  /** In the order of time. */
  id: uuid("id").primaryKey(),
  /** The name of the operator who asked for it. */
  actor: text("actor").notNull(),
  /** True if the entries of sealed months were read too. */
  is_full: boolean("is_full").notNull(),
  started_at: moment("started_at").notNull(),
  checked_at: moment("checked_at").notNull(),
  accounts: count("accounts"),
  open_holds: count("open_holds"),
  violations: count("violations"),
  /** SHA-256 in hex, over the seals and the sums per account of the entries before `entries_until`. */
  hash: text("hash").notNull(),
  entries_until: moment("entries_until").notNull(),
})
