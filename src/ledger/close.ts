import { sql } from "drizzle-orm"
import type { Connection } from "./connection.ts"
import type { Closing } from "./reservation.ts"
import { accounts, reservations } from "./schema.ts"
import { batchOf, booleanOf, named, patience, type Row, statement } from "./statement.ts"

/** How long one closing statement may take before it is tried again with the same ids. */
const STATEMENT_MS = 5_000

/**
 * What became of a closing: `applied`, or a no-op because the reservation was `closed` before, or because there is
 * `none`.
 */
export type Closed = "applied" | "closed" | "none"

/**
 * Settles and releases, each reservation once (D13): its state is judged on the locked row, so a replay applies
 * nothing. A release after expiry changes nothing; a settlement after expiry replaces the charge and frees nothing,
 * because nothing is held any more. What is freed and what was charged before come from the locking CTE, where the row
 * is still as it was. Of several closings of one reservation in a batch the first that is due counts. Reservations are
 * locked before accounts, both in the order of their ids.
 */
export const close = statement(
  "close",
  sql`
WITH asked AS MATERIALIZED (
  SELECT r.* FROM ROWS FROM (json_to_recordset($2::text::json) AS (
    id uuid, outcome text, charge_nano bigint, basis text, ending text, failure text, notes text[],
    prompt_tokens int, cached_tokens int, completion_tokens int, upstream text, ttft_ms int, duration_ms int
  )) WITH ORDINALITY AS r (
    id, outcome, charge_nano, basis, ending, failure, notes,
    prompt_tokens, cached_tokens, completion_tokens, upstream, ttft_ms, duration_ms, place)
), locked AS MATERIALIZED (
  SELECT x.id, x.account_id, x.state, x.upstream, now() AS closed_at,
    coalesce(x.charge_nano, 0) AS before_nano,
    CASE WHEN x.state = 'open' THEN x.amount_nano ELSE 0 END AS freed_nano
  FROM ${reservations} x WHERE ${named} AND x.state IN ('open', 'expired') AND ${patience}
  ORDER BY x.id FOR NO KEY UPDATE
), payers AS MATERIALIZED (
  SELECT a.id FROM ${accounts} a WHERE a.id = ANY (ARRAY(SELECT account_id FROM locked))
  ORDER BY a.id FOR NO KEY UPDATE
), due AS MATERIALIZED (
  SELECT DISTINCT ON (q.id) q.*, l.closed_at, l.freed_nano, q.charge_nano - l.before_nano AS delta_nano,
    coalesce(q.upstream, l.upstream) AS answered_by,
    CASE WHEN l.state = 'expired' THEN q.notes || 'settled_late'::text ELSE q.notes END AS all_notes
  FROM asked q JOIN locked l ON l.id = q.id WHERE l.state = 'open' OR q.outcome = 'settled'
  ORDER BY q.id, q.place
), closed AS (
  UPDATE ${reservations} x SET state = d.outcome, closed_at = d.closed_at, charge_nano = d.charge_nano, basis = d.basis,
    ending = d.ending, failure = d.failure, notes = d.all_notes, prompt_tokens = d.prompt_tokens,
    cached_tokens = d.cached_tokens, completion_tokens = d.completion_tokens, upstream = d.answered_by,
    ttft_ms = d.ttft_ms, duration_ms = d.duration_ms
  FROM due d WHERE x.id = d.id
  RETURNING x.id, x.account_id, d.delta_nano, d.freed_nano
), paid AS (
  UPDATE ${accounts} a SET balance_nano = a.balance_nano - s.delta_nano, held_nano = a.held_nano - s.freed_nano
  FROM (
    SELECT c.account_id, sum(c.delta_nano)::bigint AS delta_nano, sum(c.freed_nano)::bigint AS freed_nano
    FROM closed c JOIN payers p ON p.id = c.account_id GROUP BY c.account_id) s
  WHERE a.id = s.account_id RETURNING a.id
)
SELECT c.id IS NOT NULL AS applied,
  c.id IS NOT NULL OR EXISTS (SELECT FROM ${reservations} x WHERE x.id = q.id) AS known,
  1 / ((SELECT count(*) FROM closed) = (SELECT count(*) FROM due))::int AS whole,
  1 / ((SELECT count(*) FROM paid) = (SELECT count(DISTINCT account_id) FROM closed))::int AS paid_whole
FROM asked q LEFT JOIN due d ON d.place = q.place LEFT JOIN closed c ON c.id = d.id
ORDER BY q.place`,
)

/** Closes a batch; results in the order of the closings. */
export async function closeBatch(
  connection: Connection,
  closings: readonly Closing[],
  patience_ms: number,
): Promise<Closed[]> {
  const batch = batchOf(closings.map(({ usage, ...closing }) => ({ ...closing, ...usage })))
  const rows = await connection.run(close, [String(patience_ms), batch], STATEMENT_MS, closings.length)
  if (rows.length !== closings.length) throw new Error("the closing statement left a reservation out")
  return rows.map(closedOf)
}

function closedOf(row: Row): Closed {
  if (booleanOf(row, "applied")) return "applied"
  return booleanOf(row, "known") ? "closed" : "none"
}
