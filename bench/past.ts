import { sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { accounts, ends, holds } from "../src/ledger/schema/tables.ts"

/** The charge of each past call in nano-USD: its tokens at the benchmark's prices. */
const CHARGE_NANO = 416_400
/** Rows per statement, so that transactions stay small. */
const BATCH = 100_000

export interface Past {
  readonly account_id: string
  readonly key_id: string
  readonly gateway_id: string
  readonly terms_id: number
  readonly from: number
  readonly to: number
}

/** Writes settled calls as if there had been one each second since 1990, numbered from `from` up to `to`. */
export async function addPast(database: PostgresJsDatabase, past: Past): Promise<void> {
  const { account_id, key_id, gateway_id, terms_id, from, to } = past
  for (let first = from; first < to; first += BATCH) {
    const last = Math.min(first + BATCH, to) - 1
    await database.execute(sql`
      WITH call AS (
        INSERT INTO ${holds} (id, account_id, key_id, gateway_id, amount_nano, held_at, terms_id, stream)
        SELECT (lpad(to_hex(631152000000 + n * 1000), 12, '0') || '7000' || substr(gen_random_uuid()::text, 20, 4)
            || substr(gen_random_uuid()::text, 25))::uuid,
          ${account_id}::uuid, ${key_id}::uuid, ${gateway_id}::uuid, 5000000, to_timestamp(631152000 + n), ${terms_id}, false
        FROM generate_series(${sql.raw(String(first))}::bigint, ${sql.raw(String(last))}::bigint) AS n
        RETURNING *
      )
      INSERT INTO ${ends} (id, account_id, key_id, charge_nano, freed_nano, ended_at, terms_id, prompt_tokens, cached_tokens,
        completion_tokens, ttft_ms, duration_ms, outcome, basis, ending)
      SELECT id, account_id, key_id, ${sql.raw(String(CHARGE_NANO))}, amount_nano, held_at + interval '1 second', terms_id,
        20, 4, 100, 1, 2, 'settled', 'usage', 'completed'
      FROM call`)
  }
}

/** Charges the account for `count` past calls, so that its balance equals its journal. */
export async function settle(database: PostgresJsDatabase, account_id: string, count: number): Promise<void> {
  await database.execute(sql`
    UPDATE ${accounts} SET balance_nano = balance_nano - ${sql.raw(String(count * CHARGE_NANO))} WHERE id = ${account_id}::uuid`)
}
