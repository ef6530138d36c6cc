import { sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import { Batch, firstAndLast, lockTimeout, names, statement } from "../database/statement.ts"
import type { End } from "../entries.ts"
import { a, k } from "../schema/aliases.ts"
import { accounts, ends, keys } from "../schema/tables.ts"
import { amountAt, inUnit, lockWindows, member, windowStart, withBudgets, writeWindows } from "./budgets.ts"
import { bucketField, detailsField, endFields, holdOfEnd, insertEnds, soldAt } from "./end-exact.ts"
import { hasNoChange } from "./grants.ts"
import { countedWhole, writeSpending } from "./spending.ts"

const v = alias(accounts, "v")

const batch = new Batch<End>(4, [...endFields, bucketField, detailsField])

/**
 * `endLean` for accounts with spending limits, budgets or customer prices: ends all holds of an account, or none. It leaves an
 * account to the exact statement if a call was held in an earlier window or period, if a threshold is reached, or if a budget per minute
 * (D99) counts. `holdLimited` explains the locks and `budgets_version`.
 */
export const endLimited = statement(
  "end",
  sql`
WITH requested AS MATERIALIZED (
  SELECT x.*, hold.*, ${soldAt} FROM ${batch.kept} CROSS JOIN ${holdOfEnd}
), locked AS MATERIALIZED (
  SELECT ${a.id}, ${a.budgets_version}, ${a.is_limited} AND ${hasNoChange(a)} AS is_open FROM ${accounts} ${a}
  WHERE ${a.id} = ANY (ARRAY(SELECT account_id FROM requested)) AND ${lockTimeout} ORDER BY ${a.id} FOR NO KEY UPDATE
), due AS MATERIALIZED (
  SELECT q.* FROM requested q JOIN locked l ON l.id = q.account_id
  WHERE l.is_open AND l.budgets_version = (SELECT ${v.budgets_version} FROM ${accounts} ${v} WHERE ${v.id} = l.id)
), matched AS MATERIALIZED (
  SELECT b.id, ${member} AS member, b.account_id, b.period, b.thresholds, ${amountAt(sql`now()`)} AS amount, ${windowStart(sql`max(s.held_at)`)} AS since,
    min(s.held_at) AS held_at,
    sum(${inUnit(sql`s.charge_nano`, sql`s.prompt_tokens + s.completion_tokens`, sql`(s.outcome <> 'released')::int`)})::bigint AS paid,
    sum(${inUnit(sql`s.amount_nano`, sql`s.held_tokens`, sql`1`)})::bigint AS freed
  FROM ${withBudgets(sql`due s`, sql`s.held_terms_id`)} GROUP BY b.id, 2
), ${lockWindows(
    sql`x.since <= m.held_at AND NOT EXISTS (
    SELECT FROM unnest(m.thresholds) t WHERE t > x.crossed_percent AND (x.spent + m.paid)::numeric * 100 >= m.amount::numeric * t)`,
    sql`x.spent + m.paid`,
    sql`x.held - m.freed`,
  )}, limits AS MATERIALIZED (
  SELECT ${k.id}, ${k.account_id}, ${k.spend_limit_nano}, ${k.spent_since} FROM ${keys} ${k}
  WHERE ${k.id} = ANY (ARRAY(SELECT key_id FROM due)) AND (SELECT count(*) FROM counters) >= 0
  ORDER BY ${k.id} FOR NO KEY UPDATE
), spending AS MATERIALIZED (
  SELECT r.id, r.account_id, sum(d.charge_nano - d.amount_nano)::bigint AS spent_nano, r.spent_since <= min(d.held_at) AS is_current
  FROM limits r JOIN due d ON d.key_id = r.id WHERE r.spend_limit_nano IS NOT NULL GROUP BY r.id, r.account_id, r.spent_since
), fitting AS MATERIALIZED (
  SELECT d.account_id AS id, sum(d.charge_nano)::bigint AS charge_nano, sum(d.amount_nano)::bigint AS freed_nano, count(*) AS calls
  FROM due d WHERE d.account_id NOT IN (
    SELECT account_id FROM windows WHERE fits IS NOT TRUE UNION ALL SELECT account_id FROM spending WHERE is_current IS NOT TRUE)
  GROUP BY d.account_id
), ended AS (
  ${insertEnds} WHERE (d.account_id IN (SELECT id FROM fitting)) IS TRUE ORDER BY d.id RETURNING ${names(ends.id)}
), moved AS (
  UPDATE ${accounts} ${a} SET (${names(accounts.balance_nano, accounts.held_nano)})
    = (${a.balance_nano} - f.charge_nano, ${a.held_nano} - f.freed_nano)
  FROM fitting f WHERE ${a.id} = f.id AND ${a.id} = ANY (ARRAY(SELECT id FROM fitting)) RETURNING ${a.id}, f.calls
), ${writeWindows}, ${writeSpending}
SELECT count(*)::int AS accounts,
  CASE WHEN count(*) < (SELECT count(DISTINCT account_id) FROM requested) THEN array_agg(id)::text END AS only,
  1 / ((SELECT count(*) FROM requested) = cardinality($4::uuid[]) AND count(*) = (SELECT count(*) FROM fitting)
    AND coalesce(sum(calls), 0) = (SELECT count(*) FROM ended))::int AS whole,
  ${countedWhole}
FROM moved`,
  true,
)

export function limitedValues(limited: readonly End[], lock_ms: number): string[] {
  return [String(lock_ms), ...firstAndLast(limited), ...batch.values(limited)]
}
