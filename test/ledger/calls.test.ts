import { afterAll, beforeAll, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js"
import fc from "fast-check"
import { nextId } from "../../src/id.ts"
import { connect } from "../../src/ledger/database/address.ts"
import { type CallFilter, type CallRecord, listCalls } from "../../src/ledger/reports/calls.ts"
import { closeBatch } from "../../src/ledger/journal/end.ts"
import { openDatabase } from "../../src/ledger/database/database.ts"
import { reserveBatch } from "../../src/ledger/journal/hold.ts"
import { gateways, reservations } from "../../src/ledger/schema.ts"
import { idAt, plantCall } from "../admin/office.ts"
import { type FreshDatabase, freshDatabase } from "../support/database.ts"
import { until } from "../support/gateway.ts"
import { holdOf, openBooks, settled } from "./books.ts"

let fresh: FreshDatabase
/** Over one connection, which therefore knows what all statements have read. */
let database: PostgresJsDatabase
let client: ReturnType<typeof connect>

beforeAll(async () => {
  fresh = await freshDatabase()
  await (await openDatabase(fresh.address)).close()
  client = connect(fresh.address, { max: 1, onnotice: () => {} })
  database = drizzle(client)
})
afterAll(async () => {
  await client.end()
  await fresh.drop()
})

const account_ids = [nextId(), nextId()]
const key_ids = [nextId(), nextId(), nextId()]
const start_ms = Date.UTC(2026, 5, 1)
const at = (second: number) => new Date(start_ms + second * 1_000)

const planted = fc.record({
  second: fc.nat(40),
  account: fc.nat(1),
  key: fc.nat(1),
  model: fc.constantFrom("often", "often", "often", "rare"),
  outcome: fc.constantFrom("open", "settled", "settled", "released", "failed"),
})
const filter = fc.record(
  {
    account_id: fc.constantFrom(...account_ids),
    key_id: fc.constantFrom(...key_ids),
    model: fc.constantFrom("often", "rare"),
    state: fc.constantFrom("open" as const, "settled" as const, "released" as const),
    failure: fc.constantFrom("no_output" as const, "client_left" as const),
    from: fc.nat(40).map(at),
    to: fc.nat(40).map(at),
  },
  { requiredKeys: [] },
)

test("D48 however little of the books one page looks at, the pages hold every call of a filter once, newest first", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(planted, { maxLength: 30 }),
      fc.array(filter, { minLength: 3, maxLength: 6 }),
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 1, max: 6 }),
      async (calls, filters, look, limit) => {
        await database.delete(reservations)
        const rows = calls.map(({ second, account, key, model, outcome }) => ({
          id: idAt(at(second)),
          account_id: account_ids[account] ?? "",
          key_id: key_ids[account + key] ?? "",
          gateway_id: nextId(),
          ...{ amount_nano: 1n, input_pico: 1n, cached_input_pico: 1n, output_pico: 1n },
          ...{ stream: false, model, family: "chat", upstream: "openai" },
          ...ended(outcome),
        }))
        if (rows.length > 0) await database.insert(reservations).values(rows)
        const all = await database.select().from(reservations)
        for (const filter of filters) {
          const expected = all.filter((call) => fits(call, filter)).map(({ id }) => id)
          expect(await walk(filter, look, limit)).toEqual(expected.sort().reverse())
        }
      },
    ),
    { numRuns: 20 },
  )
})

function ended(outcome: string) {
  const closed = { closed_at: new Date(), charge_nano: 0n }
  if (outcome === "open") return {}
  if (outcome === "settled") return { ...closed, state: "settled" }
  if (outcome === "released") return { ...closed, state: "released", failure: "no_output" }
  return { ...closed, state: "settled", failure: "client_left" }
}

function fits(call: CallRecord, { from, to, ...words }: CallFilter): boolean {
  const started_ms = Number.parseInt(call.id.replace("-", "").slice(0, 12), 16)
  if (from !== undefined && started_ms < from.getTime()) return false
  if (to !== undefined && started_ms >= to.getTime()) return false
  return Object.entries(words).every(([column, word]) =>
    Object.entries(call).some(([name, value]) => name === column && value === word),
  )
}

async function walk(filter: CallFilter, look: number, limit: number): Promise<string[]> {
  const ids: string[] = []
  let after: string | null = null
  do {
    const page: Awaited<ReturnType<typeof listCalls>> = await listCalls(
      database,
      filter,
      { limit, after },
      look,
    )
    expect(page.data.length).toBeLessThanOrEqual(limit)
    ids.push(...page.data.map(({ id }) => id))
    after = page.next
  } while (after !== null)
  return ids
}

test("D35 open calls are looked for above the floors of the gateways that may have some, and nowhere else", async () => {
  await database.delete(reservations)
  const account_id = nextId()
  const old = await plantCall(database, { account_id, started_at: at(0) })
  const floor_id = nextId()
  const young = await plantCall(database, { account_id, id: nextId() })
  const open = async () =>
    (await listCalls(database, { account_id, state: "open" }, { limit: 10, after: null })).data.map(
      ({ id }) => id,
    )
  expect(await open()).toEqual([young, old])
  const id = nextId()
  await database.insert(gateways).values({ id, floor_id, lease_until: new Date() })
  await database
    .insert(gateways)
    .values({ id: nextId(), floor_id: old, lease_until: new Date(), swept_at: new Date() })
  expect(await open()).toEqual([young])
  await database.delete(gateways)
})

test("the indexes of calls are on what never changes, so that a call is closed within its page", async () => {
  const columns = await database.execute<{ column: string }>(sql`
    SELECT DISTINCT a.attname AS column FROM pg_index i
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
    WHERE i.indrelid = 'tollgate.reservations'::regclass ORDER BY 1`)
  expect(columns.map(({ column }) => column)).toEqual(["account_id", "id", "key_id", "model"])
  const partial = await database.execute(sql`
    SELECT FROM pg_index WHERE indrelid = 'tollgate.reservations'::regclass AND (indpred IS NOT NULL OR indexprs IS NOT NULL)`)
  expect(partial).toHaveLength(0)
})

test("a call is closed within its page, also when all of the page were open at once", async () => {
  const books = await openBooks()
  const gateway_id = await books.gateway()
  const account = await books.account(1_000_000_000n)
  const connection = books.connection()
  const holds = Array.from({ length: 1_000 }, () => holdOf(account, 1_000n, { model: "m", upstream: "u" }))
  for (let at = 0; at < holds.length; at += 100) {
    const reserved = await reserveBatch(connection, gateway_id, holds.slice(at, at + 100), 900)
    expect(reserved.every(({ outcome }) => outcome === "held")).toBe(true)
  }
  const closings = holds.map(({ id }) => settled(id, 900n))
  for (let at = 0; at < closings.length; at += 100)
    await closeBatch(connection, closings.slice(at, at + 100), 900)
  await connection.end()
  const updates = await until(
    async () => {
      const [row] =
        await books.sql`SELECT n_tup_upd::int AS all, n_tup_hot_upd::int AS in_page FROM pg_stat_user_tables
        WHERE relid = 'tollgate.reservations'::regclass`
      return row
    },
    (row) => row?.all === holds.length,
  )
  expect({ ...updates }).toEqual({ all: holds.length, in_page: holds.length })
  await books.close()
})

test("D48 at many calls every filter is answered by an index, however rare what it looks for is", async () => {
  await database.delete(reservations)
  const plenty = 10_000
  await database.execute(sql`
    INSERT INTO tollgate.reservations (id, account_id, key_id, gateway_id, amount_nano, charge_nano, input_pico, cached_input_pico,
      output_pico, closed_at, stream, state, model, family, upstream)
    SELECT (lpad(to_hex(1700000000000 + n), 12, '0') || '7000' || '8000' || lpad(to_hex(n), 12, '0'))::uuid,
      lpad(to_hex(n % 50), 32, '0')::uuid, lpad(to_hex(n % 500), 32, '0')::uuid, gen_random_uuid(), 1, 1, 1, 1, 1, now(), false, 'settled',
      'model-' || n % 20, 'chat', 'openai'
    FROM generate_series(1, ${plenty}) n`)
  await database.execute(sql`ANALYZE tollgate.reservations`)
  const rare = { account_id: nextId(), key_id: nextId(), model: "rare" }
  await plantCall(database, { ...rare, started_at: new Date(1_700_000_010_000) })
  for (const filter of [
    { account_id: rare.account_id },
    { key_id: rare.key_id },
    { model: rare.model },
    { ...rare, state: "open" as const },
    { model: rare.model, failure: "deadline" as const },
  ]) {
    const before = await scanned()
    await listCalls(database, filter, { limit: 100, after: null })
    expect((await scanned()) - before).toBeLessThan(100)
  }
})

/** Rows of `reservations` that statements have read so far. */
async function scanned(): Promise<number> {
  await database.execute(sql`SELECT pg_stat_force_next_flush()`)
  const [row] = await database.execute<{ rows: string }>(sql`
    SELECT (seq_tup_read + idx_tup_fetch)::text AS rows FROM pg_stat_user_tables WHERE relid = 'tollgate.reservations'::regclass`)
  return Number(row?.rows)
}
