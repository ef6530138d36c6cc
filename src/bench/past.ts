import { sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { accounts, reservations } from "../ledger/schema.ts"

/** What each reservation of the past was charged, in nano-USD. */
const CHARGE_NANO = 100
/** Rows of one statement: a bearable transaction. */
const BATCH = 100_000

export interface Past {
  readonly account_id: string
  readonly key_id: string
  readonly gateway_id: string
  readonly from: number
  readonly to: number
}

/** Writes settled reservations as if there had been one each second since 1990, numbered from `from` up to `to`. */
export async function addPast(database: PostgresJsDatabase, past: Past): Promise<void> {
  const { account_id, key_id, gateway_id, from, to } = past
  for (let first = from; first < to; first += BATCH) {
    const last = Math.min(first + BATCH, to) - 1
    await database.execute(sql`
      INSERT INTO ${reservations} (id, account_id, key_id, gateway_id, amount_nano, charge_nano, input_pico, cached_input_pico,
        output_pico, started_at, closed_at, prompt_tokens, cached_tokens, completion_tokens, ttft_ms, duration_ms, stream, state,
        model, family, upstream, basis, ending)
      SELECT (lpad(to_hex(631152000000 + n * 1000), 12, '0') || '7000' || substr(gen_random_uuid()::text, 20, 4)
          || substr(gen_random_uuid()::text, 25))::uuid,
        ${account_id}::uuid, ${key_id}::uuid, ${gateway_id}::uuid, 5000000, ${sql.raw(String(CHARGE_NANO))}, 1000000, 100000, 4000000,
        to_timestamp(631152000 + n), to_timestamp(631152001 + n), 20, 4, 100, 1, 2, false, 'settled', 'bench', 'chat', 'bench',
        'usage', 'completed'
      FROM generate_series(${sql.raw(String(first))}::bigint, ${sql.raw(String(last))}::bigint) AS n`)
  }
}

/** Charges the account for `count` reservations of the past, so that its balance is what its journal says. */
export async function settle(database: PostgresJsDatabase, account_id: string, count: number): Promise<void> {
  await database.execute(sql`
    UPDATE ${accounts} SET balance_nano = balance_nano - ${sql.raw(String(count * CHARGE_NANO))} WHERE id = ${account_id}::uuid`)
}
