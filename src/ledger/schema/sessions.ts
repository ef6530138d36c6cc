import { text } from "drizzle-orm/pg-core"
import { ledger, moment } from "./tables.ts"

/** The open sessions of the console (D50). State, not entries: a row is deleted when its session ends. */
export const console_sessions = ledger.table("console_sessions", {
  /** Of the secret in the cookie, keyed with the admin token: another token ends every session. */
  hash: text("hash").primaryKey(),
  expires_at: moment("expires_at").notNull(),
})
