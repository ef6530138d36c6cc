import { type SQL, sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import type { Runner } from "../database/connection.ts"
import { allOf, names, statement } from "../database/statement.ts"
import type { BudgetUse } from "../entries.ts"
import { b, c, e, h, t, w } from "../schema/aliases.ts"
import { budget_crossings, budget_windows, budgets } from "../schema/budgets.ts"
import { labels } from "../schema/labels.ts"
import { corrections, ends, holds, terms } from "../schema/tables.ts"
import { rateColumns, stepsAt } from "./rates.ts"
import { idsSince } from "./spending.ts"

/** Parts of the statements that hold, end and check the calls of budgets (D97). */

const l = alias(labels, "l")

/** The labels `l` of a hold, whose columns are null if it has none. */
const labelsOf = (labels_id: SQL): SQL =>
  sql`LATERAL (SELECT ${l.end_user_id}, ${l.tags} FROM ${labels} ${l} WHERE ${l.id} = ${labels_id} OFFSET 0) ${l}`
const modelOf = (terms_id: SQL): SQL =>
  sql`(SELECT ${t.model} FROM ${terms} ${t} WHERE ${t.id} = ${terms_id})`

/** `calls` as `s`, with the scopes of the budgets in which they count. They have the columns that `withBudgets` names. */
export function withScopes(calls: SQL, terms_id: SQL): SQL {
  return sql`(
    SELECT s.*, ${l.end_user_id}, ${l.tags},
      tollgate.scopes_of(s.key_id, s.group_path, ${modelOf(terms_id)}, ${l.end_user_id}, ${l.tags}) AS scopes
    FROM ${calls} LEFT JOIN ${labelsOf(sql`s.labels_id`)} ON true OFFSET 0) s`
}

/** True for a budget `b` in which the call `s` counts. */
export const counts = sql`${b.account_id} = s.account_id AND ${b.scope} = ANY (s.scopes)`

/** `calls` as `s`, with each budget `b` in which they count. `terms_id` is that of their hold. */
export function withBudgets(calls: SQL, terms_id: SQL): SQL {
  return sql`${withScopes(calls, terms_id)} JOIN ${budgets} ${b} ON ${counts}`
}

/** The counter of the budget `b` in which a call of this end user and tags counts. */
export const memberOf = (end_user_id: SQL, tags: SQL): SQL =>
  sql`CASE WHEN NOT ${b.is_each} THEN '' WHEN ${b.selector} = 'tag' THEN ${tags}->>${b.selected} ELSE ${end_user_id}::text END`
export const member = memberOf(sql`s.end_user_id`, sql`s.tags`)

/** Maximum number of members with a counter in one window of a budget. It bounds the table, and the size of a move. */
export const MAX_MEMBERS = sql.raw("10000")

/** Finds and locks the counters of `matched`, `wanted`, and those from which new members begin. */
export const lockCounters = sql`wanted AS MATERIALIZED (
  SELECT DISTINCT id, member FROM matched
), counters AS MATERIALIZED (
  SELECT ${w}.* FROM ${budget_windows} ${w} WHERE ${w.id} = ANY (ARRAY(SELECT id FROM wanted))
    AND ${w.member} = ANY (ARRAY(SELECT '' UNION ALL SELECT member FROM wanted))
  ORDER BY ${w.id}, ${w.member} FOR NO KEY UPDATE
)`

/** The columns of a window that its calls change. */
export const counters = [
  budget_windows.since,
  budget_windows.spent,
  budget_windows.held,
  budget_windows.carried,
  budget_windows.crossed_percent,
] as const

const windowColumns = [
  budget_windows.id,
  budget_windows.member,
  budget_windows.account_id,
  budget_windows.since,
  budget_windows.spent,
  budget_windows.held,
] as const

/**
 * `windows`: the rows `m` of `matched` with their locked counters `x`. `fits` is not true for a counter that the exact
 * statement must write: it is missing, has ended, is per minute (D99), or does not meet `condition`. A FULL JOIN,
 * because it is always a hash join; a kept plan of another join can compare each budget with each counter.
 */
export const lockWindows = (condition: SQL, spent: SQL, held: SQL): SQL => sql`counters AS MATERIALIZED (
  SELECT ${w}.* FROM ${budget_windows} ${w}
  WHERE ${w.id} = ANY (ARRAY(SELECT id FROM matched)) AND ${w.member} = ANY (ARRAY(SELECT member FROM matched))
  ORDER BY ${w.id}, ${w.member} FOR NO KEY UPDATE
), windows AS MATERIALIZED (
  SELECT m.id, m.member, m.account_id, x.since, x.since >= m.since AND m.period <> 'minute' AND ${condition} AS fits, ${spent} AS spent, ${held} AS held
  FROM matched m FULL JOIN counters x ON x.id = m.id AND x.member = m.member WHERE (m.id IS NULL) IS FALSE
)`

/** Writes `windows`, for the accounts in `fitting`. An upsert needs no join. */
export const writeWindows = sql`counted AS (
  INSERT INTO ${budget_windows} (${names(...windowColumns)})
  SELECT ${allOf("y", ...windowColumns)} FROM windows y WHERE (y.account_id IN (SELECT id FROM fitting)) IS TRUE
  ON CONFLICT (id, member) DO UPDATE SET (${names(budget_windows.spent, budget_windows.held)})
    = (${allOf("excluded", budget_windows.spent, budget_windows.held)})
  RETURNING 1
)`

/** The counter `x` of each row `m`, if there is one, and the counter `p` without a member. */
export const withCounter = sql`JOIN counters p ON p.id = m.id AND p.member = '' LEFT JOIN counters x ON x.id = m.id AND x.member = m.member`

/** The number of members in the window of `p`, with the new ones of the row `n` if it begins there. */
const membersOf = (since: SQL): SQL => sql`CASE WHEN p.since = ${since} THEN p.members ELSE 0 END`

/**
 * True for a new member of a window with the maximum number of members. A budget per minute has no window, and forgets
 * its members.
 */
export const isFull = sql`x.id IS NULL AND ${b.period} <> 'minute' AND ${membersOf(sql`s.since`)}
  + row_number() OVER (PARTITION BY m.id, x.id IS NULL ORDER BY m.member) > ${MAX_MEMBERS}`

/** Writes counters from `written`, which has `is_new` and the columns of `counters` and `rateColumns`, and counts new members where there is no member. */
export const writeCounters = sql`
  INSERT INTO ${budget_windows} (${names(budget_windows.id, budget_windows.member, budget_windows.account_id, ...counters, ...rateColumns, budget_windows.members)})
  SELECT s.id, s.member, s.account_id, ${allOf("s", ...counters, ...rateColumns)}, 0 FROM written s
  UNION ALL SELECT p.id, '', p.account_id, n.since, 0, 0, 0, 0, NULL, NULL, NULL, NULL, ${membersOf(sql`n.since`)} + n.members
  FROM (SELECT s.id, s.since, count(*)::int AS members FROM written s WHERE s.is_new GROUP BY s.id, s.since) n
    JOIN counters p ON p.id = n.id AND p.member = ''
  ON CONFLICT (id, member) DO UPDATE SET (${names(...counters, ...rateColumns, budget_windows.members)})
    = (${allOf("excluded", ...counters, ...rateColumns, budget_windows.members)})`

/** An amount in the unit of the budget `b`. */
export function inUnit(usd_nano: SQL, tokens: SQL, requests: SQL): SQL {
  return sql`CASE ${b.unit} WHEN 'usd' THEN ${usd_nano} WHEN 'tokens' THEN coalesce(${tokens}, 0)::bigint
    ELSE (${requests})::bigint END`
}

/** The amount that the hold `s` takes from the budget `b`. */
export const needed = inUnit(sql`s.amount_nano`, sql`s.held_tokens`, sql`1`)

/** The amount of the budget `b` at that time. */
export function amountAt(moment: SQL): SQL {
  return sql`CASE WHEN ${b.raised_until} > ${moment} THEN ${b.raised_amount} ELSE ${b.amount} END`
}

/** The beginning of the window of the budget `b` at that time; `-infinity` for a minute and a total. */
export function windowStart(moment: SQL): SQL {
  return sql`tollgate.window_start(${b.period}, ${b.timezone}, ${moment})`
}

/** The end of that window; null for a minute and a total. */
export function windowEnd(moment: SQL): SQL {
  return sql`tollgate.window_end(${b.period}, ${b.timezone}, ${moment})`
}

/** The budget `b` and the use of it in the row `x`, as a JSON object for `useOf`; for a member, with the member. */
export const budgetJson = sql`json_build_object('id', ${b.id}, 'name', ${b.name}, 'selector', ${b.selector}, 'selected',
    CASE WHEN ${b.is_each} THEN coalesce(${b.selected} || '=', '') || x.member ELSE ${b.selected} END,
    'unit', ${b.unit}, 'period', ${b.period}, 'amount', x.amount::text, 'spent', x.spent::text, 'held', x.held::text,
    'resets_at', extract(epoch FROM ${windowEnd(sql`x.moment`)}) * 1000)`

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

/** The spending of the budget `b` in the window `w`; for a budget per minute, the part that has not refilled. */
export function spentAt(moment: SQL): SQL {
  return sql`(${usedAt(w.spent, moment)} + tollgate.unrefilled(${stepsAt("w", amountAt(moment), moment)}))`
}

/** The counter of the window `w` of the budget `b`; 0 if a later window has begun. */
export function usedAt(column: typeof w.spent | typeof w.held, moment: SQL): SQL {
  return sql`CASE WHEN ${w.since} >= ${windowStart(moment)} THEN ${column} ELSE 0 END`
}

/**
 * True if the key's calls count in the budget `b`, all or those to its model. Budgets of each end user or tag value do
 * not count, because they have no single amount. `labels`: tags of all its calls.
 */
export function concerns(key_id: SQL, group_path: SQL, labels: SQL): SQL {
  return sql`(NOT ${b.is_each} AND (${b.selector} = 'model'
    OR ${b.scope} = ANY (tollgate.scopes_of(${key_id}, ${group_path}, NULL, NULL, ${labels}))))`
}

/** Counters of the window of the row `x`; 0 if it is missing or the window that begins at `s.since` is later. */
export const countersInWindow = sql.raw(
  counters
    .filter((column) => column !== budget_windows.since)
    .map(({ name }) => `CASE WHEN x.since = s.since THEN x.${name} ELSE 0 END AS ${name}`)
    .join(", "),
)

/**
 * Counts ended calls at their charge instead of their hold, in the budgets in whose current window they were held, and
 * records the thresholds that are reached. A restored hold (D73) may begin a window or add a member. The counter of a
 * member may already be deleted. Follows the CTEs `changed` and `payers`, like `countSpending`; `changed` also has
 * `group_path`, `labels_id`, `held_terms_id`, and tokens and requests as `paid_…` and `freed_…`. An account whose
 * budgets were changed after the statement's snapshot is `is_stale` in `payers`, and must not be in `changed`.
 */
export const countBudgets = sql`matched AS MATERIALIZED (
  SELECT ${b.id}, ${member} AS member, s.held_at, s.freed_requests < 0 AS is_restored,
    ${inUnit(sql`s.paid_nano`, sql`s.paid_tokens`, sql`s.paid_requests`)} AS paid,
    ${inUnit(sql`s.freed_nano`, sql`s.freed_tokens`, sql`s.freed_requests`)} AS freed
  FROM ${withBudgets(sql`changed s JOIN payers p ON p.id = s.account_id AND p.is_limited`, sql`s.held_terms_id`)}
), ${lockCounters}, windows AS MATERIALIZED (
  SELECT m.id, m.member, p.account_id, x.id IS NULL AS is_new, s.since, ${b.thresholds}, ${amountAt(sql`now()`)} AS amount,
    ${countersInWindow}, ${stepsAt("x", amountAt(sql`now()`), sql`s.step_at`)} AS steps,
    tollgate.step_start(s.step_at) AS step_at, x.waiting_amount, x.waiting_until
  FROM (SELECT id, member, max(held_at) AS held_at, bool_or(is_restored) AS is_restored FROM matched GROUP BY id, member) m
    ${withCounter} JOIN ${budgets} ${b} ON ${b.id} = m.id
    CROSS JOIN LATERAL (SELECT greatest(coalesce(x.since, p.since), ${windowStart(sql`m.held_at`)}) AS since,
      greatest(x.step_at, m.held_at) AS step_at OFFSET 0) s
  WHERE x.id IS NOT NULL OR m.is_restored
), written AS MATERIALIZED (
  SELECT y.id, y.member, y.account_id, y.is_new, y.since, y.spent + m.paid AS spent, y.held - m.freed AS held, y.carried,
    greatest(y.crossed_percent, (
      SELECT max(x) FROM unnest(y.thresholds) x WHERE (y.spent + m.paid)::numeric * 100 >= y.amount::numeric * x)) AS crossed_percent,
    tollgate.counted_in(y.steps, y.step_at, m.times, m.changes) AS steps, CASE WHEN y.steps IS NOT NULL THEN y.step_at END AS step_at,
    y.waiting_amount, y.waiting_until
  FROM windows y JOIN (
    SELECT m.id, m.member, coalesce(sum(m.paid) FILTER (WHERE y.steps IS NULL), 0)::bigint AS paid,
      coalesce(sum(m.freed) FILTER (WHERE y.steps IS NULL), 0)::bigint AS freed,
      array_agg(m.held_at) AS times, array_agg(m.paid - m.freed) AS changes
    FROM matched m JOIN windows y ON y.id = m.id AND y.member = m.member AND y.since <= m.held_at GROUP BY m.id, m.member) m
    ON m.id = y.id AND m.member = y.member
), filled AS (${writeCounters}
), crossed AS (
  INSERT INTO ${budget_crossings} (${names(
    budget_crossings.budget_id,
    budget_crossings.member,
    budget_crossings.account_id,
    budget_crossings.since,
    budget_crossings.percent,
    budget_crossings.spent,
    budget_crossings.amount,
  )})
  SELECT f.id, f.member, f.account_id, f.since, x, f.spent, n.amount
  FROM written f JOIN windows n ON n.id = f.id AND n.member = f.member CROSS JOIN LATERAL unnest(n.thresholds) x
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

/** The calls of this shard that were held since then and count in the budget `b`: the same as by `withBudgets`, for one budget and many calls. */
function callsSince(since: SQL): SQL {
  return sql`SELECT ${memberOf(sql`${l.end_user_id}`, sql`${l.tags}`)} AS member, ${h.held_at},
      CASE WHEN ${e.id} IS NULL THEN 0 ELSE ${spent_of_call} END AS spent, CASE WHEN ${e.id} IS NULL THEN ${held_of_call} ELSE 0 END AS held
    FROM ${holds} ${h} LEFT JOIN ${ends} ${e} ON ${e.id} = ${h.id} LEFT JOIN ${corrections} ${c} ON ${c.id} = ${h.id}
      LEFT JOIN ${labelsOf(sql`${h.labels_id}`)} ON ${b.selector} IN ('end_user', 'tag')
    WHERE ${h.account_id} = ${b.account_id} AND ${h.held_at} >= ${since} AND ${h.id} >= ${idsSince(since)}
      AND CASE ${b.selector}
        WHEN 'all' THEN true
        WHEN 'key' THEN ${b.selected} = ${h.key_id}::text
        WHEN 'group' THEN starts_with(${h.group_path} || '/', ${b.selected} || '/')
        WHEN 'model' THEN ${b.selected} = ${modelOf(sql`${h.terms_id}`)}
        WHEN 'end_user' THEN ${l.end_user_id}::text = coalesce(${b.selected}, ${l.end_user_id}::text)
        WHEN 'tag' THEN ${l.tags}->>split_part(${b.selected}, '=', 1)
          = CASE WHEN ${b.is_each} THEN ${l.tags}->>${b.selected} ELSE substr(${b.selected}, strpos(${b.selected}, '=') + 1) END
      END`
}

/** `spent` and `held` of the budget `b` for each `member` by the calls since then, and a row without a member, as a relation. */
export function countedSince(since: SQL): SQL {
  return sql`(SELECT x.member, sum(x.spent)::bigint AS spent, sum(x.held)::bigint AS held
    FROM (${callsSince(since)} UNION ALL SELECT '', NULL, 0, 0) x GROUP BY x.member)`
}

/** The same for each of the counters `windows`, a relation like `budget_windows`, by the calls of its window. */
export function countedIn(windows: SQL): SQL {
  return sql`(SELECT w.member, coalesce(sum(x.spent), 0)::bigint AS spent, coalesce(sum(x.held), 0)::bigint AS held
    FROM (SELECT min(w.since) AS since FROM ${windows} w WHERE w.id = ${b.id}) y CROSS JOIN LATERAL (${callsSince(sql`y.since`)} OFFSET 0) x
    RIGHT JOIN ${windows} w ON w.member = x.member AND x.held_at >= w.since WHERE w.id = ${b.id} GROUP BY w.member)`
}

const STATEMENT_MS = 5_000
const CHUNK = 1_000

/**
 * Deletes old counters. A window that ended a day ago does not come again, even if servers' clocks differ, and a budget
 * per minute has refilled after an hour. A member without a counter begins at 0.
 */
const forget = statement(
  "sweep",
  sql`
DELETE FROM ${budget_windows} ${w} USING (
  SELECT o.id, o.member FROM (
    SELECT ${b.id}, ${windowStart(sql`now() - interval '1 day'`)} AS since, now() - interval '1 hour' AS step_at FROM ${budgets} ${b} WHERE ${b.is_each} OFFSET 0) s
    JOIN ${budget_windows} o ON o.id = s.id AND o.member <> '' AND (o.since < s.since OR o.step_at < s.step_at)
  LIMIT ${sql.raw(String(CHUNK))} FOR UPDATE OF o SKIP LOCKED) old
WHERE ${w.id} = old.id AND ${w.member} = old.member
RETURNING 1`,
)

export async function forgetMembers(connection: Runner): Promise<void> {
  for (;;) {
    const gone = await connection.run(forget, [], STATEMENT_MS)
    if (gone.length < CHUNK) break
  }
}
