import { sql } from "drizzle-orm"
import { integer, text, uuid } from "drizzle-orm/pg-core"
import { ledger, moment, xid8 } from "./tables.ts"

/** The epochs of the feed (D96): a row for each time that transaction ids may have gone backwards. State, not entries. */
export const feed_epochs = ledger.table("feed_epochs", {
  number: integer("number").primaryKey(),
  /** In the cursors of readers. Random, because a restored ledger counts on from its backup. */
  id: uuid("id").notNull().default(sql`gen_random_uuid()`),
  /** One more after each restored dump, whose entries have the transactions of another server. */
  series: integer("series").notNull(),
  /** The server's timeline, the number of the database, and when the server started. */
  place: text("place").notNull(),
  began_at: moment("began_at").notNull().defaultNow(),
  /** Every transaction from here on may differ from that of the epoch before. */
  from_xid: xid8("from_xid").notNull(),
  /** Every transaction before this one had ended at `seen_at`. */
  seen_xid: xid8("seen_xid").notNull(),
  seen_at: moment("seen_at").notNull().defaultNow(),
  /** The transaction that wrote this row: the row's own `xmin`, unless the row was restored from a dump. */
  xid: xid8("xid").notNull().default(sql`pg_current_xact_id()`),
})

/** True for a row that this server wrote, false for a restored one. Its `xmin` has the lower half of the transaction's id. */
export const isNative = (alias: string) => sql.raw(`${alias}.xmin = ${alias}.xid::xid`)
