import { sql } from "drizzle-orm"
import { arrayOf } from "../database/statement.ts"
import { countedIn, counts, inUnit, member, withScopes } from "../money/budgets.ts"
import { b, c, e, h, w } from "../schema/aliases.ts"
import { budget_windows, budgets } from "../schema/budgets.ts"
import { corrections, ends, holds } from "../schema/tables.ts"
import { at, beginsIn, type EntriesBeside, type FoundSums, found } from "./audit-checks.ts"
import { within } from "./slices.ts"

/** The audit's queries about budgets (D97), but not about those per minute, whose steps refill (D99). */

const has_budgets = sql`${h.account_id} IN (SELECT ${budgets.account_id} FROM ${budgets})`
const call = sql`${h.account_id}, ${h.key_id}, ${h.group_path}, ${h.labels_id}, ${h.terms_id}, ${h.held_at}`

/** The changes by entries, one row each, of the calls of accounts with budgets: what is spent and held in USD, tokens and requests. */
const changesOf = (entries: EntriesBeside) => sql`
  SELECT ${call}, 0::bigint AS spent_nano, 0 AS spent_tokens, 0 AS spent_requests,
    ${h.amount_nano} AS held_nano, ${h.held_tokens} AS held_tokens, 1 AS held_requests FROM ${holds} ${h}
    WHERE ${within(h.id, entries)} AND ${at(h.held_at, entries)} AND ${has_budgets}
  UNION ALL SELECT ${call}, ${e.charge_nano}, coalesce(${e.prompt_tokens} + ${e.completion_tokens}, 0),
      (${e.outcome} <> 'released')::int, -${h.amount_nano}, -${h.held_tokens}, -1
    FROM ${ends} ${e} JOIN ${holds} ${h} ON ${h.id} = ${e.id} AND ${within(h.id, entries)}
    WHERE ${within(e.id, entries)} AND ${at(sql`${e.ended_at}`, entries)} AND ${has_budgets}
  UNION ALL SELECT ${call}, ${c.difference_nano}, coalesce(${c.prompt_tokens} + ${c.completion_tokens}, 0)
      - coalesce(${e.prompt_tokens} + ${e.completion_tokens}, 0), 0, 0, 0, 0
    FROM ${corrections} ${c} JOIN ${ends} ${e} ON ${e.id} = ${c.id} AND ${within(e.id, entries)}
      JOIN ${holds} ${h} ON ${h.id} = ${c.id} AND ${within(h.id, entries)}
    WHERE ${within(c.id, entries)} AND ${at(sql`${c.corrected_at}`, entries)} AND ${has_budgets}`

/** The name of a counter in lists: the budget's id and the member. */
const counter = sql`concat(${w.id}, encode(convert_to(${w.member}, 'UTF8'), 'hex'))`

/** Sums of the changes for each counter. By look-ups: a join can read all changes again for each counter. */
export const budgetsIn = (entries: EntriesBeside, open_month: string | null) => sql`
  SELECT counted.id, sum(counted.spent)::text AS spent, sum(counted.held)::text AS held
  FROM ${withScopes(sql`(${changesOf(entries)}) s`, sql`s.terms_id`)}
    CROSS JOIN LATERAL (SELECT ${b.id}, ${b.unit}, ${member} AS member FROM ${budgets} ${b} WHERE ${counts} OFFSET 0) b
    CROSS JOIN LATERAL (
      SELECT ${counter} AS id, ${inUnit(sql`s.spent_nano`, sql`s.spent_tokens`, sql`s.spent_requests`)} AS spent,
        ${inUnit(sql`s.held_nano`, sql`s.held_tokens`, sql`s.held_requests`)} AS held
      FROM ${budget_windows} ${w} WHERE ${w.id} = b.id AND ${w.member} = b.member AND ${w.since} <= s.held_at
        AND ${beginsIn(w.since, open_month)} AND ${w.steps} IS NULL OFFSET 0) counted
  GROUP BY counted.id`

export const budgetsThatMayDiffer = (sums: FoundSums, open_month: string | null, since: EntriesBeside) => sql`
  SELECT ${counter} AS id FROM ${budget_windows} ${w} LEFT JOIN (${budgetsIn(since, open_month)}) later ON later.id = ${counter}
    LEFT JOIN ${found("f", sums, "id, spent, held", "text")} ON f.id = ${counter}
  WHERE ${beginsIn(w.since, open_month)} AND ${w.steps} IS NULL AND (
    ${w.spent} <> ${w.carried} + coalesce(f.spent, 0) + coalesce(later.spent::numeric, 0)
    OR ${w.held} <> coalesce(f.held, 0) + coalesce(later.held::numeric, 0))
  ORDER BY 1`

/** Those of these counters that differ from the calls of their window, each in one snapshot. Tokens and requests count as if each were a USD. */
export const budgetsThatDiffer = (ids: readonly string[], open_month: string | null) => sql`
  SELECT pair.kind, ${w.account_id}, ${w.id}, (pair.recorded * s.unit)::text AS recorded, (pair.expected * s.unit)::text AS expected
  FROM ${budgets} ${b} CROSS JOIN LATERAL (SELECT CASE ${b.unit} WHEN 'usd' THEN 1 ELSE 1000000000 END AS unit OFFSET 0) s
    CROSS JOIN LATERAL ${countedIn(sql`${budget_windows}`)} counted
    JOIN ${budget_windows} ${w} ON ${w.id} = ${b.id} AND ${w.member} = counted.member
    CROSS JOIN LATERAL (VALUES ('budget_spent', ${w.spent}::numeric, ${w.carried}::numeric + counted.spent),
      ('budget_held', ${w.held}::numeric, counted.held::numeric)) AS pair (kind, recorded, expected)
  WHERE ${b.id} = ANY (${arrayOf([...new Set(ids.map((id) => id.slice(0, 36)))], (id) => id)}::uuid[])
    AND ${counter} = ANY (${arrayOf(ids, (id) => id)}::text[]) AND ${beginsIn(w.since, open_month)} AND ${w.steps} IS NULL AND pair.recorded <> pair.expected
  ORDER BY ${w.id}, pair.kind`
