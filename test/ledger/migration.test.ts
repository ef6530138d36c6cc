import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import { getKey } from "../../src/ledger/accounts/keys.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import { connect } from "../../src/ledger/database/address.ts"
import { type Database, openDatabase } from "../../src/ledger/database/database.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { emptyDatabase } from "../support/database.ts"
import { createOldLedger } from "./old-ledger.ts"
import { call, holdOf, nth, PatientConnection, sweepOnce } from "./test-database.ts"

/** D55: the calls of version 0.1, one row each that changed, become entries: nothing is lost, and everything reads the same. */

let database: Database

interface Price {
  readonly input_pico: bigint
  readonly cached_input_pico: bigint
  readonly output_pico: bigint
  readonly per_call_nano: bigint
}

const PRICES: readonly Price[] = [
  { input_pico: 250_000n, cached_input_pico: 25_000n, output_pico: 2_000_000n, per_call_nano: 0n },
  { input_pico: 250_000n, cached_input_pico: 25_000n, output_pico: 2_000_001n, per_call_nano: 0n },
  { input_pico: 1n, cached_input_pico: 0n, output_pico: 7n, per_call_nano: 30n },
]
const priceOf = (at: number) => nth(PRICES, at % PRICES.length)
const UPSTREAMS = ["first", "second"]
const MODELS = ["chat-model", "other"]

interface Usage {
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly completion_tokens: number
}

const NO_USAGE = { prompt_tokens: null, cached_tokens: null, completion_tokens: null }

/** What these tokens cost, rounded up once; without tokens nothing. */
function costOf(price: Price, usage: Usage | null): bigint {
  if (usage === null || usage.prompt_tokens + usage.completion_tokens === 0) return 0n
  const pico =
    price.input_pico * BigInt(usage.prompt_tokens - usage.cached_tokens) +
    price.cached_input_pico * BigInt(usage.cached_tokens) +
    price.output_pico * BigInt(usage.completion_tokens)
  return (pico + 999n) / 1_000n + price.per_call_nano
}

const account_ids = [nextId(), nextId(), nextId()]
/** By account: a limit of a day and one of a month, one without; a limit whose period is over; and none. */
const keys = [
  { id: nextId(), account: 0, limit: "day", since: "date_trunc('day', now(), 'UTC')" },
  { id: nextId(), account: 0, limit: "month", since: "date_trunc('month', now(), 'UTC')" },
  { id: nextId(), account: 0, limit: null, since: null },
  { id: nextId(), account: 1, limit: "day", since: "date_trunc('day', now(), 'UTC') - interval '3 days'" },
  { id: nextId(), account: 2, limit: null, since: null },
]
const LIMIT = 1_000_000n
const living_id = nextId()
const dead_id = nextId()
const floor_id = nextId()

const usages: (Usage | null)[] = [
  { prompt_tokens: 30, cached_tokens: 10, completion_tokens: 5 },
  { prompt_tokens: 1, cached_tokens: 0, completion_tokens: 1 },
  { prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0 },
  null,
]
/** Everything that became of a call in version 0.1; what `charged` it is its tokens. */
const ENDED = (
  [
    ["settled", "usage", "completed", null, "{}", true],
    ["settled", "estimate", "client_left", "client_left", "{usage_placeholder}", true],
    ["settled", "partial", "upstream_lost", "upstream_lost", "{cached_clamped,overage}", true],
    ["settled", "usage", "completed", null, "{settled_late}", true],
    ["released", "none", null, "upstream_error", "{}", false],
    ["released", null, null, "internal_error", "{}", false],
    ["expired", "partial", "gateway_lost", "gateway_lost", "{}", true],
    ["expired", "none", "gateway_lost", "gateway_lost", "{}", false],
  ] as const
).map(([state, basis, ending, failure, notes, charged]) => ({
  ...{ state, basis, ending, failure, notes, charged },
}))

const fresh = await emptyDatabase()
const sql = connect(fresh.address, { max: 1, onnotice: () => {} })
const connection = new PatientConnection(fresh.address)
await createOldLedger(sql)
await fill()
afterAll(async () => {
  await database?.close()
  await connection.end()
  await sql.end()
  await fresh.drop()
})

/** A call of each kind under each key, at several prices and moments; then accounts and keys as they come to. */
async function fill(): Promise<void> {
  let made = 0
  type Row = Record<string, string | number | boolean | null | undefined>
  const rows: (Row & { age: string })[] = []
  const add = (key: (typeof keys)[number], age: string, row: Row) => {
    const at = made++
    const price = priceOf(at)
    rows.push({
      id: nextId(),
      account_id: account_ids[key.account],
      key_id: key.id,
      gateway_id: dead_id,
      amount_nano: "40000",
      age,
      model: MODELS[at % 2],
      family: "chat",
      upstream: UPSTREAMS[(at >> 1) % 2],
      stream: at % 3 === 0,
      ...Object.fromEntries(Object.entries(price).map(([name, value]) => [name, String(value)])),
      ...row,
    })
  }
  for (const key of keys) {
    for (const age of ["0 s", "4 days", "40 days"]) {
      for (const { charged, ...ended } of ENDED) {
        for (const usage of charged ? usages : [null]) {
          const charge = charged ? costOf(priceOf(made), usage) : 0n
          const seen = usage ?? NO_USAGE
          const times = {
            ttft_ms: made % 4 === 0 ? null : made,
            duration_ms: ended.state === "expired" ? null : made,
          }
          add(key, age, { ...ended, ...seen, ...times, charge_nano: String(charge) })
        }
      }
    }
    // Open ones, of which those with a checkpoint have seen something; one of them more than it holds.
    for (const [at, usage] of usages.entries()) {
      const checkpoint = costOf(priceOf(made), usage)
      const basis = usage === null ? null : "partial"
      const amount_nano = at === 0 ? "10" : "40000"
      add(key, "0 s", {
        state: "open",
        basis,
        ...(usage ?? NO_USAGE),
        checkpoint_nano: String(checkpoint),
        amount_nano,
      })
    }
  }
  await sql`INSERT INTO tollgate.gateways (id, floor_id, lease_until, dead_at) VALUES
    (${living_id}, ${floor_id}, now() + interval '1 hour', NULL), (${dead_id}, ${floor_id}, now() - interval '1 hour', now() - interval '1 hour')`
  for (const { age, ...row } of rows) {
    const columns = Object.keys(row)
    const closed = row.state === "open" ? "NULL" : `now() - '${age}'::interval`
    const values = columns.map((_, at) => `$${at + 1}`).join(", ")
    await sql.unsafe(
      `INSERT INTO tollgate.reservations (${columns.join(", ")}, started_at, closed_at)
        VALUES (${values}, now() - '${age}'::interval - interval '1 ms', ${closed})`,
      Object.values(row).map((value) => value ?? null),
    )
  }
  for (const id of account_ids) {
    await sql`INSERT INTO tollgate.credits (id, account_id, amount_nano) VALUES (${nextId()}, ${id}, 900000000), (${nextId()}, ${id}, -5)`
    await sql`INSERT INTO tollgate.accounts (id, name, balance_nano, held_nano)
      SELECT ${id}, 'a', 899999995 - coalesce(sum(charge_nano), 0), coalesce(sum(amount_nano) FILTER (WHERE state = 'open'), 0)
      FROM tollgate.reservations WHERE account_id = ${id}`
  }
  for (const { id, account, limit, since } of keys) {
    await sql`INSERT INTO tollgate.keys (id, account_id, hash, prefix) VALUES (${id}, ${account_ids[account] ?? ""}, ${id}, 'tg')`
    if (limit === null) continue
    await sql.unsafe(`UPDATE tollgate.keys k SET spend_limit_nano = ${LIMIT}, spend_period = '${limit}', spend_epoch = 1,
      spent_since = ${since}, spent_nano = (SELECT coalesce(sum(coalesce(charge_nano, amount_nano)), 0)
        FROM tollgate.reservations r WHERE r.key_id = k.id AND r.started_at >= ${since}) WHERE id = '${id}'`)
  }
}

describe("D55 the ledger of version 0.1, migrated", () => {
  let old: Record<string, unknown>[]
  let spent: Map<string, string>

  beforeAll(async () => {
    old = [...(await sql`SELECT * FROM tollgate.reservations ORDER BY id`)]
    const rows =
      await sql`SELECT id, CASE WHEN spent_since >= date_trunc(spend_period, now(), 'UTC') THEN spent_nano ELSE 0 END AS spent
      FROM tollgate.keys WHERE spend_limit_nano IS NOT NULL`
    spent = new Map(rows.map((row) => [String(row.id), String(row.spent)]))
    database = await openDatabase(fresh.address)
  })

  test("passes the audit", async () => {
    const { violations, accounts, open_holds } = await audit(database.operators)
    expect(violations).toEqual([])
    expect({ accounts, open_holds }).toEqual({ accounts: 3, open_holds: keys.length * usages.length })
  })

  test("reads the same: every call, through the view", async () => {
    const rows = await sql`SELECT * FROM tollgate.calls ORDER BY id`
    const expected = old.map(
      ({ started_at, closed_at, checkpoint_nano: _, spend_epoch: _epoch, ...row }) => ({
        ...row,
        held_at: started_at,
        ended_at: closed_at,
        // What a call without a basis rested on; and what has only been seen of an open one stands in its checkpoint.
        ...(row.state === "open" ? { basis: null, ...NO_USAGE } : { basis: row.basis ?? "none" }),
        // Nothing had a price of its own then (D60).
        ...{ buckets: null, above_tokens: 0, price_multiplier_bp: null, operation: "chat" },
      }),
    )
    expect([...rows]).toMatchObject(expected)
    expect(rows.length).toBeGreaterThan(250)
  })

  test("names each set of prices once, since it was first sold at it", async () => {
    const rows =
      await sql`SELECT t.*, (SELECT min(h.held_at) FROM tollgate.holds h WHERE h.terms_id = t.id) AS first_at FROM tollgate.terms t`
    const different = new Set(
      old.map(({ family, model, upstream, input_pico, cached_input_pico, output_pico, per_call_nano }) =>
        JSON.stringify([family, model, upstream, input_pico, cached_input_pico, output_pico, per_call_nano]),
      ),
    )
    expect(different.size).toBe(12)
    expect(rows.length).toBe(different.size)
    for (const { created_at, first_at } of rows) expect(created_at).toEqual(first_at)
    const unlike =
      await sql`SELECT FROM tollgate.holds h JOIN tollgate.ends e USING (id) WHERE h.terms_id <> e.terms_id`
    expect(unlike).toHaveLength(0)
  })

  test("limits have counted the same, and go on counting", async () => {
    for (const { id, limit } of keys) {
      const spending = (await getKey(database.operators, id))?.spending ?? null
      expect(spending?.spent_nano.toString()).toBe(spent.get(id))
      expect(spending?.period ?? null).toBe(limit === "day" || limit === "month" ? limit : null)
    }
    const flags = await sql`SELECT id FROM tollgate.accounts WHERE is_limited ORDER BY id`
    expect(flags.map(({ id }) => id)).toEqual(account_ids.slice(0, 2))

    const [key] = keys
    const account = { account_id: account_ids[0] ?? "", key_id: key?.id ?? "" }
    const left = LIMIT - BigInt(spent.get(account.key_id) ?? 0)
    const ask = (nano: bigint) => holdBatch(connection, living_id, [holdOf(account, nano)], 300)
    expect(await ask(left + 1n)).toEqual([
      { outcome: "spending_limit_reached", remaining_nano: left, period: "day" },
    ])
    expect(await ask(left)).toEqual([{ outcome: "held", is_limited: true }])
    expect((await audit(database.operators)).violations).toEqual([])
  })

  test("open holds stay open until they are swept, and are charged what their checkpoints had seen", async () => {
    const open = old.filter(({ state }) => state === "open")
    const states = await Promise.all(open.map(async ({ id }) => (await call(sql, String(id)))?.state))
    expect(new Set(states)).toEqual(new Set(["open"]))

    let expired = 0
    await sweepOnce(connection, (count) => {
      expired += count
    })
    expect(expired).toBe(open.length)
    for (const { id, checkpoint_nano, amount_nano, basis, ...row } of open) {
      const is_over = Number(checkpoint_nano) > Number(amount_nano)
      const is_seen = checkpoint_nano !== "0"
      expect(await call(sql, String(id))).toMatchObject({
        state: "expired",
        charge_nano: String(checkpoint_nano),
        basis: is_seen ? basis : "none",
        prompt_tokens: is_seen ? row.prompt_tokens : null,
        failure: "gateway_lost",
        notes: is_over ? ["overage"] : [],
      })
    }
    expect(
      open.some(({ checkpoint_nano, amount_nano }) => Number(checkpoint_nano) > Number(amount_nano)),
    ).toBe(true)
    expect(await sql`SELECT FROM tollgate.checkpoints`).toHaveLength(0)
    expect((await audit(database.operators)).violations).toEqual([])
  })
})
