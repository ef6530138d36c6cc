import { sql } from "drizzle-orm"
import type { Connection } from "./connection.ts"
import type { Standing } from "./reservation.ts"
import { accounts, keys } from "./schema.ts"
import { remaining } from "./spending.ts"
import { booleanOf, nanoOf, periodOf, type Row, statement, textOf } from "./statement.ts"

const STATEMENT_MS = 1_000

/** What keys may do now, in one snapshot (D22, D26). `$1` is a JSON array of hashes. */
export const standing = statement(
  "standing",
  sql`
SELECT k.hash, k.id AS key_id, k.account_id, to_json(k.models)::text AS models,
  k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now()) AS active,
  (a.balance_nano - a.held_nano)::text AS available_nano,
  k.suspended_at IS NOT NULL AS key_suspended, a.suspended_at IS NOT NULL AS account_suspended,
  k.spend_period AS period, (${remaining})::text AS remaining_nano
FROM ${keys} k JOIN ${accounts} a ON a.id = k.account_id
WHERE k.hash = ANY (ARRAY(SELECT json_array_elements_text($1::text::json)))`,
)

/** The standing of each hash, in their order; null where there is no such key. */
export async function readStandings(
  connection: Connection,
  hashes: readonly string[],
): Promise<(Standing | null)[]> {
  const rows = await connection.run(standing, [JSON.stringify(hashes)], STATEMENT_MS, hashes.length)
  const results = new Map(rows.map((row) => [textOf(row, "hash"), standingOf(row)]))
  return hashes.map((hash) => results.get(hash) ?? null)
}

function standingOf(row: Row): Standing {
  return {
    account_id: textOf(row, "account_id"),
    key_id: textOf(row, "key_id"),
    active: booleanOf(row, "active"),
    models: row.models === null ? null : wordsOf(JSON.parse(textOf(row, "models"))),
    available_nano: nanoOf(row, "available_nano"),
    key_suspended: booleanOf(row, "key_suspended"),
    account_suspended: booleanOf(row, "account_suspended"),
    spending:
      row.period === null
        ? null
        : { remaining_nano: nanoOf(row, "remaining_nano"), period: periodOf(row, "period") },
  }
}

function wordsOf(value: unknown): string[] {
  if (!Array.isArray(value)) throw new Error("models is not a list")
  return value.map((word) => {
    if (typeof word !== "string") throw new Error("a model's name is not a text")
    return word
  })
}
