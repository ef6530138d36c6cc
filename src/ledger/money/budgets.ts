import { type SQL, sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import { names } from "../database/statement.ts"
import type { BudgetUse } from "../entries.ts"
import { budget_crossings, budget_windows, budgets } from "../schema/budgets.ts"
import { corrections, ends, holds, terms } from "../schema/tables.ts"
import { idsSince } from "./spending.ts"

/** Parts of the statements that hold, end and check the calls of budgets (D97). */

const b = alias(budgets, "b")
const w = alias(budget_windows, "w")
const t = alias(terms, "t")
const h = alias(holds, "h")
const e = alias(ends, "e")
const c = alias(corrections, "c")

/** Facts of a call that its hold has recorded. */
interface HeldCall {
  readonly key_id: SQL
  readonly group_path: SQL
  readonly terms_id: SQL
}

/** The scopes of budgets in which the call counts. */
export function scopesOf({ key_id, group_path, terms_id }: HeldCall): SQL {
  return sql`tollgate.scopes_of(${key_id}, ${group_path}, (SELECT ${t.model} FROM ${terms} ${t} WHERE ${t.id} = ${terms_id}))`
}

/** True if the call counts in the budget `b` of its account: the same as by `scopesOf`, for one budget and many calls. */
function countsIn({ key_id, group_path, terms_id }: HeldCall): SQL {
  return sql`CASE ${b.selector}
    WHEN 'all' THEN true
    WHEN 'key' THEN ${b.selected} = ${key_id}::text
    WHEN 'group' THEN starts_with(${group_path} || '/', ${b.selected} || '/')
    WHEN 'model' THEN ${b.selected} = (SELECT ${t.model} FROM ${terms} ${t} WHERE ${t.id} = ${terms_id})
  END`
}

/** An amount in the unit of the budget `b`. */
export function inUnit(usd_nano: SQL, tokens: SQL, requests: SQL): SQL {
  return sql`CASE ${b.unit} WHEN 'usd' THEN ${usd_nano} WHEN 'tokens' THEN coalesce(${tokens}, 0)::bigint
    ELSE (${requests})::bigint END`
}

/** The amount that a hold takes from the budget `b`. */
export function takes(amount_nano: SQL, held_tokens: SQL): SQL {
  return inUnit(amount_nano, held_tokens, sql`1`)
}

/** The amount of the budget `b` at that time. */
export function amountAt(moment: SQL): SQL {
  return sql`CASE WHEN ${b.raised_until} > ${moment} THEN ${b.raised_amount} ELSE ${b.amount} END`
}

/** The beginning of the window of the budget `b` at that time; `-infinity` for a total. */
export function windowStart(moment: SQL): SQL {
  return sql`tollgate.window_start(${b.period}, ${b.timezone}, ${moment})`
}

/** The end of that window; null for a total. */
export function windowEnd(moment: SQL): SQL {
  return sql`tollgate.window_end(${b.period}, ${b.timezone}, ${moment})`
}

/** Numbers of a window as SQL, at the time `moment`. */
interface WindowUse {
  readonly amount: SQL
  readonly spent: SQL
  readonly held: SQL
  readonly moment: SQL
}

/** The budget `b` and what its window has used, as a JSON object for `useOf`. */
export function budgetJson({ amount, spent, held, moment }: WindowUse): SQL {
  return sql`json_build_object('id', ${b.id}, 'name', ${b.name}, 'selector', ${b.selector}, 'selected', ${b.selected},
    'unit', ${b.unit}, 'period', ${b.period}, 'amount', (${amount})::text, 'spent', (${spent})::text, 'held', (${held})::text,
    'resets_at', extract(epoch FROM ${windowEnd(moment)}) * 1000)`
}

interface UseJson extends Omit<BudgetUse, "amount" | "spent" | "held" | "resets_at"> {
  readonly amount: string
  readonly spent: string
  readonly held: string
  readonly resets_at: number | null
}

export function useOf({ amount, spent, held, resets_at, ...budget }: UseJson): BudgetUse {
  return {
    ...budget,
    amount: BigInt(amount),
    spent: BigInt(spent),
    held: BigInt(held),
    resets_at: resets_at === null ? null : new Date(resets_at),
  }
}

/** The counter of the window `w` of the budget `b`, or 0 if its window at this time is a later one. */
export function usedAt(column: typeof w.spent | typeof w.held, moment: SQL): SQL {
  return sql`CASE WHEN ${w.since} >= ${windowStart(moment)} THEN ${column} ELSE 0 END`
}

/** The hard budgets of a key, as a JSON array for `useOf`: also those of models that it may not call. */
export function budgetsOfKey(account_id: SQL, key_id: SQL, group_path: SQL): SQL {
  const now = sql`now()`
  const use = { amount: amountAt(now), spent: usedAt(w.spent, now), held: usedAt(w.held, now), moment: now }
  return sql`(SELECT json_agg(${budgetJson(use)}) FROM ${budgets} ${b} JOIN ${budget_windows} ${w} ON ${w.id} = ${b.id}
    WHERE ${b.account_id} = ${account_id} AND ${b.is_hard} AND ${concerns(key_id, group_path)})`
}

/** True if calls of the key can count in the budget `b`. */
export function concerns(key_id: SQL, group_path: SQL): SQL {
  return sql`(${b.selector} = 'model' OR ${b.scope} = ANY (tollgate.scopes_of(${key_id}, ${group_path}, NULL)))`
}

/** The columns of `changed`, besides those that `moveSums` reads, from which `countBudgets` follows. */
export interface CountedChange {
  readonly group_path: SQL
  /** The terms of the hold. */
  readonly held_terms_id: SQL
  readonly paid_tokens: SQL
  readonly freed_tokens: SQL
  readonly paid_requests: SQL
  readonly freed_requests: SQL
}

export const budgetColumns = (change: CountedChange): SQL =>
  sql.join(
    Object.entries(change).map(([name, value]) => sql`${value} AS ${sql.raw(name)}`),
    sql.raw(", "),
  )

/** The columns of a window that its calls change. */
export const counters = [
  budget_windows.since,
  budget_windows.spent,
  budget_windows.held,
  budget_windows.carried,
  budget_windows.crossed_percent,
] as const

/** Those that are counted in the window of the row `x`, or 0 if the window that begins at `since` is a later one. */
export function countersFrom(since: SQL): SQL {
  const counts = counters.filter((column) => column !== budget_windows.since)
  const now = counts.map(
    ({ name }) => sql`CASE WHEN x.since = ${since} THEN ${sql.raw(`x.${name} ELSE 0 END AS ${name}`)}`,
  )
  return sql.join(now, sql`, `)
}

/**
 * Counts ended calls at their charge instead of their hold, in the budgets in whose current window they were held, and writes the
 * thresholds that this reaches. A restored hold (D73) may be the first of a window, which then begins. Follows the CTEs `changed`
 * and `payers`, as `countSpending` does. An account whose budgets were changed after the statement's snapshot is `is_stale` in
 * `payers`, and must not be in `changed`.
 */
export const countBudgets = sql`matched AS MATERIALIZED (
  SELECT ${b.id}, s.held_at,
    ${inUnit(sql`s.paid_nano`, sql`s.paid_tokens`, sql`s.paid_requests`)} AS paid,
    ${inUnit(sql`s.freed_nano`, sql`s.freed_tokens`, sql`s.freed_requests`)} AS freed
  FROM (
    SELECT s.*, ${scopesOf({ key_id: sql`s.key_id`, group_path: sql`s.group_path`, terms_id: sql`s.held_terms_id` })} AS scopes
    FROM changed s JOIN payers p ON p.id = s.account_id AND p.is_limited OFFSET 0) s
    JOIN ${budgets} ${b} ON ${b.account_id} = s.account_id AND ${b.scope} = ANY (s.scopes)
), counters AS MATERIALIZED (
  SELECT ${w}.* FROM ${budget_windows} ${w}
  WHERE ${w.id} = ANY (ARRAY(SELECT id FROM matched)) ORDER BY ${w.id} FOR NO KEY UPDATE
), windows AS MATERIALIZED (
  SELECT x.id, s.since, ${b.thresholds}, ${amountAt(sql`now()`)} AS amount, ${countersFrom(sql`s.since`)}
  FROM counters x JOIN (SELECT id, max(held_at) AS held_at FROM matched GROUP BY id) m ON m.id = x.id
    JOIN ${budgets} ${b} ON ${b.id} = x.id
    CROSS JOIN LATERAL (SELECT greatest(x.since, ${windowStart(sql`m.held_at`)}) AS since OFFSET 0) s
), filled AS (
  UPDATE ${budget_windows} ${w} SET (${names(...counters)})
    = (s.since, s.spent + s.paid, s.held - s.freed, s.carried, greatest(s.crossed_percent, (
      SELECT max(x) FROM unnest(s.thresholds) x WHERE (s.spent + s.paid)::numeric * 100 >= s.amount::numeric * x)))
  FROM (
    SELECT y.*, m.paid, m.freed FROM windows y JOIN (
      SELECT m.id, sum(m.paid)::bigint AS paid, sum(m.freed)::bigint AS freed
      FROM matched m JOIN windows y ON y.id = m.id AND y.since <= m.held_at GROUP BY m.id) m ON m.id = y.id) s
  WHERE ${w.id} = s.id AND ${w.id} = ANY (ARRAY(SELECT id FROM counters))
  RETURNING ${w.id}, ${w.account_id}, ${w.since}, ${w.spent}, ${w.crossed_percent}, s.thresholds, s.amount
), crossed AS (
  INSERT INTO ${budget_crossings} (${names(
    budget_crossings.budget_id,
    budget_crossings.account_id,
    budget_crossings.since,
    budget_crossings.percent,
    budget_crossings.spent,
    budget_crossings.amount,
  )})
  SELECT f.id, f.account_id, f.since, x, f.spent, f.amount
  FROM filled f JOIN windows n ON n.id = f.id CROSS JOIN LATERAL unnest(f.thresholds) x
  WHERE x > n.crossed_percent AND x <= f.crossed_percent
  ON CONFLICT DO NOTHING
)`

/** The amounts of a call in the budget `b`, by its entries `h`, `e` and `c`: once it has ended, and while it is open. */
const spent_of_call = inUnit(
  sql`coalesce(${c.charge_nano}, ${e.charge_nano})`,
  sql`CASE WHEN ${c.id} IS NULL THEN ${e.prompt_tokens} + ${e.completion_tokens}
    ELSE ${c.prompt_tokens} + ${c.completion_tokens} END`,
  sql`(${e.outcome} <> 'released')::int`,
)
const held_of_call = inUnit(sql`${h.amount_nano}`, sql`${h.held_tokens}`, sql`1`)

/** `spent` and `held` of the budget `b` by its account's calls in this shard that were held since then, as a row. */
export function countedSince(since: SQL): SQL {
  return sql`(SELECT coalesce(sum(${spent_of_call}) FILTER (WHERE ${e.id} IS NOT NULL), 0)::bigint AS spent,
      coalesce(sum(${held_of_call}) FILTER (WHERE ${e.id} IS NULL), 0)::bigint AS held
    FROM ${holds} ${h} LEFT JOIN ${ends} ${e} ON ${e.id} = ${h.id} LEFT JOIN ${corrections} ${c} ON ${c.id} = ${h.id}
    WHERE ${h.account_id} = ${b.account_id} AND ${h.held_at} >= ${since} AND ${h.id} >= ${idsSince(since)}
      AND ${countsIn({ key_id: sql`${h.key_id}`, group_path: sql`${h.group_path}`, terms_id: sql`${h.terms_id}` })})`
}
