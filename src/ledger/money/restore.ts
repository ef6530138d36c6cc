import { sql } from "drizzle-orm"
import type { Runner } from "../database/connection.ts"
import { allOf, arrayOf, Batch, names, statement, textOf } from "../database/statement.ts"
import type { Hold } from "../entries.ts"
import { c, e, k } from "../schema/aliases.ts"
import { idempotency } from "../schema/claims.ts"
import { corrections, ends, holds, keys } from "../schema/tables.ts"
import { lockPayers, moveSums } from "./end-exact.ts"
import { clientFields, holdFields, tokenField } from "./hold-exact.ts"

const STATEMENT_MS = 5_000
const CHUNK = 2_000

const batch = new Batch<Hold>(3, [
  ...holdFields,
  [holds.price_multiplier_bp, (hold) => hold.price_multiplier_bp ?? null],
  ...clientFields,
  tokenField,
])
const columns = batch.columns.filter(({ table }) => table === holds)

/**
 * Writes holds that the database has lost (D73), without checks, because their calls were served. Does nothing if the hold
 * exists or its account does not, and fails if the account is stale. Locks as in `endExact`. The call's group is the one that the
 * key has now.
 */
export const restore = statement(
  "restore",
  sql`
WITH requested AS MATERIALIZED (
  SELECT x.* FROM ${batch.relation}
), ${lockPayers}, inserted AS (
  INSERT INTO ${holds} (${names(...columns, holds.group_path, holds.gateway_id)})
  SELECT ${allOf("q", ...columns)}, (SELECT ${k.group_path} FROM ${keys} ${k} WHERE ${k.id} = q.key_id), $2::uuid
  FROM requested q JOIN payers y ON y.id = q.account_id AND NOT y.is_stale ORDER BY q.id
  ON CONFLICT (id) DO NOTHING
  RETURNING ${names(holds.id, holds.account_id, holds.key_id, holds.amount_nano, holds.held_at, holds.terms_id, holds.group_path, holds.labels_id, holds.held_tokens)}
), changed AS MATERIALIZED (
  SELECT i.id, i.account_id, i.key_id, i.held_at, 0::bigint AS paid_nano, -i.amount_nano AS freed_nano, i.amount_nano AS spent_nano,
    i.group_path, i.labels_id, i.terms_id AS held_terms_id, 0 AS paid_tokens, -i.held_tokens AS freed_tokens, 0 AS paid_requests,
    -1 AS freed_requests
  FROM inserted i
), ${moveSums}, claimed AS (
  INSERT INTO ${idempotency} (${names(idempotency.account_id, idempotency.key_hash, idempotency.body_hash, idempotency.call_id)})
  SELECT q.account_id, q.key_hash, q.body_hash, q.id FROM requested q
  WHERE q.key_hash IS NOT NULL AND q.id IN (SELECT id FROM inserted) ORDER BY q.account_id, q.key_hash
  ON CONFLICT (account_id, key_hash) DO NOTHING
)
SELECT count(*), 1 / ((SELECT count(*) FROM moved) = (SELECT count(DISTINCT account_id) FROM changed)
  AND NOT EXISTS (SELECT FROM payers WHERE is_stale))::int AS whole
FROM inserted`,
)

export async function restoreBatch(
  connection: Runner,
  gateway_id: string,
  requested: readonly Hold[],
  lock_ms: number,
): Promise<readonly null[]> {
  const values = [String(lock_ms), gateway_id, ...batch.values(requested)]
  await connection.run(restore, values, STATEMENT_MS, requested.length)
  return requested.map(() => null)
}

/** Selects the ended calls that have no end in the ledger, or only an expiry. */
const forgotten = statement(
  "restore",
  sql`
SELECT x.id FROM unnest($1::uuid[]) AS x (id) WHERE (
  SELECT ${e.outcome} <> 'expired' OR EXISTS (SELECT FROM ${corrections} ${c} WHERE ${c.id} = ${e.id})
  FROM ${ends} ${e} WHERE ${e.id} = x.id) IS NOT TRUE`,
)

/** Finds the ended calls whose ends the database has lost. */
export async function findForgotten(
  connection: Runner,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const lost = new Set<string>()
  for (let at = 0; at < ids.length; at += CHUNK) {
    const chunk = ids.slice(at, at + CHUNK)
    const rows = await connection.run(forgotten, [arrayOf(chunk, (id) => id)], STATEMENT_MS, chunk.length)
    for (const row of rows) lost.add(textOf(row, "id"))
  }
  return lost
}
