import { and, desc, eq, getTableColumns, isNull, type SQL, sql } from "drizzle-orm"
import { nextId } from "../../id.ts"
import type { BudgetChange } from "../../wire/budget.ts"
import type { Tags } from "../../wire/call.ts"
import { isAfter, type Page, type PageOf, pageOf } from "../database/page.ts"
import { type Db, firstRow, names } from "../database/statement.ts"
import type { BudgetUse } from "../entries.ts"
import {
  amountAt,
  concerns,
  countedSince,
  MAX_MEMBERS,
  memberOf,
  spentAt,
  usedAt,
  windowEnd,
  windowStart,
} from "../money/budgets.ts"
import { stepColumns, stepsAt } from "../money/rates.ts"
import { b, w } from "../schema/aliases.ts"
import { budget_entries, budget_windows, budgets } from "../schema/budgets.ts"
import { end_users } from "../schema/labels.ts"
import { accounts, keys } from "../schema/tables.ts"
import { findEndUser } from "./end-users.ts"
import { type Key, lockAccount, noteLimits, noteVersion } from "./keys.ts"
import type { Made } from "./made.ts"

/** A budget with the use of its current window (D97); the sums of all end users or values, if each has the amount. */
export interface Budget extends Omit<typeof budgets.$inferSelect, "scope" | keyof BudgetUse>, BudgetUse {
  readonly usual_amount: bigint
  /** `spent` and `held` together; of a budget of each, those of the member that has used most. */
  readonly most_used: bigint
  readonly since: Date
}

export interface Author {
  readonly actor: string
  readonly reason: string | null
}

type Settable = Pick<typeof budgets.$inferSelect, "name" | "amount" | "is_hard" | "thresholds">

export interface BudgetOrder
  extends Author,
    Settable,
    Pick<typeof budgets.$inferSelect, "id" | "account_id" | "selector" | "unit" | "period" | "timezone"> {
  /** As in the table, but an end user also by its name. */
  readonly selected: string | null
}

/** A change of a budget; an absent field stays. */
export type BudgetUpdate = Author &
  (
    | ({ readonly change: "changed" } & { readonly [Name in keyof Settable]?: Settable[Name] | undefined })
    /** Null ends the raise. */
    | { readonly change: "raised"; readonly raise: { readonly amount: bigint; readonly until: Date } | null }
    | { readonly change: "reset" }
    | { readonly change: "deleted" }
  )

type BudgetResult = Made<
  "budget",
  Budget,
  "no_account" | "no_key" | "conflict" | "too_many" | "too_many_of_each"
>

/** Maximum number of budgets of an account, and of those of each end user or value. */
export const MAX_BUDGETS = 1_000
export const MAX_EACH = 10

const NOW = sql`statement_timestamp()`
const start = windowStart(NOW)
const { scope: _, amount: usual_amount, ...settings } = getTableColumns(b)

const moment = (value: SQL) => sql<Date | null>`${value}`.mapWith(budgets.created_at)

const [spent, held] = [spentAt(NOW), usedAt(w.held, NOW)]
const shown = {
  ...settings,
  selected: sql<string | null>`${b.selected}`,
  usual_amount,
  amount: amountAt(NOW).mapWith(BigInt),
  spent: sql`u.spent`.mapWith(BigInt),
  held: sql`u.held`.mapWith(BigInt),
  most_used: sql`u.most_used`.mapWith(BigInt),
  since: sql<Date>`greatest(u.since, ${start})`.mapWith(budgets.created_at),
  resets_at: moment(windowEnd(NOW)),
}
/**
 * The use of all counters of the budget `b` that meet the condition. In a budget of each, the counter without a member
 * has none.
 */
const usedBy = (
  condition: SQL,
) => sql`LATERAL (SELECT sum(${spent})::bigint AS spent, sum(${held})::bigint AS held,
  max(${spent} + ${held}) AS most_used, max(${w.since}) FILTER (WHERE ${w.member} = '') AS since, max(${w.members}) AS members,
  bool_or(${w.member} <> '') AS has_member FROM ${budget_windows} ${w} WHERE ${w.id} = ${b.id} AND ${condition}) u`
const used = usedBy(sql`true`)

/** Adds a budget, which also counts the calls that its current window has had. The same `id` again makes no other budget. */
export async function createBudget(
  database: Db,
  { actor, reason, ...budget }: BudgetOrder,
): Promise<BudgetResult> {
  return database.transaction(async (transaction) => {
    if (!(await lockAccount(transaction, budget.account_id))) return { outcome: "no_account" }
    const known = await getBudget(transaction, budget.id)
    if (known !== null)
      return known.account_id === budget.account_id
        ? { outcome: "known", budget: known }
        : { outcome: "conflict" }
    const of_account = eq(budgets.account_id, budget.account_id)
    if ((await transaction.$count(budgets, of_account)) >= MAX_BUDGETS) return { outcome: "too_many" }
    const is_each = isEach(budget)
    if (
      is_each &&
      (await transaction.$count(budgets, and(of_account, eq(budgets.is_each, true)))) >= MAX_EACH
    )
      return { outcome: "too_many_of_each" }
    if (budget.selector === "key" && !(await isKeyOf(transaction, budget))) return { outcome: "no_key" }
    const selected =
      budget.selector === "end_user" && budget.selected !== null
        ? await endUserOf(transaction, budget.account_id, budget.selected)
        : budget.selected
    const scope = scopeOf({ ...budget, selected })
    await transaction.insert(budgets).values({ ...budget, selected, is_each, scope })
    const since = sql`CASE WHEN ${b.period} IN ('minute', 'total') THEN ${NOW} ELSE ${start} END`
    await countAnew(transaction, budget.id, since)
    const made = await note(transaction, budget.id, "created", { actor, reason })
    if (made === null) throw new Error("a budget was neither inserted nor found")
    return { outcome: "created", budget: made }
  })
}

/** Changes a budget for every call that is held from now on. Null when there is no such budget. */
export async function changeBudget(
  database: Db,
  id: string,
  { actor, reason, ...update }: BudgetUpdate,
): Promise<Budget | null> {
  return database.transaction(async (transaction) => {
    const found = await getBudget(transaction, id)
    if (found === null || !(await lockAccount(transaction, found.account_id))) return null
    await refill(transaction, id)
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

/** True if each end user, or each value of a tag, has the amount of the budget by itself. */
function isEach({ selector, selected }: Pick<BudgetOrder, "selector" | "selected">): boolean {
  return selector === "tag" ? selected?.includes("=") === false : selector === "end_user" && selected === null
}

/** The id of the end user, by its name or id; a new one if the name has not called yet. Needs the account's lock. */
async function endUserOf(transaction: Db, account_id: string, end_user: string): Promise<string> {
  const known = await findEndUser(transaction, account_id, end_user)
  if (known !== null) return known
  const made = { id: nextId(), account_id, subject: end_user }
  await transaction.insert(end_users).values(made).onConflictDoNothing()
  const id = await findEndUser(transaction, account_id, end_user)
  if (id === null) throw new Error("an end user was neither inserted nor found")
  return id
}

function scopeOf({ selector, selected }: Pick<BudgetOrder, "selector" | "selected">): string {
  return selected === null ? selector : `${selector}:${selected}`
}

async function isKeyOf(
  transaction: Db,
  { account_id, selected }: Pick<BudgetOrder, "account_id" | "selected">,
): Promise<boolean> {
  const is_selected = and(eq(keys.account_id, account_id), eq(keys.id, selected ?? ""))
  return (await transaction.select({ id: keys.id }).from(keys).where(is_selected)).length > 0
}

/** Counts the calls that were held since then; none in a budget per minute, which begins empty. Needs the account's lock. */
async function countAnew(transaction: Db, id: string, since: SQL): Promise<void> {
  await transaction.delete(budget_windows).where(eq(budget_windows.id, id))
  await transaction.execute(sql`
    INSERT INTO ${budget_windows} (id, member, account_id, since, spent, held, members)
    SELECT ${b.id}, counted.member, ${b.account_id}, s.since, CASE ${b.period} WHEN 'minute' THEN 0 ELSE counted.spent END,
      CASE ${b.period} WHEN 'minute' THEN 0 ELSE counted.held END,
      CASE WHEN counted.member = '' THEN count(*) OVER () - 1 ELSE 0 END
    FROM ${budgets} ${b} CROSS JOIN LATERAL (SELECT ${since} AS since OFFSET 0) s
      CROSS JOIN LATERAL ${countedSince(sql`s.since`)} counted
    WHERE ${b.id} = ${id}`)
}

/** Refills a budget per minute by its amount until now, before another applies. Needs the account's lock. */
async function refill(transaction: Db, id: string): Promise<void> {
  await transaction.execute(sql`
    UPDATE ${budget_windows} x SET (${names(...stepColumns)})
      = (${stepsAt("x", amountAt(NOW), NOW)}, greatest(x.step_at, tollgate.step_start(${NOW})))
    FROM ${budgets} ${b} WHERE ${b.id} = x.id AND x.id = ${id} AND x.steps IS NOT NULL`)
}

/** Writes the entry of a change, and tells the statements that hold and end. Null if there is no such budget. Needs the account's lock. */
async function note(transaction: Db, id: string, change: BudgetChange, author: Author) {
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
  await noteVersion(transaction, account_id)
  return budget
}

export function listBudgets(database: Db, account_id: string, page: Page): Promise<PageOf<Budget>> {
  return pageOf(page, read(database, and(eq(b.account_id, account_id), isAfter(page, b.id))))
}

/** The budgets that calls of a key can count in, newest first. */
export function budgetsOf(
  database: Db,
  { account_id, id, group_path, labels }: Pick<Key, "account_id" | "id" | "group_path" | "labels">,
): Promise<readonly Budget[]> {
  const own_labels = sql`${labels && JSON.stringify(labels)}::text::jsonb`
  const is_concerned = concerns(sql`${id}::uuid`, sql`${group_path}::text`, own_labels)
  return read(database, and(eq(b.account_id, account_id), is_concerned))
}

interface CallFacts extends Pick<Key, "account_id" | "id" | "group_path"> {
  readonly model: string
  readonly end_user: string | null
  readonly tags: Tags
}

/** The budgets in which a call would count, with its own counters. A full one has an amount of 0. */
export async function budgetsOfCall(
  database: Db,
  { account_id, id, group_path, model, end_user, tags }: CallFacts,
): Promise<readonly Budget[]> {
  const [known] =
    end_user === null
      ? []
      : await database
          .select({ id: end_users.id })
          .from(end_users)
          .where(and(eq(end_users.account_id, account_id), eq(end_users.subject, end_user)))
  const end_user_id = sql`${end_user === null ? null : (known?.id ?? nextId())}::uuid`
  const own_tags = sql`${JSON.stringify(tags)}::text::jsonb`
  const member = memberOf(end_user_id, own_tags)
  const is_full = sql`${b.is_each} AND ${b.is_hard} AND ${b.period} <> 'minute' AND NOT u.has_member
    AND CASE WHEN u.since >= ${start} THEN u.members ELSE 0 END >= ${MAX_MEMBERS}`
  const columns = {
    ...shown,
    selected: sql<string | null>`CASE WHEN NOT ${b.is_each} THEN ${b.selected}
      WHEN ${b.selector} = 'tag' THEN ${b.selected} || '=' || ${member} ELSE ${known?.id ?? null}::text END`,
    amount: sql`CASE WHEN ${is_full} THEN 0 ELSE ${amountAt(NOW)} END`.mapWith(BigInt),
  }
  const counts = sql`${b.scope} = ANY (tollgate.scopes_of(${id}::uuid, ${group_path}::text, ${model}, ${end_user_id}, ${own_tags}))`
  const its = usedBy(sql`${w.member} = ANY (ARRAY['', ${member}])`)
  return read(database, and(eq(b.account_id, account_id), counts), columns, its)
}

/** Null also for a budget whose account is in another shard (D76). */
export function getBudget(database: Db, id: string): Promise<Budget | null> {
  return firstRow(read(database, eq(b.id, id)))
}

function read(database: Db, condition: SQL | undefined, columns: typeof shown = shown, use = used) {
  return database
    .select(columns)
    .from(b)
    .innerJoin(use, sql`true`)
    .innerJoin(accounts, eq(accounts.id, b.account_id))
    .where(and(condition, isNull(accounts.moved_to)))
    .orderBy(desc(b.id))
}
