import type { PgColumn } from "drizzle-orm/pg-core"
import { bigint, boolean, date, index, integer, primaryKey, text, uuid } from "drizzle-orm/pg-core"
import { countedKinds, recordOf } from "../../kinds.ts"
import { basis, endOutcome, failure, ledger, moment, nano, xid8 } from "./tables.ts"

/** Sums over the entries of the journal (D72), from which they can be computed again; and its months (D71). */

const count = (name: string) => bigint(name, { mode: "bigint" })

/** The columns of sums over entries (D72). */
const sumColumns = () => ({
  from_at: moment("from_at").notNull(),
  /** The nil UUID for both: the sums of everybody. */
  account_id: uuid("account_id").notNull(),
  key_id: uuid("key_id").notNull(),
  terms_id: integer("terms_id").notNull(),
  /** Outcome of the calls; null for holds. A correction is `settled`, and no call. */
  outcome: endOutcome("outcome"),
  basis: basis("basis"),
  failure: failure("failure"),
  calls: bigint("calls", { mode: "bigint" }).notNull(),
  charge_nano: nano("charge_nano").notNull(),
  overage_nano: nano("overage_nano").notNull(),
  /** By how much more was held afterwards; what was freed is negative. */
  held_nano: nano("held_nano").notNull(),
  prompt_tokens: bigint("prompt_tokens", { mode: "bigint" }).notNull(),
  cached_tokens: bigint("cached_tokens", { mode: "bigint" }).notNull(),
  completion_tokens: bigint("completion_tokens", { mode: "bigint" }).notNull(),
  /** The charge less what it would be without the multipliers (D69); null where there were none. */
  profit_nano: nano("profit_nano"),
  /** Counts charged of each of these kinds (D60); null for none. */
  ...recordOf(countedKinds, count),
  /** Sum of the costs that providers report (D90); null if none did. */
  provider_cost_nano: nano("provider_cost_nano"),
})

const sumIndexes = (name: string) => (sum: { readonly account_id: PgColumn; readonly from_at: PgColumn }) => [
  index(`${name}_of_account`).on(sum.account_id, sum.from_at),
  index(`${name}_by_time`).using("brin", sum.from_at),
]

/** Sums of the entries of one UTC hour or day, from `from_at` on (D72). */
const sums = (name: string) => ledger.table(name, sumColumns(), sumIndexes(name))

/** Counts of durations of the calls of one hour or day, grouped like `sums`. */
const latencies = (name: string) =>
  ledger.table(
    name,
    {
      from_at: moment("from_at").notNull(),
      account_id: uuid("account_id").notNull(),
      key_id: uuid("key_id").notNull(),
      terms_id: integer("terms_id").notNull(),
      /** Of the first output; otherwise of the whole call. */
      is_ttft: boolean("is_ttft").notNull(),
      /** Ascending, and how many calls took each. */
      ms: integer("ms").array().notNull(),
      calls: integer("calls").array().notNull(),
    },
    sumIndexes(name),
  )

export const hours = sums("hours")
export const days = sums("days")
/** Sums of the entries of one UTC day whose calls have labels (D94), without the sums of everybody. */
export const label_days = ledger.table(
  "label_days",
  {
    ...sumColumns(),
    /** 0 for all labels of an account beyond the most of one day. */
    labels_id: integer("labels_id").notNull(),
  },
  sumIndexes("label_days"),
)
export const hour_latencies = latencies("hour_latencies")
export const day_latencies = latencies("day_latencies")

/** Up to where the sums of hours, days and labels are complete; one row. Null: there are none yet, so reports read entries. */
export const summed = ledger.table("summed", {
  id: boolean("id").primaryKey().default(true),
  hours_until: moment("hours_until"),
  days_until: moment("days_until"),
  labels_until: moment("labels_until"),
})

const entries = () => bigint("entries", { mode: "bigint" }).notNull()

/** The months of the journal (D71): a partition of each table for ids from `from_id` to below `to_id`, by UTC. */
export const months = ledger.table("months", {
  month: date("month", { mode: "string" }).primaryKey(),
  from_id: uuid("from_id"),
  to_id: uuid("to_id").notNull(),
  /** The time when its partitions were detached, or when detaching began (D75). */
  detached_at: moment("detached_at"),
  /** Hash of its dump, and the location that an operator gave. */
  dump_hash: text("dump_hash"),
  archive: text("archive"),
  dropped_at: moment("dropped_at"),
  /** The last transaction that wrote into its detached partitions, and the series of the feed that it is of (D96). */
  last_xid: xid8("last_xid"),
  last_series: integer("last_series"),
})

/** The seals of months that are over (D71). Never changed, like the entries that they are made from. */
export const seals = ledger.table("seals", {
  month: date("month", { mode: "string" }).primaryKey(),
  sealed_at: moment("sealed_at").notNull().defaultNow(),
  entries: entries(),
  calls: bigint("calls", { mode: "bigint" }).notNull(),
  charge_nano: nano("charge_nano").notNull(),
  /** SHA-256 in hex, over the hashes of its hours and its sums. */
  hash: text("hash").notNull(),
})

/** The hours of a sealed month: each reaches from `from_id` to that of the next, or to the end of the month. */
export const seal_hours = ledger.table(
  "seal_hours",
  {
    month: date("month", { mode: "string" }).notNull(),
    from_id: uuid("from_id").notNull(),
    entries: entries(),
    /** SHA-256 in hex, over the entries of its calls. */
    hash: text("hash").notNull(),
  },
  (hour) => [primaryKey({ columns: [hour.month, hour.from_id] })],
)

/** The final charges of a sealed month's calls, by the terms that they were charged at. */
export const seal_sums = ledger.table(
  "seal_sums",
  {
    month: date("month", { mode: "string" }).notNull(),
    account_id: uuid("account_id").notNull(),
    key_id: uuid("key_id").notNull(),
    terms_id: integer("terms_id").notNull(),
    calls: bigint("calls", { mode: "bigint" }).notNull(),
    charge_nano: nano("charge_nano").notNull(),
    prompt_tokens: bigint("prompt_tokens", { mode: "bigint" }).notNull(),
    cached_tokens: bigint("cached_tokens", { mode: "bigint" }).notNull(),
    completion_tokens: bigint("completion_tokens", { mode: "bigint" }).notNull(),
  },
  (sum) => [
    primaryKey({ columns: [sum.month, sum.account_id, sum.key_id, sum.terms_id] }),
    index("seal_sums_of_account").on(sum.account_id),
  ],
)
