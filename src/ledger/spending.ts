import { type SQL, sql } from "drizzle-orm"
import { floorId } from "../id.ts"
import { keys, reservations } from "./schema.ts"

/** By how much the clock of a gateway, which its ids carry, may be ahead of the books' own. */
const SKEW_MS = 3_600_000

/** When the period of key `k` began, in UTC; null when it has no limit. */
export const since = sql`date_trunc(k.spend_period, now(), 'UTC')`

/** What key `k` has spent in this period. */
export const spent = sql`CASE WHEN k.spent_since >= ${since} THEN k.spent_nano ELSE 0 END`

/** What key `k` may still spend in this period; less than nothing after an overage, null when it has no limit. */
export const remaining = sql`k.spend_limit_nano - ${spent}`

/**
 * What a statement that ends calls says of spending limits (D42): a call that was counted at what it held is counted anew
 * at what it cost, as long as the limit stands and the period lasts in which it was held. The fragment follows the CTEs
 * `locked` (with `key_id` and `spend_epoch`), `payers`, and `ended` (with `key_id`, `spend_epoch`, `started_at`, what is
 * charged more than before as `delta_nano`, and `freed_nano`). Keys are locked under the locks of their accounts,
 * so nobody who holds or settles is ever met there.
 */
export const countAnew = sql`limits AS MATERIALIZED (
  SELECT k.id, k.spend_epoch, k.spent_since FROM ${keys} k
  WHERE k.id = ANY (ARRAY(SELECT key_id FROM locked WHERE spend_epoch IS NOT NULL))
    AND (SELECT count(*) FROM payers) > 0
  ORDER BY k.id FOR NO KEY UPDATE
), counted AS (
  UPDATE ${keys} k SET spent_nano = k.spent_nano + s.delta_nano
  FROM (
    SELECT m.id, sum(e.delta_nano - e.freed_nano)::bigint AS delta_nano
    FROM ended e JOIN limits m ON m.id = e.key_id AND m.spend_epoch = e.spend_epoch AND m.spent_since <= e.started_at
    GROUP BY m.id) s
  WHERE k.id = s.id
)`

/**
 * Counts what the key's calls of the period have cost and hold that were held before the limit `epoch` began to count.
 * Those whose charge may still change (open, or expired: D13) come under the limit, so that they are counted anew when it
 * does; they are locked, after all others were summed, so that none ends between being read and being marked. A hold
 * that was on its way when the limit was set may not be there yet, and is not counted (D42).
 */
export function countPast(key: {
  readonly id: string
  readonly account_id: string
  readonly epoch: number
  readonly since: Date
  /** What stands as spent until this is done. */
  readonly until_nano: bigint
}): SQL {
  const since = sql`${key.since.toISOString()}::timestamptz`
  const epoch = sql`${key.epoch}::int`
  const earlier = sql`x.account_id = ${key.account_id}::uuid AND x.key_id = ${key.id}::uuid
    AND x.id >= ${floorId(new Date(key.since.getTime() - SKEW_MS))}::uuid AND x.started_at >= ${since}
    AND (x.spend_epoch IS NULL OR x.spend_epoch < ${epoch})`
  return sql`
    WITH unsettled AS MATERIALIZED (
      SELECT x.id FROM ${reservations} x WHERE ${earlier} AND x.state IN ('open', 'expired')
    ), locked AS MATERIALIZED (
      SELECT x.id, coalesce(x.charge_nano, x.amount_nano) AS cost_nano FROM ${reservations} x
      WHERE x.id = ANY (ARRAY(SELECT id FROM unsettled)) ORDER BY x.id FOR NO KEY UPDATE
    ), marked AS (
      UPDATE ${reservations} x SET spend_epoch = ${epoch} FROM locked l WHERE x.id = l.id
    ), past AS MATERIALIZED (
      SELECT sum(x.charge_nano) AS cost_nano FROM ${reservations} x WHERE ${earlier} AND x.state IN ('settled', 'released')
    )
    UPDATE ${keys} k SET spent_nano = k.spent_nano - ${key.until_nano.toString()}::bigint
      + (coalesce((SELECT cost_nano FROM past), 0) + coalesce((SELECT sum(cost_nano) FROM locked), 0))::bigint
    WHERE k.id = ${key.id}::uuid AND k.spend_epoch = ${epoch} AND k.spent_since = ${since}`
}
