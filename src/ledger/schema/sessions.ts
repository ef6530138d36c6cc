import { text, uuid } from "drizzle-orm/pg-core"
import type { Role } from "../../wire/roles.ts"
import { ledger, moment } from "./tables.ts"

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
