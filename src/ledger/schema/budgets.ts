import { sql } from "drizzle-orm"
import { bigint, boolean, check, index, integer, jsonb, primaryKey, text, uuid } from "drizzle-orm/pg-core"
import type {
  BudgetChange,
  BudgetPeriod,
  BudgetSelector,
  BudgetSettings,
  BudgetUnit,
} from "../../wire/budget.ts"
import { ledger, moment, xid } from "./tables.ts"

/** An amount in the budget's unit: nano-USD, tokens or requests. */
const amount = (name: string) => bigint(name, { mode: "bigint" })

/** Budgets (D97). Every change increments `budgets_version` of the account, under the account's lock. */
export const budgets = ledger.table(
  "budgets",
  {
    id: uuid("id").primaryKey(),
    account_id: uuid("account_id").notNull(),
    name: text("name").notNull(),
    selector: text("selector").$type<BudgetSelector>().notNull(),
    /** The id of the key or end user, the group's path, the model, or the tag (`name=value` or `name`); or null. */
    selected: text("selected"),
    /** True if each end user, or each value of the tag, has the amount by itself. */
    is_each: boolean("is_each").notNull(),
    /** The selector and what is selected, in the form in which `scopes_of` returns those of a call. */
    scope: text("scope").notNull(),
    unit: text("unit").$type<BudgetUnit>().notNull(),
    amount: amount("amount").notNull(),
    period: text("period").$type<BudgetPeriod>().notNull(),
    timezone: text("timezone").notNull(),
    /** False for a budget that only counts and alerts. */
    is_hard: boolean("is_hard").notNull(),
    /** Percentages of the amount, ascending. */
    thresholds: integer("thresholds").array().notNull(),
    /** The amount until `raised_until`, if that is later than now. */
    raised_amount: amount("raised_amount"),
    raised_until: moment("raised_until"),
    created_at: moment("created_at").notNull().defaultNow(),
  },
  (budget) => [
    index("budgets_of_account").on(budget.account_id, budget.scope),
    check("budget_not_negative", sql`${budget.amount} >= 0`),
  ],
)

/**
 * Counters of budgets, in the budget's unit: sums over the calls that were held since `since`. A call counts in `held` while it is
 * open, then in `spent`. A budget of each end user or value has one for each `member` of which a call was held, made by that hold, which
 * increments `budgets_version` of the account; its counter without a member only has the moment from which calls count.
 */
export const budget_windows = ledger.table(
  "budget_windows",
  {
    id: uuid("id").notNull(),
    /** The id of the end user or the value of the tag, in a budget of each; empty otherwise. */
    member: text("member").notNull().default(""),
    account_id: uuid("account_id").notNull(),
    since: moment("since").notNull(),
    spent: amount("spent").notNull(),
    held: amount("held").notNull(),
    /** The part of `spent` that the calls of this shard do not explain, because the account was moved (D76). */
    carried: amount("carried").notNull().default(sql`0`),
    /** The highest threshold that `spent` has reached in this window; 0 for none. */
    crossed_percent: integer("crossed_percent").notNull().default(0),
    /**
     * Of a budget per minute (D99), instead of `spent` and `held`: what has not refilled, in thirtieths of its unit, by the steps in which
     * the calls were held. The last is that of `step_at`, and the first also has what is older. `since` is its creation or last reset.
     */
    steps: bigint("steps", { mode: "bigint" }).array(),
    step_at: moment("step_at"),
    /** The amount of a refused call for which room is kept until then (D99). */
    waiting_amount: amount("waiting_amount"),
    waiting_until: moment("waiting_until"),
    /** In the counter without a member: the members that were added since `since`. */
    members: integer("members").notNull().default(0),
  },
  (window) => [
    primaryKey({ name: "budget_windows_pkey", columns: [window.id, window.member] }),
    index("budget_windows_of_account").on(window.account_id),
    check("budget_held_not_negative", sql`${window.held} >= 0`),
  ],
)

export const budget_entries = ledger.table(
  "budget_entries",
  {
    id: uuid("id").primaryKey(),
    budget_id: uuid("budget_id").notNull(),
    account_id: uuid("account_id").notNull(),
    change: text("change").$type<BudgetChange>().notNull(),
    /** The budget after the change, or before its deletion. */
    settings: jsonb("settings").$type<BudgetSettings>().notNull(),
    actor: text("actor").notNull(),
    reason: text("reason"),
    made_at: moment("made_at").notNull().defaultNow(),
    /** Null also for those that came with the account from another shard, where they are events (D76). */
    xid: xid(),
  },
  (entry) => [
    index("budget_entries_of_account").on(entry.account_id, entry.id),
    index("budget_entries_by_xid").on(entry.xid).where(sql`${entry.xid} IS NOT NULL`),
  ],
)

/** Thresholds that the spending of a window has reached, each once: journal entries. */
export const budget_crossings = ledger.table(
  "budget_crossings",
  {
    budget_id: uuid("budget_id").notNull(),
    member: text("member").notNull().default(""),
    since: moment("since").notNull(),
    percent: integer("percent").notNull(),
    account_id: uuid("account_id").notNull(),
    spent: amount("spent").notNull(),
    amount: amount("amount").notNull(),
    crossed_at: moment("crossed_at").notNull().defaultNow(),
    /** Null also for those that came with the account from another shard. */
    xid: xid(),
  },
  (crossing) => [
    primaryKey({
      name: "budget_crossings_pkey",
      columns: [crossing.budget_id, crossing.member, crossing.since, crossing.percent],
    }),
    index("budget_crossings_of_account").on(crossing.account_id, crossing.crossed_at),
    index("budget_crossings_by_xid").on(crossing.xid).where(sql`${crossing.xid} IS NOT NULL`),
  ],
)
