import { sql } from "drizzle-orm"
import { boolean, index, jsonb, primaryKey, text, uuid } from "drizzle-orm/pg-core"
import type { AlertDetails, AlertType, Trouble } from "../../wire/alerts.ts"
import { ledger, moment, xid } from "./tables.ts"

/** Events that are no journal entries (D96), kept for some months. Those of upstreams are in the first shard. */
export const alerts = ledger.table(
  "alerts",
  {
    id: uuid("id").primaryKey().default(sql`gen_random_uuid()`),
    type: text("type").$type<AlertType>().notNull(),
    /** Null for an alert about an upstream. */
    account_id: uuid("account_id"),
    details: jsonb("details").$type<AlertDetails>().notNull(),
    at: moment("at").notNull().defaultNow(),
    xid: xid(),
  },
  (alert) => [
    index("alerts_by_xid").on(alert.xid).where(sql`${alert.xid} IS NOT NULL`),
    index("alerts_by_time").on(alert.at),
  ],
)

/** The last known troubles of upstreams, so that of several gateways only the first that notices writes an alert. State. */
export const upstream_troubles = ledger.table(
  "upstream_troubles",
  {
    upstream: text("upstream").notNull(),
    /** The name of the key; empty for the upstream itself. */
    key: text("key").notNull(),
    trouble: text("trouble").$type<Trouble["trouble"]>().notNull(),
    is_on: boolean("is_on").notNull(),
    /** The gateway that said so. As long as it lives, no other one says that the trouble is over. */
    gateway_id: uuid("gateway_id").notNull(),
    changed_at: moment("changed_at").notNull().defaultNow(),
  },
  (row) => [primaryKey({ columns: [row.upstream, row.key, row.trouble] })],
)
