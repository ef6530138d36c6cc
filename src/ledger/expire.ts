import { sql } from "drizzle-orm"
import type { Connection } from "./connection.ts"
import { accounts, reservations } from "./schema.ts"
import { countAnew } from "./spending.ts"
import { batchOf, named, patience, statement, textOf } from "./statement.ts"

const STATEMENT_MS = 5_000

/** An open reservation of a dead gateway. */
export interface Orphan {
  readonly id: string
  readonly account_id: string
}

/**
 * Frees what orphans hold and charges what their last checkpoint saw (D13). What somebody is settling at this moment is
 * skipped: it is closed then, or found again. Locks as in `close`.
 */
export const expire = statement(
  "expire",
  sql`
WITH asked AS MATERIALIZED (
  SELECT * FROM json_to_recordset($2::text::json) AS r (id uuid)
), locked AS MATERIALIZED (
  SELECT x.id, x.account_id, x.key_id, x.spend_epoch, x.started_at, x.amount_nano AS freed_nano, x.checkpoint_nano AS charge_nano, now() AS closed_at,
    coalesce(x.basis, 'none') AS basis,
    CASE WHEN x.checkpoint_nano > x.amount_nano THEN ARRAY['overage'] ELSE ARRAY[]::text[] END AS notes
  FROM ${reservations} x WHERE ${named} AND x.state = 'open' AND ${patience}
  ORDER BY x.id FOR NO KEY UPDATE SKIP LOCKED
), payers AS MATERIALIZED (
  SELECT a.id FROM ${accounts} a WHERE a.id = ANY (ARRAY(SELECT account_id FROM locked))
  ORDER BY a.id FOR NO KEY UPDATE
), ended AS (
  UPDATE ${reservations} x SET state = 'expired', closed_at = l.closed_at, charge_nano = l.charge_nano, basis = l.basis,
    ending = 'gateway_lost', failure = 'gateway_lost', notes = l.notes
  FROM locked l WHERE x.id = l.id
  RETURNING x.id, x.account_id, l.charge_nano AS delta_nano, l.freed_nano, x.key_id, x.spend_epoch, x.started_at
), paid AS (
  UPDATE ${accounts} a SET balance_nano = a.balance_nano - s.delta_nano, held_nano = a.held_nano - s.freed_nano
  FROM (
    SELECT e.account_id, sum(e.delta_nano)::bigint AS delta_nano, sum(e.freed_nano)::bigint AS freed_nano
    FROM ended e JOIN payers p ON p.id = e.account_id GROUP BY e.account_id) s
  WHERE a.id = s.account_id RETURNING a.id
), ${countAnew}
SELECT e.id,
  1 / ((SELECT count(*) FROM ended) = (SELECT count(*) FROM locked))::int AS whole,
  1 / ((SELECT count(*) FROM paid) = (SELECT count(DISTINCT account_id) FROM ended))::int AS paid_whole
FROM ended e`,
)

/** Expires a batch; whether each was expired by this statement, in the order of the orphans. */
export async function expireBatch(
  connection: Connection,
  orphans: readonly Orphan[],
  patience_ms: number,
): Promise<boolean[]> {
  const batch = batchOf(orphans.map(({ id }) => ({ id })))
  const rows = await connection.run(expire, [String(patience_ms), batch], STATEMENT_MS, orphans.length)
  const expired = new Set(rows.map((row) => textOf(row, "id")))
  return orphans.map(({ id }) => expired.has(id))
}
