import { afterAll, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { drizzle } from "drizzle-orm/postgres-js"
import fc from "fast-check"
import { nextId } from "../../src/id.ts"
import { connect } from "../../src/ledger/database/address.ts"
import { openDatabase } from "../../src/ledger/database/database.ts"
import type { Db } from "../../src/ledger/database/statement.ts"
import { registerTerms } from "../../src/ledger/money/terms.ts"
import { type CallFilter, type CallRecord, listCalls } from "../../src/ledger/reports/calls.ts"
import { end_users, labels } from "../../src/ledger/schema/labels.ts"
import { calls, ends, gateways, holds, keys } from "../../src/ledger/schema/tables.ts"
import { freshDatabase } from "../support/database.ts"
import { falsify, idAt, nth } from "./test-database.ts"

const terms = new Map<string, number>()

const account_ids = [nextId(), nextId()]
/** Two keys for each account. */
const key_ids = [nextId(), nextId(), nextId(), nextId()]

const fresh = await freshDatabase()
await (await openDatabase(fresh.address)).close()
const client = connect(fresh.address, { max: 1, onnotice: () => {} })
const database = drizzle(client)
const price = { input_pico: 1n, cached_input_pico: 1n, output_pico: 1n, per_call_nano: 0n }
for (const model of ["often", "rare"]) {
  const wanted = [{ family: "chat", model, upstream: "openai", price }]
  terms.set(model, nth(await registerTerms(database, wanted), 0))
}
for (const [at, id] of key_ids.entries()) await plantKey(id, nth(account_ids, at >> 1))
afterAll(async () => {
  await client.end()
  await fresh.drop()
})

async function plantKey(id: string, account_id: string): Promise<void> {
  await database.insert(keys).values({ id, account_id, hash: id, prefix: "tg" })
}

function clear(): Promise<void> {
  return falsify(client, (tx) => tx`TRUNCATE tollgate.holds, tollgate.ends, tollgate.corrections`)
}

/** A hold, and its end if it has one, without an account that they move. */
async function plant(
  call: { id: string; account_id: string; key_id?: string; model?: string; labels_id?: number },
  end: Partial<typeof ends.$inferInsert> | null = null,
): Promise<string> {
  const { model = "often", ...rest } = call
  const common = { key_id: nextId(), ...rest, terms_id: terms.get(model) ?? 0 }
  await database.insert(holds).values({ ...common, gateway_id: nextId(), amount_nano: 1n, stream: false })
  if (end !== null) {
    const ended = { charge_nano: 0n, freed_nano: 1n, outcome: "settled", basis: "none" } as const
    await database.insert(ends).values({ ...common, ...ended, ...end })
  }
  return call.id
}

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

test("D48 however little of the journal one page looks at, the pages hold every call of a filter once, newest first", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(planted, { maxLength: 30 }),
      fc.array(filter, { minLength: 3, maxLength: 6 }),
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 1, max: 6 }),
      async (calls_of, filters, look, limit) => {
        await clear()
        for (const { second, account, key, model, outcome } of calls_of) {
          const key_id = nth(key_ids, 2 * account + key)
          await plant(
            { id: idAt(at(second)), account_id: nth(account_ids, account), key_id, model },
            ended(outcome),
          )
        }
        const all = await database.select().from(calls)
        for (const filter of filters) {
          const expected = all.filter((call) => fits(call, filter)).map(({ id }) => id)
          expect(await walk(filter, look, limit)).toEqual(expected.sort().reverse())
        }
      },
    ),
    { numRuns: 10 },
  )
})

function ended(outcome: string) {
  if (outcome === "open") return null
  if (outcome === "settled") return {}
  if (outcome === "released") return { outcome: "released", failure: "no_output" } as const
  return { failure: "client_left" } as const
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
  await clear()
  const account_id = nextId()
  const old = await plant({ id: idAt(at(0)), account_id })
  const floor_id = nextId()
  const young = await plant({ id: nextId(), account_id })
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

test("D48 at many calls an account and a key are answered by an index, and all else by the calls that a page looks at", async () => {
  await clear()
  const plenty = 10_000
  await database.execute(sql`
    INSERT INTO tollgate.holds (id, account_id, key_id, gateway_id, amount_nano, terms_id, stream)
    SELECT (lpad(to_hex(1700000000000 + n), 12, '0') || '7000' || '8000' || lpad(to_hex(n), 12, '0'))::uuid,
      lpad(to_hex(n % 50), 32, '0')::uuid, lpad(to_hex(n % 500), 32, '0')::uuid, gen_random_uuid(), 1, ${terms.get("often")}, false
    FROM generate_series(1, ${plenty}) n`)
  await database.execute(sql`
    INSERT INTO tollgate.ends (id, account_id, key_id, charge_nano, freed_nano, terms_id, outcome, basis)
    SELECT id, account_id, key_id, 1, 1, terms_id, 'settled', 'usage' FROM tollgate.holds`)
  await database.execute(sql`ANALYZE tollgate.holds, tollgate.ends`)
  const rare = { account_id: nextId(), key_id: nextId() }
  await plantKey(rare.key_id, rare.account_id)
  await plant({ ...rare, id: idAt(new Date(1_700_000_005_000)), model: "rare" })
  const filters: [filter: CallFilter, look: number | undefined, most: number][] = [
    [{ account_id: rare.account_id }, undefined, 100],
    [{ key_id: rare.key_id }, undefined, 100],
    [{ ...rare, model: "rare", state: "open" }, undefined, 100],
    [{ ...rare, failure: "deadline" }, undefined, 100],
    [{ model: "rare" }, 500, 2_500],
    [{ failure: "deadline" }, 500, 2_500],
    [{ from: new Date(1_700_000_009_000), state: "released" }, 500, 2_500],
  ]
  for (const [filter, look, most] of filters) {
    const { rows } = await scanning(JOURNAL, (tx) => listCalls(tx, filter, { limit: 100, after: null }, look))
    expect({ filter, is_few: rows < most }).toEqual({ filter, is_few: true })
  }
})

test("D94 a list by tag or end user does not read the labels of other accounts", async () => {
  await clear()
  const account_id = nth(account_ids, 0)
  const call = { account_id, key_id: nth(key_ids, 0) }
  const user_id = nextId()
  await database.insert(end_users).values({ id: user_id, account_id, subject: "ann" })
  await database.insert(labels).values({ id: 1, account_id, end_user_id: user_id, tags: { team: "a" } })
  await database.execute(sql`INSERT INTO tollgate.end_users (id, account_id, subject)
    SELECT gen_random_uuid(), gen_random_uuid(), 'ann' FROM generate_series(1, 5000)`)
  await database.execute(sql`INSERT INTO tollgate.labels (id, account_id, end_user_id, tags)
    SELECT -n, u.account_id, u.id, '{"team": "a"}' FROM (
      SELECT row_number() OVER ()::int AS n, * FROM tollgate.end_users WHERE id <> ${user_id}) u`)
  await database.execute(sql`ANALYZE tollgate.labels, tollgate.end_users`)
  await plant({ ...call, id: idAt(at(1)) })
  const labelled_id = await plant({ ...call, id: idAt(at(2)), labels_id: 1 })
  for (const owner of [{ account_id }, { key_id: call.key_id }, {}])
    for (const filter of [{ tags: { team: "a" } }, { end_users: ["ann"] }, { end_users: ["bob", user_id] }]) {
      const { rows, result } = await scanning("labels|end_users", (tx) =>
        listCalls(tx, { ...owner, ...filter }, { limit: 100, after: null }),
      )
      expect(result.data.map((each) => each.id)).toEqual([labelled_id])
      expect(rows).toBeLessThan(100)
    }
})

const JOURNAL = "(holds|ends|corrections)_.*"

/** The rows of such tables that were read, by this connection alone: the server reads some meanwhile to summarize their indexes. */
async function scanning<Result>(tables: string, read: (database: Db) => Promise<Result>) {
  await database.execute(sql`SELECT pg_stat_force_next_flush()`)
  return database.transaction(async (tx) => {
    const result = await read(tx)
    const [row] = await tx.execute<{ rows: string }>(sql`
      SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::text AS rows FROM pg_stat_xact_user_tables
      WHERE schemaname = 'tollgate' AND relname ~ ${`^(${tables})$`}`)
    return { result, rows: Number(row?.rows) }
  })
}
