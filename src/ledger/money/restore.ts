import { sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import type { Runner } from "../database/connection.ts"
import { allOf, arrayOf, Batch, names, statement, textOf } from "../database/statement.ts"
import type { Hold } from "../entries.ts"
import { idempotency } from "../schema/claims.ts"
import { corrections, ends, holds } from "../schema/tables.ts"
import { lockPayers, moveSums } from "./end-exact.ts"
import { clientFields, holdFields } from "./hold-exact.ts"

const STATEMENT_MS = 5_000
const CHUNK = 2_000

const columns = [
  ...holdFields.map(([column]) => column),
  holds.price_multiplier_bp,
  holds.session_id,
  holds.agent_id,
  holds.labels_id,
]

const batch = new Batch<Hold>(3, [
  ...holdFields,
  [holds.price_multiplier_bp, (hold) => hold.price_multiplier_bp ?? null],
  ...clientFields,
])

/**
 * Writes holds that the database has lost (D73), without checks, because their calls were served. Does nothing if the hold
 * exists or its account does not. Locks as in `endExact`.
 */
export const restore = statement(
  "restore",
  sql`
WITH asked AS MATERIALIZED (
  SELECT x.* FROM ${batch.relation}
), ${lockPayers}, inserted AS (
  INSERT INTO ${holds} (${names(...columns, holds.gateway_id)})
  SELECT ${allOf("q", ...columns)}, $2::uuid FROM asked q JOIN payers y ON y.id = q.account_id ORDER BY q.id
  ON CONFLICT (id) DO NOTHING RETURNING ${names(holds.id, holds.account_id, holds.key_id, holds.amount_nano, holds.held_at)}
), changed AS MATERIALIZED (
  SELECT i.account_id, i.key_id, i.held_at, 0::bigint AS paid_nano, -i.amount_nano AS freed_nano, i.amount_nano AS spent_nano
  FROM inserted i
), ${moveSums}, claimed AS (
  INSERT INTO ${idempotency} (${names(idempotency.account_id, idempotency.key_hash, idempotency.body_hash, idempotency.call_id)})
  SELECT q.account_id, q.key_hash, q.body_hash, q.id FROM asked q
  WHERE q.key_hash IS NOT NULL AND q.id IN (SELECT id FROM inserted) ORDER BY q.account_id, q.key_hash
  ON CONFLICT (account_id, key_hash) DO NOTHING
)
SELECT i.id, 1 / ((SELECT count(*) FROM moved) = (SELECT count(DISTINCT account_id) FROM changed))::int AS whole
FROM inserted i`,
)

/** Writes a batch of holds under the gateway's row. */
export async function restoreBatch(
  connection: Runner,
  gateway_id: string,
  asked: readonly Hold[],
  lock_ms: number,
): Promise<readonly null[]> {
  const values = [String(lock_ms), gateway_id, ...batch.values(asked)]
  await connection.run(restore, values, STATEMENT_MS, asked.length)
  return asked.map(() => null)
}

const e = alias(ends, "e")
const c = alias(corrections, "c")

/** Selects those of the ended calls that have no end now, or only their expiry. */
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
