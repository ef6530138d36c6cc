import { sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import { NIL_ID } from "../../id.ts"
import { amount, type RowOf, RowShape, text, word } from "../database/row-shape.ts"
import type { Db, Row } from "../database/statement.ts"
import { countedIn } from "../money/budgets.ts"
import { effectOf, isImmediate } from "../money/grants.ts"
import { spentSince } from "../money/spending.ts"
import { a, b, c, e, h, k, n, w } from "../schema/aliases.ts"
import { budget_windows, budgets } from "../schema/budgets.ts"
import { grant_entries } from "../schema/grants.ts"
import { months, seal_sums, seals } from "../schema/sums.ts"
import { accounts, corrections, credits, ends, holds, keys } from "../schema/tables.ts"

const m = alias(months, "m")
const s = alias(seals, "s")

const difference = new RowShape({
  kind: word(["balance", "held", "spent", "budget"]),
  /** The key for `spent`, the budget for `budget`, in its unit; otherwise the account. */
  id: text,
  recorded_nano: amount,
  expected_nano: amount,
})

export type Difference = RowOf<typeof difference>

/** The audit of one account, in one snapshot (D55): its entries, with the seals of sealed months, its spending limits and budgets. */
const question = (account_id: string) => {
  const id = sql`${account_id}::uuid`
  const since = sql`${k.spent_since}`
  const spent = spentSince({ id: sql`${k.id}`, account_id: id, since, period: sql`${k.spend_period}` })
  return sql`
  WITH open AS MATERIALIZED (
    SELECT coalesce(${m.from_id}, ${NIL_ID}) AS from_id, ${m.month} FROM ${months} ${m}
    WHERE NOT EXISTS (SELECT FROM ${seals} ${s} WHERE ${s.month} = ${m.month}) ORDER BY ${m.month} LIMIT 1
  ), entry AS (
    SELECT amount_nano::numeric AS balance, 0::numeric AS held FROM ${credits} WHERE account_id = ${id} AND ${isImmediate(credits)}
    UNION ALL SELECT ${effectOf(n)}, 0 FROM ${grant_entries} ${n} WHERE ${n.account_id} = ${id}
    UNION ALL SELECT -charge_nano, 0 FROM ${seal_sums} WHERE account_id = ${id} AND month < (SELECT month FROM open)
    UNION ALL SELECT -coalesce(${c.charge_nano}, ${e.charge_nano}, 0), CASE WHEN ${e.id} IS NULL THEN ${h.amount_nano} ELSE 0 END
    FROM ${holds} ${h} LEFT JOIN ${ends} ${e} ON ${e.id} = ${h.id} LEFT JOIN ${corrections} ${c} ON ${c.id} = ${h.id}
    WHERE ${h.account_id} = ${id} AND ${h.id} >= (SELECT from_id FROM open)
  ), found AS (
    SELECT pair.kind, ${a.id}, pair.recorded, pair.expected FROM ${accounts} ${a}
    CROSS JOIN (SELECT coalesce(sum(balance), 0) AS balance, coalesce(sum(held), 0) AS held FROM entry) j
    CROSS JOIN LATERAL (VALUES ('balance', ${a.balance_nano}, j.balance), ('held', ${a.held_nano}, j.held))
      AS pair (kind, recorded, expected)
    WHERE ${a.id} = ${id}
    UNION ALL SELECT 'spent', ${k.id}, ${k.spent_nano}, ${spent} FROM ${keys} ${k}
    WHERE ${k.account_id} = ${id} AND ${k.spend_limit_nano} IS NOT NULL
      AND ${since} >= (SELECT month::timestamp AT TIME ZONE 'UTC' FROM open)
    UNION ALL SELECT 'budget', ${w.id}, ${w.spent} + ${w.held}, ${w.carried} + counted.spent + counted.held
    FROM ${budgets} ${b} CROSS JOIN LATERAL ${countedIn(sql`${budget_windows}`)} counted
      JOIN ${budget_windows} ${w} ON ${w.id} = ${b.id} AND ${w.member} = counted.member
    WHERE ${b.account_id} = ${id} AND ${w.steps} IS NULL AND ${w.since} >= (SELECT month::timestamp AT TIME ZONE 'UTC' FROM open)
  )
  SELECT kind, id, recorded::text AS recorded_nano, expected::text AS expected_nano FROM found WHERE recorded <> expected ORDER BY kind, id`
}

export async function differences(database: Db, account_id: string): Promise<readonly Difference[]> {
  const rows = await database.execute<Row>(question(account_id))
  return rows.map((row) => difference.read(row))
}
