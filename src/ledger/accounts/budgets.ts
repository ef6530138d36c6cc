import { and, desc, eq, getTableColumns, isNull, lt, type SQL, sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { nextId } from "../../id.ts"
import type { BudgetChange } from "../../wire/budget.ts"
import { type Page, type PageOf, paged } from "../database/page.ts"
import type { BudgetUse } from "../entries.ts"
import { amountAt, concerns, countedSince, usedAt, windowEnd, windowStart } from "../money/budgets.ts"
import { budget_entries, budget_windows, budgets } from "../schema/budgets.ts"
import { accounts, keys } from "../schema/tables.ts"
import { type Key, type KeyStatements, lockAccount, noteLimits } from "./keys.ts"

/** A budget of an account, with what its current window has used (D97). */
export interface Budget extends Omit<typeof budgets.$inferSelect, "scope" | keyof BudgetUse>, BudgetUse {
  /** The amount without a raise. */
  readonly usual_amount: bigint
  /** The beginning of the window. */
  readonly since: Date
}

/** Who changes a budget, and why. */
export interface Author {
  readonly actor: string
  readonly reason: string | null
}

type Settable = Pick<typeof budgets.$inferSelect, "name" | "amount" | "is_hard" | "thresholds">

export interface BudgetOrder
  extends Author,
    Settable,
    Pick<
      typeof budgets.$inferSelect,
      "id" | "account_id" | "selector" | "selected" | "unit" | "period" | "timezone"
    > {}

/** A change of a budget; an absent field stays. */
export type BudgetUpdate = Author &
  (
    | ({ readonly change: "changed" } & { readonly [Name in keyof Settable]?: Settable[Name] | undefined })
    /** Null ends the raise. */
    | { readonly change: "raised"; readonly raise: { readonly amount: bigint; readonly until: Date } | null }
    /** Begins the window anew. */
    | { readonly change: "reset" }
    | { readonly change: "deleted" }
  )

export type BudgetResult =
  | { readonly outcome: "created" | "known"; readonly budget: Budget }
  | { readonly outcome: "no_account" }
  /** The account has no key with the selected id. */
  | { readonly outcome: "no_key" }
  /** The id belongs to a budget of another account. */
  | { readonly outcome: "conflict" }
  | { readonly outcome: "too_many" }

/** Maximum number of budgets of an account. */
export const MAX_BUDGETS = 1_000

const b = alias(budgets, "b")
const w = alias(budget_windows, "w")

const NOW = sql`statement_timestamp()`
const start = windowStart(NOW)
const { scope: _, amount: usual_amount, ...settings } = getTableColumns(b)

const moment = (value: SQL) => sql<Date | null>`${value}`.mapWith(budgets.created_at)

const shown = {
  ...settings,
  usual_amount,
  amount: amountAt(NOW).mapWith(BigInt),
  spent: usedAt(w.spent, NOW).mapWith(BigInt),
  held: usedAt(w.held, NOW).mapWith(BigInt),
  since: sql<Date>`greatest(${w.since}, ${start})`.mapWith(budgets.created_at),
  resets_at: moment(windowEnd(NOW)),
}

/** Adds a budget, which also counts the calls that its current window has had. The same `id` again makes no other budget. */
export async function createBudget(
  database: PostgresJsDatabase,
  { actor, reason, ...budget }: BudgetOrder,
): Promise<BudgetResult> {
  return database.transaction(async (transaction) => {
    if (!(await lockAccount(transaction, budget.account_id))) return { outcome: "no_account" }
    const [known] = await read(transaction, eq(b.id, budget.id))
    if (known !== undefined)
      return known.account_id === budget.account_id
        ? { outcome: "known", budget: known }
        : { outcome: "conflict" }
    if ((await transaction.$count(budgets, eq(budgets.account_id, budget.account_id))) >= MAX_BUDGETS)
      return { outcome: "too_many" }
    if (budget.selector === "key" && !(await isKeyOf(transaction, budget))) return { outcome: "no_key" }
    await transaction.insert(budgets).values({ ...budget, scope: scopeOf(budget) })
    await countAnew(transaction, budget.id, sql`CASE ${b.period} WHEN 'total' THEN ${NOW} ELSE ${start} END`)
    const made = await note(transaction, budget.id, "created", { actor, reason })
    if (made === null) throw new Error("a budget was neither inserted nor found")
    return { outcome: "created", budget: made }
  })
}

/** Changes a budget for every call that is held from now on. Null when there is no such budget. */
export async function changeBudget(
  database: PostgresJsDatabase,
  id: string,
  { actor, reason, ...update }: BudgetUpdate,
): Promise<Budget | null> {
  return database.transaction(async (transaction) => {
    const [found] = await read(transaction, eq(b.id, id))
    if (found === undefined || !(await lockAccount(transaction, found.account_id))) return null
    if (update.change === "changed") {
      const { change: _, ...changes } = update
      await transaction
        .update(budgets)
        .set({ id, ...changes })
        .where(eq(budgets.id, id))
    } else if (update.change === "raised") {
      const { amount = null, until = null } = update.raise ?? {}
      await transaction
        .update(budgets)
        .set({ raised_amount: amount, raised_until: until })
        .where(eq(budgets.id, id))
    } else if (update.change === "reset") await countAnew(transaction, id, NOW)
    const changed = await note(transaction, id, update.change, { actor, reason })
    // Another change may have deleted it during the wait for the account.
    if (changed === null) return null
    if (update.change === "deleted") {
      await transaction.delete(budgets).where(eq(budgets.id, id))
      await transaction.delete(budget_windows).where(eq(budget_windows.id, id))
      await noteLimits(transaction, found.account_id)
    }
    return changed
  })
}

function scopeOf({ selector, selected }: Pick<BudgetOrder, "selector" | "selected">): string {
  return selected === null ? selector : `${selector}:${selected}`
}

async function isKeyOf(
  transaction: KeyStatements,
  { account_id, selected }: Pick<BudgetOrder, "account_id" | "selected">,
): Promise<boolean> {
  const is_selected = and(eq(keys.account_id, account_id), eq(keys.id, selected ?? ""))
  return (await transaction.select({ id: keys.id }).from(keys).where(is_selected)).length > 0
}

/** Counts the calls that were held since then. Needs the account's lock. */
async function countAnew(transaction: KeyStatements, id: string, since: SQL): Promise<void> {
  const { id: budget_id, since: begins, ...counts } = getTableColumns(budget_windows)
  const set = [begins, ...Object.values(counts)].map(({ name }) => sql.raw(`"${name}" = excluded."${name}"`))
  await transaction.execute(sql`
    INSERT INTO ${budget_windows} (id, account_id, since, spent, held)
    SELECT ${b.id}, ${b.account_id}, s.since, counted.spent, counted.held
    FROM ${budgets} ${b} CROSS JOIN LATERAL (SELECT ${since} AS since OFFSET 0) s
      CROSS JOIN LATERAL ${countedSince(sql`s.since`)} counted
    WHERE ${b.id} = ${id}
    ON CONFLICT (${sql.raw(budget_id.name)}) DO UPDATE SET ${sql.join(set, sql.raw(", "))}`)
}

/** Writes the entry of a change, and tells the statements that hold and end. Null if there is no such budget. Needs the account's lock. */
async function note(
  transaction: KeyStatements,
  id: string,
  change: BudgetChange,
  author: Author,
): Promise<Budget | null> {
  const budget = await getBudget(transaction, id)
  if (budget === null) return null
  const { account_id, name, selector, selected, unit, period, timezone, is_hard, thresholds } = budget
  await transaction.insert(budget_entries).values({
    id: nextId(),
    budget_id: id,
    account_id,
    change,
    settings: {
      name,
      selector,
      selected,
      unit,
      amount: String(budget.usual_amount),
      period,
      timezone,
      is_hard,
      thresholds,
      raised_amount: budget.raised_amount === null ? null : String(budget.raised_amount),
      raised_until: budget.raised_until?.toISOString() ?? null,
    },
    ...author,
  })
  await transaction
    .update(accounts)
    .set({ budgets_version: sql`${accounts.budgets_version} + 1` })
    .where(eq(accounts.id, account_id))
  await noteLimits(transaction, account_id)
  return budget
}

/** The budgets of an account, newest first. */
export async function listBudgets(
  database: PostgresJsDatabase,
  account_id: string,
  page: Page,
): Promise<PageOf<Budget>> {
  const after = page.after === null ? undefined : lt(b.id, page.after)
  const rows = await read(database, and(eq(b.account_id, account_id), after)).limit(page.limit + 1)
  return paged(rows, page)
}

/** The budgets that calls of a key can count in, newest first. */
export function budgetsOf(
  database: PostgresJsDatabase,
  { account_id, id, group_path }: Pick<Key, "account_id" | "id" | "group_path">,
): Promise<readonly Budget[]> {
  const is_concerned = concerns(sql`${id}::uuid`, sql`${group_path}::text`)
  return read(database, and(eq(b.account_id, account_id), is_concerned))
}

/** Null also for a budget whose account is in another shard (D76). */
export async function getBudget(
  database: Pick<PostgresJsDatabase, "select">,
  id: string,
): Promise<Budget | null> {
  const [budget] = await read(database, eq(b.id, id))
  return budget ?? null
}

function read(database: Pick<PostgresJsDatabase, "select">, condition: SQL | undefined) {
  return database
    .select(shown)
    .from(b)
    .innerJoin(w, eq(w.id, b.id))
    .innerJoin(accounts, eq(accounts.id, b.account_id))
    .where(and(condition, isNull(accounts.moved_to)))
    .orderBy(desc(b.id))
}
