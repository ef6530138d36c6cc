import { sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import { PAR_BP } from "../../money.ts"
import { allOf, Batch, lockTimeout, names, of, statement } from "../database/statement.ts"
import type { Hold } from "../entries.ts"
import { a, k } from "../schema/aliases.ts"
import { accounts, holds, keys } from "../schema/tables.ts"
import { amountAt, lockWindows, member, takes, windowStart, withBudgets, writeWindows } from "./budgets.ts"
import { priceOfCall } from "./customer-prices.ts"
import { availableOf, hasNoChange } from "./grants.ts"
import { holdFields, namedFields, tokenField } from "./hold-exact.ts"
import { isAlive, mayUse } from "./hold-rules.ts"
import { par } from "./multiplier.ts"
import { countedWhole, locked_key, periodStart, writeSpending } from "./spending.ts"

const v = alias(accounts, "v")

const fields = [...holdFields, ...namedFields, tokenField]
const columns = fields.map(([column]) => column)

const batch = new Batch<Hold>(3, [
  ...fields,
  [holds.price_multiplier_bp, (hold) => hold.price_multiplier_bp ?? PAR_BP],
  [keys.labels_version, (hold) => hold.labels_version ?? 0],
])

const use = {
  key_id: of("x", holds.key_id),
  account_id: of("x", holds.account_id),
  terms_id: of("x", holds.terms_id),
  labels_version: of("x", keys.labels_version),
}
const multiplier = of("q", holds.price_multiplier_bp)

/**
 * `holdLean` for accounts with spending limits, budgets or customer prices: makes all holds of an account, or none. It leaves an account
 * to the exact statement if something does not fit, if a window or a period must begin, or if a budget per minute (D99) or a new
 * member of a budget counts. It locks as the exact statement does: accounts, then counters of budgets, then keys.
 * `budgets_version` shows that budgets and prices are those of the snapshot; the keys' limits are those of their locked rows.
 */
export const holdLimited = statement(
  "hold",
  sql`
WITH requested AS MATERIALIZED (
  SELECT x.*, key.group_path, price.price_multiplier_bp AS own_bp, key.id IS NOT NULL AND price.is_current AS is_allowed
  FROM ${batch.kept} LEFT JOIN LATERAL (
    SELECT ${k.id}, ${k.group_path} FROM ${keys} ${k}
    WHERE ${mayUse(k, use)} OFFSET 0) key ON true
  LEFT JOIN LATERAL (${priceOfCall(use.account_id, use.terms_id)}) price ON true
), locked AS MATERIALIZED (
  SELECT ${a.id}, ${availableOf(a)} AS available_nano, ${a.price_multiplier_bp} AS price_multiplier_bp, ${a.budgets_version},
    ${a.is_limited} AND ${a.suspended_at} IS NULL AND ${a.moving_to} IS NULL AND ${hasNoChange(a)} AS is_open
  FROM ${accounts} ${a} WHERE ${a.id} = ANY (ARRAY(SELECT account_id FROM requested)) AND ${lockTimeout}
  ORDER BY ${a.id} FOR NO KEY UPDATE
), offered AS MATERIALIZED (
  SELECT l.id, sum(q.amount_nano)::bigint AS amount_nano FROM locked l JOIN requested q ON q.account_id = l.id
  WHERE l.is_open AND ${isAlive} AND l.budgets_version = (SELECT ${v.budgets_version} FROM ${accounts} ${v} WHERE ${v.id} = l.id)
  GROUP BY l.id, l.available_nano
  HAVING bool_and((q.is_allowed AND coalesce(q.own_bp, l.price_multiplier_bp) = ${multiplier}) IS TRUE)
    AND l.available_nano >= sum(q.amount_nano)
), sold AS MATERIALIZED (
  SELECT q.* FROM requested q JOIN offered o ON o.id = q.account_id
), matched AS MATERIALIZED (
  SELECT b.id, ${member} AS member, b.account_id, b.period, b.is_hard, ${amountAt(sql`now()`)} AS amount, ${windowStart(sql`now()`)} AS since,
    sum(${takes(sql`s.amount_nano`, sql`s.held_tokens`)})::bigint AS needed
  FROM ${withBudgets(sql`sold s`, sql`s.terms_id`)} GROUP BY b.id, 2
), ${lockWindows(sql`x.since <= now() AND (NOT m.is_hard OR m.amount - x.spent - x.held >= m.needed)`, sql`x.spent`, sql`x.held + m.needed`)}, limits AS MATERIALIZED (
  SELECT ${k.id}, ${k.account_id}, ${k.spend_period}, ${k.spend_limit_nano}, ${k.spent_since}, ${k.spent_nano}
  FROM ${keys} ${k} WHERE ${k.id} = ANY (ARRAY(SELECT key_id FROM sold)) AND (SELECT count(*) FROM counters) >= 0
  ORDER BY ${k.id} FOR NO KEY UPDATE
), spending AS MATERIALIZED (
  SELECT r.id, r.account_id, sum(s.amount_nano)::bigint AS spent_nano, r.spent_since <= now() AND ${periodStart(locked_key)} = r.spent_since
    AND r.spend_limit_nano - r.spent_nano >= sum(s.amount_nano) AS fits
  FROM limits r JOIN sold s ON s.key_id = r.id WHERE r.spend_limit_nano IS NOT NULL
  GROUP BY r.id, r.account_id, r.spend_period, r.spend_limit_nano, r.spent_since, r.spent_nano
), fitting AS MATERIALIZED (
  SELECT o.* FROM offered o WHERE o.id NOT IN (
    SELECT account_id FROM windows WHERE fits IS NOT TRUE UNION ALL SELECT account_id FROM spending WHERE fits IS NOT TRUE)
), inserted AS (
  INSERT INTO ${holds} (${names(...columns, holds.group_path, holds.price_multiplier_bp, holds.gateway_id, holds.held_at)})
  SELECT ${allOf("q", ...columns)}, q.group_path, nullif(${multiplier}, ${par}), $2::uuid, now() FROM sold q
  WHERE (q.account_id IN (SELECT id FROM fitting)) IS TRUE
  ORDER BY q.id RETURNING ${names(holds.amount_nano)}
), moved AS (
  UPDATE ${accounts} ${a} SET ${names(accounts.held_nano)} = ${a.held_nano} + f.amount_nano FROM fitting f
  WHERE ${a.id} = f.id AND ${a.id} = ANY (ARRAY(SELECT id FROM fitting)) RETURNING ${a.id}, f.amount_nano
), ${writeWindows}, ${writeSpending}
SELECT count(*)::int AS accounts,
  CASE WHEN count(*) < (SELECT count(DISTINCT account_id) FROM requested) THEN array_agg(id)::text END AS only,
  1 / (count(*) = (SELECT count(*) FROM fitting) AND coalesce(sum(amount_nano), 0) = (SELECT coalesce(sum(amount_nano), 0) FROM inserted))::int AS whole,
  ${countedWhole}
FROM moved`,
  true,
)

export function limitedValues(limited: readonly Hold[], gateway_id: string, lock_ms: number): string[] {
  return [String(lock_ms), gateway_id, ...batch.values(limited)]
}
