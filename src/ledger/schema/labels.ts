import { sql } from "drizzle-orm"
import { index, integer, jsonb, text, uniqueIndex, uuid } from "drizzle-orm/pg-core"
import type { Tags } from "../../wire/call.ts"
import { ledger, moment, xid8 } from "./tables.ts"

/** Stands for end users and values of tags beyond the bounds (D94). No client's tag can have this value. */
export const OTHER = "(other)"

/** A row for each end user and tags of an account's calls (D94). Random ids are never reused after lost commits. */
export const labels = ledger.table(
  "labels",
  {
    id: integer("id").primaryKey(),
    account_id: uuid("account_id").notNull(),
    /** Null for calls that name none. */
    end_user_id: uuid("end_user_id"),
    tags: jsonb("tags").$type<Tags>().notNull(),
    created_at: moment("created_at").notNull().defaultNow(),
  },
  (label) => [
    uniqueIndex("labels_of_end_user")
      .on(label.account_id, label.end_user_id, label.tags)
      .where(sql`${label.end_user_id} IS NOT NULL`),
    uniqueIndex("labels_of_account")
      .on(label.account_id, label.tags)
      .where(sql`${label.end_user_id} IS NULL`),
    index("labels_by_time").on(label.account_id, label.created_at),
  ],
)

/** End users (D94). Not the journal, which has their ids: erasure removes the subject, and no sum changes. */
export const end_users = ledger.table(
  "end_users",
  {
    id: uuid("id").primaryKey(),
    account_id: uuid("account_id").notNull(),
    /** The client's own name of the person, or its hash if it is long; null once it is forgotten. */
    subject: text("subject"),
    created_at: moment("created_at").notNull().defaultNow(),
    forgotten_at: moment("forgotten_at"),
    /** The transaction that has forgotten it, in the account's shard: the place of that event in the feed (D96). */
    xid: xid8("xid"),
  },
  (user) => [
    uniqueIndex("end_user_by_subject").on(user.account_id, user.subject),
    index("end_users_by_xid").on(user.xid).where(sql`${user.xid} IS NOT NULL`),
  ],
)
