import { sql } from "drizzle-orm"
import { NIL_ID } from "../../id.ts"
import type { Runner } from "../database/connection.ts"
import { count, latest, optionalText, type RowOf, RowShape, text } from "../database/row-shape.ts"
import type { FilteredTime } from "../database/span.ts"
import { type Db, instant, jsonOf, type Row, statement } from "../database/statement.ts"
import type { RefusedCall } from "../entries.ts"
import { refusals } from "../schema/refusals.ts"
import { accounts, keys } from "../schema/tables.ts"

/** The most keys and codes that are counted separately between two writes. Further refusals count without their key. */
const MAX_COUNTS = 10_000
const MAX_ROWS = 1_000

/** Adds to the rows of this hour, in a fixed order so that gateways do not deadlock. */
const write = statement(
  "refusals",
  sql`
WITH forgotten AS (
  DELETE FROM ${refusals} WHERE "hour" < now() - interval '30 days'
)
INSERT INTO ${refusals} AS e ("hour", "account_id", "key_id", "code", "requests", "last_at")
SELECT date_trunc('hour', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC', r.account_id, r.key_id, r.code, r.requests, now()
FROM json_to_recordset($1::text::json) AS r (account_id uuid, key_id uuid, code text, requests bigint)
ORDER BY 2, 3, 4
ON CONFLICT ON CONSTRAINT refusals_pkey DO UPDATE SET requests = e.requests + excluded.requests, last_at = excluded.last_at`,
)

interface RefusalCount {
  readonly account_id: string
  readonly key_id: string
  readonly code: string
  requests: number
}

/** The calls that this process has refused since the last write (D80). A refusal only increments a counter. */
export class RefusalQueue {
  readonly #counts = new Map<string, RefusalCount>()

  add({ owner, code }: RefusedCall): void {
    // The columns of the primary key have no null.
    const { account_id, key_id } = owner ?? { account_id: NIL_ID, key_id: NIL_ID }
    const count_key = `${key_id} ${code}`
    const counted = this.#counts.get(count_key)
    if (counted !== undefined) counted.requests += 1
    else if (owner !== null && this.#counts.size >= MAX_COUNTS) this.add({ owner: null, code })
    else this.#counts.set(count_key, { account_id, key_id, code, requests: 1 })
  }

  /** Writes the counts. A failed write is not repeated, because it may have been committed. */
  async write(connection: Runner, within_ms: number): Promise<void> {
    const counts = [...this.#counts.values()]
    this.#counts.clear()
    if (counts.length > 0) await connection.run(write, [jsonOf(counts)], within_ms, counts.length)
  }
}

/** A display name; a shard that the account has left may not have it. */
const name: typeof optionalText = { ...optionalText, add: (one, other) => one ?? other }

/** The refused calls of a key with one code; the ids are null for calls with an unknown key, or without one. */
export const refusalSums = new RowShape(
  {
    account_id: optionalText,
    account_name: name,
    key_id: optionalText,
    key_name: name,
    code: text,
    requests: count,
    last_at: latest,
  },
  (one, other) => other.requests - one.requests,
  MAX_ROWS,
)

/** Sums of all hours that overlap the time, most requests first. */
export async function readRefusals(
  database: Db,
  { from, to, account_id, key_id, code }: FilteredTime<"account_id" | "key_id" | "code">,
): Promise<RowOf<typeof refusalSums>[]> {
  const rows = await database.execute<Row>(sql`
WITH x AS (
  SELECT account_id, key_id, code, sum(requests) AS requests, max(last_at) AS last_at FROM ${refusals}
  WHERE hour > ${instant(from)} - interval '1 hour' AND hour < ${instant(to)}
    AND (${account_id ?? null}::uuid IS NULL OR account_id = ${account_id ?? null}::uuid)
    AND (${key_id ?? null}::uuid IS NULL OR key_id = ${key_id ?? null}::uuid)
    AND (${code ?? null}::text IS NULL OR code = ${code ?? null}::text)
  GROUP BY account_id, key_id, code ORDER BY requests DESC, last_at DESC LIMIT ${MAX_ROWS}
)
SELECT nullif(x.account_id, ${NIL_ID}::uuid) AS account_id, nullif(x.key_id, ${NIL_ID}::uuid) AS key_id, x.code, x.requests::text,
  (extract(epoch FROM x.last_at) * 1000)::bigint::text AS last_at,
  (SELECT name FROM ${accounts} WHERE id = x.account_id) AS account_name,
  (SELECT name FROM ${keys} WHERE id = x.key_id) AS key_name
FROM x`)
  return rows.map((row) => refusalSums.read(row))
}
