import { type SQL, sql } from "drizzle-orm"
import type { RateLeft } from "../../wire/budget.ts"
import { b } from "../schema/aliases.ts"
import { budget_windows, budgets } from "../schema/budgets.ts"

/** Parts of the statements that hold and end the calls of budgets per minute (D99). */

/** Seconds for which room is kept for a refused call from the time at which it fits. */
const KEPT_S = sql.raw("5")

export const stepColumns = [budget_windows.steps, budget_windows.step_at] as const
export const rateColumns = [
  ...stepColumns,
  budget_windows.waiting_amount,
  budget_windows.waiting_until,
] as const

/** The steps of the window `row`, if `b` is a budget per minute; otherwise null. */
export function stepsAt(row: "w" | "x", amount: SQL, moment: SQL): SQL {
  const of = sql.raw(row)
  return sql`CASE ${b.period} WHEN 'minute' THEN tollgate.refilled(${of}.steps, ${of}.step_at, ${amount}, ${moment}) END`
}

/** The steps `r`, and the rest that `countRates` reads, as columns of `windows`, by the account's clock `o`. */
export const rateColumnsNow =
  sql.raw(`r.steps, tollgate.step_start(o.moment) AS step_at, tollgate.unrefilled(r.steps) AS level,
    CASE WHEN x.waiting_until > o.moment THEN x.waiting_amount END AS waiting, x.waiting_until`)

/**
 * CTEs after `taken` in the statement that holds. `rates`: budgets per minute after the statement's holds. `too_soon`:
 * calls that do not fit in one now, and when they will. `rated`: the rest of a call's budgets.
 */
export const countRates = sql`rates AS MATERIALIZED (
  SELECT t.*, tollgate.refilled_at(t.steps, t.step_at, t.amount, t.thirtieths) AS full_at FROM (
    SELECT y.id, y.member, y.amount, y.moment, y.step_at, n.steps, (SELECT sum(x) FROM unnest(n.steps) x)::bigint AS thirtieths,
      CASE WHEN s.is_served IS NOT TRUE THEN y.waiting END AS waiting, y.waiting_until
    FROM windows y LEFT JOIN taken s ON s.id = y.id AND s.member = y.member CROSS JOIN LATERAL (
      SELECT tollgate.counted_in(y.steps, y.step_at, ARRAY[y.moment], ARRAY[coalesce(s.amount, 0)]) AS steps OFFSET 0) n
    WHERE y.steps IS NOT NULL) t
), too_soon AS MATERIALIZED (
  SELECT q.call_id, q.id, q.member, q.needed, q.kept, t.waiting, tollgate.refilled_at(t.steps, t.step_at, t.amount, n.excess) AS fits_at
  FROM (
    SELECT m.*, CASE WHEN t.waiting <> m.needed THEN t.waiting ELSE 0 END AS kept
    FROM matched m JOIN rates t ON t.id = m.id AND t.member = m.member
    WHERE m.needed <= t.amount AND m.call_id NOT IN (SELECT id FROM inserted)
  ) q JOIN rates t ON t.id = q.id AND t.member = q.member
    CROSS JOIN LATERAL (SELECT t.thirtieths + 30 * (q.needed + q.kept - t.amount) AS excess OFFSET 0) n
  WHERE n.excess > 0
), rated AS MATERIALIZED (
  SELECT m.call_id, json_agg(json_build_object('unit', ${b.unit}, 'limit', t.amount::text,
    'remaining', greatest(t.amount - tollgate.unrefilled(t.steps), 0)::text,
    'reset_ms', coalesce(greatest(extract(epoch FROM t.full_at - t.moment) * 1000, 0), 60000)))::text AS rates
  FROM matched m JOIN rates t ON t.id = m.id AND t.member = m.member JOIN ${budgets} ${b} ON ${b.id} = t.id GROUP BY m.call_id
)`

/**
 * CTEs after `exceeded`. `queued`: for each budget per minute that keeps no room, the call for which it now does,
 * because only such budgets refuse it. `written`: the counters of calls that are held, and those that keep room.
 */
export const writtenCounters = sql`queued AS MATERIALIZED (
  SELECT DISTINCT ON (q.id, q.member) q.id, q.member, q.needed, q.fits_at + interval '${KEPT_S} seconds' AS until
  FROM too_soon q JOIN exceeded x ON x.call_id = q.call_id AND x.wait_ms IS NOT NULL
  WHERE q.waiting IS NULL AND NOT EXISTS (SELECT FROM sold o JOIN slots z ON z.ordinal = o.ordinal JOIN rooms r ON r.slot = z.slot
    WHERE o.id = q.call_id AND r.kind IN ('account', 'key') AND r.room < z.needed)
  ORDER BY q.id, q.member, q.call_id
), written AS MATERIALIZED (
  SELECT x.id, x.member, x.account_id, x.is_new, x.since, x.spent, x.held + CASE WHEN x.steps IS NULL THEN s.amount ELSE 0 END AS held,
    x.carried, x.crossed_percent, t.steps, t.step_at, coalesce(q.needed, t.waiting) AS waiting_amount,
    coalesce(q.until, CASE WHEN t.waiting IS NOT NULL THEN t.waiting_until END) AS waiting_until
  FROM windows x LEFT JOIN taken s ON s.id = x.id AND s.member = x.member LEFT JOIN rates t ON t.id = x.id AND t.member = x.member
    LEFT JOIN queued q ON q.id = x.id AND q.member = x.member
  WHERE (s.id IS NOT NULL OR q.id IS NOT NULL) AND NOT x.is_full
)`

interface RateJson extends Omit<RateLeft, "limit" | "remaining"> {
  readonly limit: string
  readonly remaining: string
}

export function ratesOf(rates: readonly RateJson[]): readonly RateLeft[] {
  return rates.map(({ limit, remaining, ...rate }) => ({
    ...rate,
    limit: BigInt(limit),
    remaining: BigInt(remaining),
  }))
}
