import { sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import type { Runner } from "../database/connection.ts"
import { allOf, Batch, names, of, type Row, statement, textOf } from "../database/statement.ts"
import { e, h } from "../schema/aliases.ts"
import { idempotency } from "../schema/claims.ts"
import { checkpoints, ends, holds } from "../schema/tables.ts"
import { insertEnds, lockPayers, moveSums } from "./end-exact.ts"
import { changeDue } from "./grants.ts"

const STATEMENT_MS = 5_000

export interface Orphan {
  readonly id: string
  readonly account_id: string
}

const p = alias(checkpoints, "p")
const c = alias(idempotency, "c")

const batch = new Batch<Orphan>(2, [[holds.id, (orphan) => orphan.id]])

const usage = [ends.prompt_tokens, ends.cached_tokens, ends.completion_tokens, ends.buckets] as const

/**
 * Frees the holds of orphaned calls and charges each hold's last checkpoint (D13) exactly once, even if an id is
 * repeated. A call that is charged nothing frees its `Idempotency-Key` (D43). Skips calls that have ended meanwhile,
 * and those of accounts that are stale or have a due change of grants. Locks as in `endExact`.
 */
export const expire = statement(
  "expire",
  sql`
WITH requested AS MATERIALIZED (
  SELECT hold.*, coalesce(seen.terms_id, hold.held_terms_id) AS sold_at, coalesce(seen.charge_nano, 0) AS charge_nano, coalesce(seen.basis, 'none') AS basis, ${allOf("seen", ...usage)}
  FROM (SELECT DISTINCT ${names(holds.id)} FROM ${batch.relation}) x CROSS JOIN LATERAL (
    SELECT ${h.id}, ${h.account_id}, ${h.key_id}, ${h.amount_nano}, ${h.price_multiplier_bp}, ${h.held_at},
      ${h.terms_id} AS held_terms_id, ${h.group_path}, ${h.labels_id}, ${h.held_tokens} FROM ${holds} ${h}
    WHERE ${h.id} = ${of("x", holds.id)} AND (SELECT ${e.id} FROM ${ends} ${e} WHERE ${e.id} = ${h.id}) IS NULL OFFSET 0) hold
  LEFT JOIN LATERAL (
    SELECT ${p.charge_nano}, ${p.basis}, ${p.prompt_tokens}, ${p.cached_tokens}, ${p.completion_tokens}, ${p.buckets}, ${p.terms_id}
    FROM ${checkpoints} ${p} WHERE ${p.id} = hold.id OFFSET 0) seen ON true
), ${lockPayers}, due AS MATERIALIZED (
  SELECT q.*, 'expired'::tollgate.end_outcome AS outcome, 'gateway_lost'::tollgate.ending AS ending, 'gateway_lost'::tollgate.failure AS failure,
    NULL::int AS ttft_ms, NULL::int AS duration_ms, NULL AS details, CASE WHEN q.charge_nano > q.amount_nano THEN ARRAY['overage'] END AS notes
  FROM requested q JOIN payers y ON y.id = q.account_id AND NOT y.is_stale AND NOT y.grants_due
), ended AS (
  ${insertEnds} ORDER BY d.id
  ON CONFLICT (id) DO NOTHING RETURNING ${names(ends.id)}
), forgotten AS (
  DELETE FROM ${checkpoints} ${p} WHERE ${p.id} = ANY (ARRAY(SELECT id FROM ended))
), changed AS MATERIALIZED (
  SELECT q.id, q.account_id, q.key_id, q.held_at, q.charge_nano AS paid_nano, q.amount_nano AS freed_nano,
    q.charge_nano - q.amount_nano AS spent_nano, q.group_path, q.labels_id, q.held_terms_id,
    q.prompt_tokens + q.completion_tokens AS paid_tokens, q.held_tokens AS freed_tokens, 1 AS paid_requests, 1 AS freed_requests
  FROM requested q WHERE q.id IN (SELECT id FROM ended)
), ${moveSums}, freed_keys AS (
  DELETE FROM ${idempotency} WHERE ctid = ANY (ARRAY(
    SELECT claim.ctid FROM changed d CROSS JOIN LATERAL (
      SELECT c.ctid FROM ${idempotency} ${c}
      WHERE ${c.claimed_at} = d.held_at AND ${c.call_id} = d.id OFFSET 0) claim
    WHERE d.paid_nano = 0))
)
SELECT s.id, s.due_account_id, 1 / ((SELECT count(*) FROM moved) = (SELECT count(DISTINCT account_id) FROM changed))::int AS whole
FROM (SELECT id, NULL::uuid AS due_account_id FROM changed UNION ALL
  SELECT q.id, y.id FROM requested q JOIN payers y ON y.id = q.account_id AND y.grants_due) s`,
)

const isDueRow = ({ due_account_id }: Row) => due_account_id !== null

/** Expires a batch, after the due changes of grants. Returns for each orphan, in order, if this statement expired it. */
export async function expireBatch(
  connection: Runner,
  orphans: readonly Orphan[],
  lock_ms: number,
): Promise<readonly boolean[]> {
  const run = (some: readonly Orphan[]) =>
    connection.run(expire, [String(lock_ms), ...batch.values(some)], STATEMENT_MS, some.length)
  const rows = await run(orphans)
  const due = new Set(rows.filter(isDueRow).map((row) => textOf(row, "id")))
  const expired = new Set(rows.filter((row) => !isDueRow(row)).map((row) => textOf(row, "id")))
  if (due.size > 0) {
    await changeDue(connection, rows, lock_ms, STATEMENT_MS)
    const later = await run(orphans.filter(({ id }) => due.has(id)))
    for (const row of later) if (!isDueRow(row)) expired.add(textOf(row, "id"))
  }
  return orphans.map(({ id }) => expired.has(id))
}
