import { sql } from "drizzle-orm"
import type { Connection } from "./connection.ts"
import type { Closing, Hold } from "./reservation.ts"
import { reservations } from "./schema.ts"
import { batchOf, booleanOf, patience, statement, textOf } from "./statement.ts"

const STATEMENT_MS = 5_000

/** Whether the tombstone stands under the id, or the reserve was first and what it holds is to be released. */
export type Buried = "buried" | "won"

/**
 * Closes the ids of reserves whose outcome is unknown (D27): a reserve that is still on its way conflicts with the
 * released row that is inserted here, and one that is being written at this moment is waited for.
 */
export const tombstone = statement(
  "tombstone",
  sql`
WITH asked AS MATERIALIZED (
  SELECT * FROM json_to_recordset($2::text::json) AS r (
    id uuid, account_id uuid, key_id uuid, amount_nano bigint, model text, family text, upstream text, stream boolean,
    input_pico bigint, cached_input_pico bigint, output_pico bigint, per_call_nano bigint)
), inserted AS (
  INSERT INTO ${reservations} (id, account_id, key_id, gateway_id, amount_nano, model, family, upstream, stream,
    input_pico, cached_input_pico, output_pico, per_call_nano, state, closed_at, charge_nano, basis, failure)
  SELECT q.id, q.account_id, q.key_id, $3::uuid, q.amount_nano, q.model, q.family, q.upstream, q.stream,
    q.input_pico, q.cached_input_pico, q.output_pico, q.per_call_nano, 'released', now(), 0, 'none', 'internal_error'
  FROM asked q WHERE ${patience} ORDER BY q.id
  ON CONFLICT (id) DO NOTHING
  RETURNING id
)
SELECT q.id, i.id IS NOT NULL AS buried FROM asked q LEFT JOIN inserted i ON i.id = q.id`,
)

/** Buries a batch; results in the order of the holds. */
export async function buryBatch(
  connection: Connection,
  gateway_id: string,
  holds: readonly Hold[],
  patience_ms: number,
): Promise<Buried[]> {
  const batch = batchOf(holds.map(({ price, idempotency, ...hold }) => ({ ...hold, ...price })))
  const rows = await connection.run(
    tombstone,
    [String(patience_ms), batch, gateway_id],
    STATEMENT_MS,
    holds.length,
  )
  const buried = new Set(rows.filter((row) => booleanOf(row, "buried")).map((row) => textOf(row, "id")))
  return holds.map(({ id }) => (buried.has(id) ? "buried" : "won"))
}

/** How a reserve that won against its own refusal is closed. */
export function releaseOf(id: string): Closing {
  return {
    id,
    outcome: "released",
    charge_nano: 0n,
    basis: "none",
    ending: null,
    failure: "internal_error",
    notes: [],
    usage: null,
    upstream: null,
    ttft_ms: null,
    duration_ms: 0,
  }
}
