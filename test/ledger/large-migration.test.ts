import { afterAll, expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import { connect } from "../../src/ledger/database/address.ts"
import { openDatabase } from "../../src/ledger/database/database.ts"
import { emptyDatabase } from "../support/database.ts"
import { createOldLedger } from "./old-ledger.ts"

/**
 * D55: a large ledger of version 0.1, migrated at once. Each run of the tests does it with 100,000 calls; with a million it
 * takes a minute: `CALLS=1000000 bun run test test/ledger/large-migration.test.ts` prints the figures of docs/operating.md.
 */
const CALLS = Number(Bun.env.CALLS ?? 100_000)
const ACCOUNTS = 1_000
/** What 10 tokens of prompt and 20 of completion cost at the prices below. */
const CHARGE_NANO = 42_500

const fresh = await emptyDatabase()
const sql = connect(fresh.address, { max: 1, onnotice: () => {} })
await createOldLedger(sql)
await fill()
afterAll(async () => {
  await sql.end()
  await fresh.drop()
})

async function fill(): Promise<void> {
  const gateway_id = nextId()
  await sql`INSERT INTO tollgate.gateways (id, floor_id, lease_until, dead_at)
    VALUES (${gateway_id}, ${gateway_id}, now() - interval '1 hour', now() - interval '1 hour')`
  await sql.unsafe(`
    CREATE TEMPORARY TABLE holders AS SELECT n, gen_random_uuid() AS id, gen_random_uuid() AS key_id
      FROM generate_series(0, ${ACCOUNTS - 1}) n;
    INSERT INTO tollgate.reservations (id, account_id, key_id, gateway_id, amount_nano, model, family, upstream, stream,
        input_pico, cached_input_pico, output_pico, per_call_nano, state, basis, ending, notes,
        prompt_tokens, cached_tokens, completion_tokens, charge_nano, ttft_ms, duration_ms, started_at, closed_at)
      SELECT (lpad(to_hex((1750000000000 + call)::bigint), 12, '0') || '70008' || substr(md5(call::text), 1, 15))::uuid,
        holders.id, holders.key_id, '${gateway_id}', 208000, 'chat-model', 'chat', 'first', call % 3 = 0,
        250000, 25000, 2000000, 0, 'settled', 'usage', 'completed', '{}',
        10, 0, 20, ${CHARGE_NANO}, CASE WHEN call % 3 = 0 THEN 12 END, 800, now() - interval '1 day', now() - interval '23 hours'
      FROM generate_series(1, ${CALLS}) call JOIN holders ON holders.n = call % ${ACCOUNTS};
    INSERT INTO tollgate.credits (id, account_id, amount_nano) SELECT gen_random_uuid(), id, 1000000000 FROM holders;
    INSERT INTO tollgate.accounts (id, name, balance_nano, held_nano)
      SELECT id, 'a', 1000000000 - ${(CHARGE_NANO * CALLS) / ACCOUNTS}, 0 FROM holders;
    INSERT INTO tollgate.keys (id, account_id, hash, prefix) SELECT key_id, id, key_id, 'tg' FROM holders`)
}

async function bytesOf(...tables: string[]): Promise<number> {
  const [row] = await sql`SELECT sum(pg_total_relation_size(coalesce(p.relid, c)))::float8 AS bytes
    FROM unnest(${tables.map((name) => `tollgate.${name}`)}::regclass[]) c LEFT JOIN LATERAL pg_partition_tree(c) p ON true`
  return Number(row?.bytes)
}

test("D55 a ledger with many calls is migrated, is in order, and takes at most half the disk", async () => {
  const before = await bytesOf("reservations")
  const started_ms = performance.now()
  const database = await openDatabase(fresh.address)
  const took_s = (performance.now() - started_ms) / 1_000
  const after = await bytesOf("holds", "ends")
  if (Bun.env.CALLS !== undefined)
    console.log({ took_s, bytes_before: before / CALLS, bytes_after: after / CALLS })
  expect(after).toBeLessThan(before / 2)
  const [row] = await sql`SELECT count(*)::int AS calls FROM tollgate.calls WHERE state = 'settled'`
  expect(row).toEqual({ calls: CALLS })
  expect(await audit(database.operators)).toMatchObject({ accounts: ACCOUNTS, open_holds: 0, violations: [] })
  await database.close()
}, 300_000)
