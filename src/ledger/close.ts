import { sql } from "drizzle-orm"
import { isDoneAlone } from "./alone.ts"
import type { Connection } from "./connection.ts"
import type { Closing } from "./reservation.ts"
import { accounts, reservations } from "./schema.ts"
import { countAnew } from "./spending.ts"
import { named, patience, type Row, statement, textOf, type Values } from "./statement.ts"

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
 *
 * The answer looks a closing up among the closed ones by a hash: the planner expects one of them, and would join them by
 * a nested loop that grows with the square of the batch (at 64, 62 us of the server's CPU for each instead of 49). And it
 * looks the others up one by one, for an EXISTS might be answered by a hash of the whole table.
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
  SELECT x.id, x.account_id, x.key_id, x.spend_epoch, x.started_at, x.state, x.upstream, now() AS closed_at,
    coalesce(x.charge_nano, 0) AS before_nano,
    CASE WHEN x.state = 'open' THEN x.amount_nano ELSE 0 END AS freed_nano
  FROM ${reservations} x WHERE ${named} AND x.state IN ('open', 'expired') AND ${patience}
  ORDER BY x.id FOR NO KEY UPDATE
), payers AS MATERIALIZED (
  SELECT a.id FROM ${accounts} a WHERE a.id = ANY (ARRAY(SELECT account_id FROM locked))
  ORDER BY a.id FOR NO KEY UPDATE
), due AS MATERIALIZED (
  SELECT DISTINCT ON (q.id) q.*, l.closed_at, l.key_id, l.spend_epoch, l.started_at, l.freed_nano, q.charge_nano - l.before_nano AS delta_nano,
    coalesce(q.upstream, l.upstream) AS answered_by,
    CASE WHEN l.state = 'expired' THEN q.notes || 'settled_late'::text ELSE q.notes END AS all_notes
  FROM asked q JOIN locked l ON l.id = q.id WHERE l.state = 'open' OR q.outcome = 'settled'
  ORDER BY q.id, q.place
), ended AS (
  UPDATE ${reservations} x SET state = d.outcome, closed_at = d.closed_at, charge_nano = d.charge_nano, basis = d.basis,
    ending = d.ending, failure = d.failure, notes = d.all_notes, prompt_tokens = d.prompt_tokens,
    cached_tokens = d.cached_tokens, completion_tokens = d.completion_tokens, upstream = d.answered_by,
    ttft_ms = d.ttft_ms, duration_ms = d.duration_ms
  FROM due d WHERE x.id = d.id
  RETURNING x.account_id, d.place, d.delta_nano, d.freed_nano, d.key_id, d.spend_epoch, d.started_at
), paid AS (
  UPDATE ${accounts} a SET balance_nano = a.balance_nano - s.delta_nano, held_nano = a.held_nano - s.freed_nano
  FROM (
    SELECT e.account_id, sum(e.delta_nano)::bigint AS delta_nano, sum(e.freed_nano)::bigint AS freed_nano
    FROM ended e JOIN payers p ON p.id = e.account_id GROUP BY e.account_id) s
  WHERE a.id = s.account_id RETURNING a.id
), ${countAnew}
SELECT
  CASE
    WHEN q.place IN (SELECT place FROM ended) THEN 'applied'
    WHEN (SELECT x.id FROM ${reservations} x WHERE x.id = q.id) IS NOT NULL THEN 'closed'
    ELSE 'none'
  END AS closed,
  1 / ((SELECT count(*) FROM ended) = (SELECT count(*) FROM due))::int AS whole,
  1 / ((SELECT count(*) FROM paid) = (SELECT count(DISTINCT account_id) FROM ended))::int AS paid_whole
FROM asked q ORDER BY q.place`,
)

/**
 * The same for one call alone whose reservation is open and counted under no limit: one row when it is closed by this, none when the batch
 * statement has to say what it is instead. The state is judged again on the newest version of the reservation when
 * somebody else has just changed it, and the locks come in the same order. The division fails when the account's row was
 * lost on the way. There are both forms for the reason that `reserveOne` gives: 0.79 ms and 0.44 ms of the server's CPU.
 */
export const closeOne = statement(
  "close",
  sql`
WITH closed AS (
  UPDATE ${reservations} x SET state = $3::text, closed_at = now(), charge_nano = $4::bigint, basis = $5::text,
    ending = $6::text, failure = $7::text, notes = $8::text[], prompt_tokens = $9::int, cached_tokens = $10::int,
    completion_tokens = $11::int, upstream = coalesce($12::text, x.upstream), ttft_ms = $13::int,
    duration_ms = $14::int
  WHERE x.id = $2::uuid AND x.state = 'open' AND x.spend_epoch IS NULL AND ${patience}
  RETURNING x.account_id, x.amount_nano
), paid AS (
  UPDATE ${accounts} a SET balance_nano = a.balance_nano - $4::bigint, held_nano = a.held_nano - c.amount_nano
  FROM closed c WHERE a.id = c.account_id
  RETURNING a.id
)
SELECT 1 / (SELECT count(*) FROM paid)::int AS paid_whole FROM closed`,
)

/** Closes a batch; results in the order of the closings. Waits as `reserveBatch` does. */
export async function closeBatch(
  connection: Connection,
  closings: readonly Closing[],
  patience_ms: number,
): Promise<Closed[]> {
  const until = performance.now() + STATEMENT_MS
  const [first] = closings
  if (first !== undefined && closings.length === 1) {
    if (await isDoneAlone(connection, closeOne, closingValues(first, patience_ms), STATEMENT_MS))
      return ["applied"]
  }
  const rows = await connection.run(
    close,
    [String(patience_ms), linesOf(closings)],
    Math.max(until - performance.now(), STATEMENT_MS / 2),
    closings.length,
  )
  if (rows.length !== closings.length) throw new Error("the closing statement left a reservation out")
  return rows.map(closedOf)
}

/** What goes into `closeOne`. */
export function closingValues(closing: Closing, patience_ms: number): Values {
  const { usage } = closing
  return [
    String(patience_ms),
    closing.id,
    closing.outcome,
    String(closing.charge_nano),
    closing.basis,
    closing.ending,
    closing.failure,
    `{${closing.notes.join(",")}}`,
    usage && String(usage.prompt_tokens),
    usage && String(usage.cached_tokens),
    usage && String(usage.completion_tokens),
    closing.upstream,
    closing.ttft_ms === null ? null : String(closing.ttft_ms),
    String(closing.duration_ms),
  ]
}

/** Closings as one parameter, written out like the holds of a reserve. */
function linesOf(closings: readonly Closing[]): string {
  return JSON.stringify(
    closings.map((closing) => ({
      id: closing.id,
      outcome: closing.outcome,
      charge_nano: String(closing.charge_nano),
      basis: closing.basis,
      ending: closing.ending,
      failure: closing.failure,
      notes: closing.notes,
      prompt_tokens: closing.usage?.prompt_tokens,
      cached_tokens: closing.usage?.cached_tokens,
      completion_tokens: closing.usage?.completion_tokens,
      upstream: closing.upstream,
      ttft_ms: closing.ttft_ms,
      duration_ms: closing.duration_ms,
    })),
  )
}

function closedOf(row: Row): Closed {
  const closed = textOf(row, "closed")
  if (closed === "applied" || closed === "closed" || closed === "none") return closed
  throw new Error("the closing statement said something new")
}
