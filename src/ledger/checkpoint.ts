import { sql } from "drizzle-orm"
import type { Connection } from "./connection.ts"
import type { Checkpoint } from "./reservation.ts"
import { reservations } from "./schema.ts"
import { batchOf, named, patience, statement } from "./statement.ts"

const STATEMENT_MS = 5_000
const CHUNK = 500

/**
 * Notes what running calls would be charged if their gateway died now (D13). Never part of the lease's renewal, which
 * must not fail for the sake of a call; what is being settled is skipped.
 */
export const checkpoint = statement(
  "checkpoint",
  sql`
WITH asked AS MATERIALIZED (
  SELECT * FROM json_to_recordset($2::text::json) AS r (
    id uuid, charge_nano bigint, basis text, prompt_tokens int, cached_tokens int, completion_tokens int)
), locked AS MATERIALIZED (
  SELECT x.id FROM ${reservations} x WHERE ${named} AND x.state = 'open' AND ${patience}
  ORDER BY x.id FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE ${reservations} x SET checkpoint_nano = q.charge_nano, basis = q.basis, prompt_tokens = q.prompt_tokens,
  cached_tokens = q.cached_tokens, completion_tokens = q.completion_tokens
FROM asked q JOIN locked l ON l.id = q.id WHERE x.id = q.id
RETURNING x.id`,
)

export async function writeCheckpoints(
  connection: Connection,
  checkpoints: readonly Checkpoint[],
): Promise<void> {
  for (let at = 0; at < checkpoints.length; at += CHUNK) {
    const chunk = checkpoints.slice(at, at + CHUNK).map(({ usage, ...rest }) => ({ ...rest, ...usage }))
    await connection.run(checkpoint, ["0", batchOf(chunk)], STATEMENT_MS, chunk.length)
  }
}
