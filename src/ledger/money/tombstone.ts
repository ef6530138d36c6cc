import { sql } from "drizzle-orm"
import type { Runner } from "../database/connection.ts"
import { allOf, Batch, lockTimeout, names, statement, textOf } from "../database/statement.ts"
import type { End, Hold } from "../entries.ts"
import { ends, holds } from "../schema/tables.ts"
import { holdFields } from "./hold-exact.ts"

const STATEMENT_MS = 5_000

/** `closed` if the id was free, or `held` if the hold came first and must be released. */
export type Closed = "closed" | "held"

const columns = holdFields.map(([column]) => column)

const batch = new Batch<Hold>(3, holdFields)

/** Closes ids of holds with unknown outcome (D27) by a hold and a release of no money, with which late holds conflict. */
export const tombstone = statement(
  "tombstone",
  sql`
WITH inserted AS (
  INSERT INTO ${holds} (${names(...columns, holds.gateway_id)})
  SELECT ${allOf("x", ...columns)}, $2::uuid FROM ${batch.relation} WHERE ${lockTimeout} ORDER BY x.id
  ON CONFLICT (id) DO NOTHING
  RETURNING *
)
INSERT INTO ${ends} (${names(
    ends.id,
    ends.account_id,
    ends.key_id,
    ends.terms_id,
    ends.charge_nano,
    ends.freed_nano,
    ends.outcome,
    ends.basis,
    ends.failure,
  )})
SELECT ${allOf("i", holds.id, holds.account_id, holds.key_id, holds.terms_id)}, 0, i.amount_nano, 'released', 'none', 'internal_error'
FROM inserted i
RETURNING ${names(ends.id)}`,
)

/** Closes a batch of ids; results in the order of the holds. */
export async function closeIds(
  connection: Runner,
  gateway_id: string,
  requested: readonly Hold[],
  lock_ms: number,
): Promise<readonly Closed[]> {
  const values = [String(lock_ms), gateway_id, ...batch.values(requested)]
  const rows = await connection.run(tombstone, values, STATEMENT_MS, requested.length)
  const closed = new Set(rows.map((row) => textOf(row, "id")))
  return requested.map(({ id }) => (closed.has(id) ? "closed" : "held"))
}

/** The release of a hold whose caller was refused. Its `Idempotency-Key` may be used again. */
export function releaseOf({ id, idempotency }: Hold): End {
  return {
    id,
    outcome: "released",
    charge_nano: 0n,
    basis: "none",
    ending: null,
    failure: "internal_error",
    notes: [],
    usage: null,
    terms_id: null,
    ttft_ms: null,
    duration_ms: 0,
    freed_key_hash: idempotency?.key_hash ?? null,
  }
}
