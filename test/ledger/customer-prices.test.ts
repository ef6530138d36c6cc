import { describe, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { nextId } from "../../src/id.ts"
import {
  type CustomerPriceOrder,
  endCustomerPrice,
  getCustomerPrice,
  listCustomerPrices,
  setCustomerPrice,
} from "../../src/ledger/accounts/customer-prices.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import { priceOfCall, pricesOfAccount } from "../../src/ledger/money/customer-prices.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { registerTerms } from "../../src/ledger/money/terms.ts"
import { moveAccount } from "../../src/ledger/moves/moves.ts"
import { Owners, readStandings } from "../../src/ledger/queue/standings.ts"
import { sumHours } from "../../src/ledger/reports/sum-hours.ts"
import { sumUsage } from "./sum-usage.ts"
import {
  type Account,
  FIRST,
  falsify,
  holdOf,
  lockAccount,
  lockWaiters,
  OTHER_MODEL,
  settled,
} from "./test-database.ts"
import { type Shard, twoShards } from "./two-shards.ts"

/** D100: the statement that holds decides which price an account has. */

const [a, b] = await twoShards()

const PRICES = { input: "0.5", output: "4" }
/** The prices of `FIRST`, but for those of `PRICES`. */
const OWN = { input_pico: 500_000n, cached_input_pico: 25_000n, output_pico: 4_000_000n, per_call_nano: 0n }
/** 2 x 500 + 1 x 25 + 2 x 4,000 nano-USD, and the same at the prices of `FIRST`. */
const [OWN_COST, COST] = [9_025n, 4_525n]

const order = ({ database }: Shard, { account_id }: Account, price: Partial<CustomerPriceOrder>) =>
  setCustomerPrice(database, {
    id: nextId(),
    account_id,
    model: null,
    price_multiplier_bp: null,
    prices: null,
    from_at: null,
    until_at: null,
    actor: "test",
    reason: null,
    ...price,
  })

async function set(shard: Shard, account: Account, price: Partial<CustomerPriceOrder>) {
  const made = await order(shard, account, price)
  if (!("price" in made)) throw new Error(made.outcome)
  return made.price
}

const end = ({ database }: Shard, id: string, at: Date | null = null) =>
  endCustomerPrice(database, id, { at, actor: "test", reason: null })

async function ask({ connection, gateway_id }: Shard, account: Account, terms_id = FIRST, changes = {}) {
  const hold = holdOf(account, 10_000n, { terms_id, ...changes })
  const [result] = await holdBatch(connection, gateway_id, [hold], 300)
  return { hold, result }
}

async function ownTerms({ database }: Shard, id: string): Promise<number> {
  const terms = { family: "chat", model: "model", upstream: "first", price: OWN }
  const wanted = [{ ...terms, customer_price_id: id, list_terms_id: FIRST }]
  const [made] = await registerTerms(database, wanted)
  expect(await registerTerms(database, wanted)).toEqual([made ?? 0])
  return made ?? 0
}

describe("D100 the statement that holds", () => {
  test("holds only at the terms of the price that holds, and at no other model's", async () => {
    const account = await a.db.account(1_000_000n)
    expect((await ask(a, account)).result).toEqual({ outcome: "held" })
    const { id } = await set(a, account, { model: "model", prices: PRICES })
    const own = await ownTerms(a, id)
    expect((await ask(a, account)).result).toEqual({ outcome: "prices_changed" })
    expect((await ask(a, account, OTHER_MODEL)).result).toEqual({ outcome: "held", is_limited: true })
    expect((await ask(a, account, own)).result).toEqual({ outcome: "held", is_limited: true })
    await set(a, account, { model: "model", price_multiplier_bp: 20_000 })
    expect((await ask(a, account, own)).result).toEqual({ outcome: "prices_changed" })
    expect((await ask(a, account)).result).toMatchObject({ outcome: "held", price_multiplier_bp: 20_000 })
    expect((await ask(a, account, 987_654)).result).toEqual({ outcome: "prices_changed" })
    const other = await a.db.account(1_000_000n)
    expect((await ask(a, other)).result).toEqual({ outcome: "held" })
  })

  test("that waits while a price is set or ended is asked again", async () => {
    const account = await a.db.account(1_000_000n)
    const waiting = async (change: () => Promise<unknown>) => {
      const lock = await lockAccount(a.db.sql, account.account_id)
      const changing = change()
      await lockWaiters(a.db.sql, 1)
      const asking = holdBatch(a.connection, a.gateway_id, [holdOf(account, 10_000n)], 5_000)
      await lockWaiters(a.db.sql, 2)
      await lock.unlock()
      await changing
      return asking
    }
    const { id } = await set(a, account, { price_multiplier_bp: 15_000 })
    expect(await waiting(() => set(a, account, { price_multiplier_bp: 30_000 }))).toEqual([
      { outcome: "conflict" },
    ])
    expect((await ask(a, account)).result).toMatchObject({ price_multiplier_bp: 30_000 })
    const { data } = await listCustomerPrices(a.database, account.account_id, {
      limit: 10,
      after: null,
    })
    expect(data.map(({ state }) => state)).toEqual(["current", "replaced"])
    expect(await waiting(() => end(a, data[0]?.id ?? ""))).toEqual([{ outcome: "conflict" }])
    expect((await ask(a, account)).result).toMatchObject({ price_multiplier_bp: 15_000 })
    await end(a, id)
    expect((await ask(a, account)).result).toEqual({ outcome: "held", is_limited: true })
  })

  test("holds at no terms of a price that the database has lost, nor at lost terms", async () => {
    const account = await a.db.account(1_000_000n)
    const lost = [await ownTerms(a, nextId()), 987_654]
    for (const terms_id of lost)
      expect((await ask(a, account, terms_id, { is_limited: true })).result).toEqual({
        outcome: "prices_changed",
      })
    expect((await ask(a, account, FIRST, { is_limited: true })).result).toEqual({ outcome: "held" })
  })

  test("reads each price of an account, and its end, once", async () => {
    const account = await a.db.account(1_000_000n)
    const { id } = await set(a, account, { price_multiplier_bp: 15_000 })
    await a.db.sql`
      WITH old AS (
        INSERT INTO tollgate.customer_prices (id, account_id, price_multiplier_bp, from_at, actor, made_at)
        SELECT gen_random_uuid(), ${account.account_id}, 20000, now(), 'test', now() FROM generate_series(1, 500) RETURNING id)
      INSERT INTO tollgate.customer_prices (id, account_id, ended_id, from_at, actor, made_at)
      SELECT gen_random_uuid(), ${account.account_id}, id, now(), 'test', now() FROM old`
    await a.database.transaction(async (transaction) => {
      for (const question of [
        priceOfCall(sql`${account.account_id}::uuid`, sql`${FIRST}`),
        sql`SELECT ${pricesOfAccount(sql`${account.account_id}::uuid`)}::text AS prices`,
      ])
        expect(JSON.stringify(await transaction.execute(question))).toContain("15000")
      const [read] = await transaction.execute(sql`SELECT (seq_tup_read + idx_tup_fetch)::int AS rows
        FROM pg_stat_xact_user_tables WHERE relname = 'customer_prices'`)
      expect(read?.rows).toBeLessThan(5_000)
    })
    expect((await ask(a, account)).result).toMatchObject({ outcome: "held" })
    await end(a, id)
  })
})

describe("D100 a price", () => {
  test("that is ended before it begins is over, and one that is ended later is scheduled", async () => {
    const account = await a.db.account(1_000_000n)
    const later = (hours: number) => new Date(Date.now() + hours * 3_600_000)
    const { id } = await set(a, account, { price_multiplier_bp: 20_000, from_at: later(2) })
    expect(await end(a, id, later(3))).toMatchObject({ state: "scheduled" })
    expect(await end(a, id, later(1))).toMatchObject({ state: "over" })
  })

  test("that is over leaves room for another one", async () => {
    const account = await a.db.account(1_000_000n)
    const { id } = await set(a, account, { price_multiplier_bp: 20_000 })
    await a.db
      .sql`INSERT INTO tollgate.customer_prices (id, account_id, price_multiplier_bp, from_at, actor, made_at)
      SELECT gen_random_uuid(), ${account.account_id}, 20000, now(), 'test', now() FROM generate_series(2, 1000)`
    const price = { price_multiplier_bp: 30_000 }
    expect(await order(a, account, price)).toEqual({ outcome: "too_many" })
    await end(a, id)
    expect(await order(a, account, price)).toMatchObject({ outcome: "created" })
    expect(await order(a, account, price)).toEqual({ outcome: "too_many" })
  })

  test("whose id another account takes at the same time is a conflict", async () => {
    const [one, other] = [await a.db.account(1n), await a.db.account(1n)]
    const id = nextId()
    let conflict: ReturnType<typeof order> | undefined
    await a.db.sql.begin(async (tx) => {
      await tx`INSERT INTO tollgate.customer_prices (id, account_id, price_multiplier_bp, from_at, actor, made_at)
        VALUES (${id}, ${one.account_id}, 20000, now(), 'test', now())`
      conflict = order(a, other, { id, price_multiplier_bp: 30_000 })
      await lockWaiters(a.db.sql, 1)
    })
    expect(await conflict).toEqual({ outcome: "conflict" })
  })
})

test("D100 charges at customer terms are audited, and profit is less the cost at the configured terms", async () => {
  const account = await a.db.account(1_000_000n)
  const { id } = await set(a, account, { model: "model", prices: PRICES })
  const own = await ownTerms(a, id)
  const { hold } = await ask(a, account, own)
  await end(a, id)
  await endBatch(a.connection, [{ end: { ...settled(hold.id, OWN_COST), terms_id: own }, hold: null }], 300)
  const read = () =>
    sumUsage(
      a.database,
      {
        from: new Date(Date.now() - 3_600_000),
        to: new Date(Date.now() + 3_600_000),
        by: "model",
        account_ids: [account.account_id],
      },
      10,
    )
  const expected = { charge_nano: OWN_COST, profit_nano: OWN_COST - COST }
  expect((await read()).total).toMatchObject(expected)
  await sumHours(a.database, () => false)
  expect((await read()).total).toMatchObject(expected)
  expect((await audit(a.database, { settle_ms: 0 })).violations).toEqual([])
})

describe("D100 the audit finds", () => {
  const hold = (id: string, change: string) => `UPDATE tollgate.holds SET ${change} WHERE id = '${id}'`
  const price = (id: string, change: string) =>
    `UPDATE tollgate.customer_prices SET ${change} WHERE id = '${id}'`

  test("a call at the configured terms, before its price began, after it had ended, and at another account's", async () => {
    const changes: ((call: { id: string; price_id: string }) => string)[] = [
      ({ id }) => hold(id, `terms_id = ${FIRST}`),
      ({ price_id }) => price(price_id, "from_at = from_at + interval '1 hour'"),
      ({ price_id }) => price(price_id, "from_at = '2020-01-01', until_at = '2020-01-02'"),
      ({ price_id }) => price(price_id, "account_id = gen_random_uuid()"),
    ]
    const calls = await Promise.all(
      changes.map(async (change) => {
        const account = await a.db.account(1_000_000n)
        const { id: price_id } = await set(a, account, { model: "model", prices: PRICES })
        const own = await ownTerms(a, price_id)
        const { hold } = await ask(a, account, own)
        const end = { ...settled(hold.id, OWN_COST), terms_id: own }
        await endBatch(a.connection, [{ end, hold: null }], 300)
        return { change, id: hold.id, price_id, own, account_id: account.account_id }
      }),
    )
    const found = async () => {
      const { violations } = await audit(a.database, { settle_ms: 0 })
      return calls.map(({ id }) => violations.filter((one) => one.id === id).map(({ kind }) => kind))
    }
    expect(await found()).toEqual(calls.map(() => []))
    await falsify(a.db.sql, async (tx) => {
      for (const call of calls) await tx.unsafe(call.change(call))
    })
    expect(await found()).toEqual(calls.map(() => ["price"]))
    await falsify(a.db.sql, async (tx) => {
      for (const { id, price_id, own, account_id } of calls) {
        await tx.unsafe(hold(id, `terms_id = ${own}`))
        await tx.unsafe(price(price_id, `from_at = made_at, until_at = NULL, account_id = '${account_id}'`))
      }
    })
  })

  test("a call at another price multiplier than that of the price", async () => {
    const account = await a.db.account(1_000_000n)
    const { id } = await set(a, account, { price_multiplier_bp: 20_000 })
    await ask(a, account)
    const kinds = async () => (await audit(a.database, { settle_ms: 0 })).violations.map(({ kind }) => kind)
    expect(await kinds()).toEqual([])
    await falsify(a.db.sql, async (tx) => tx.unsafe(price(id, "price_multiplier_bp = 30000")))
    expect(await kinds()).toEqual(["price"])
    await falsify(a.db.sql, async (tx) => tx.unsafe(price(id, "price_multiplier_bp = 20000")))
  })
})

test("D100 an account moves with its prices, and is held by them on the other shard", async () => {
  const account = await a.db.account(1_000_000n)
  const { id } = await set(a, account, { model: "model", prices: PRICES })
  const ended = await set(a, account, { price_multiplier_bp: 12_000 })
  await end(a, ended.id)
  expect(await moveAccount(a, b, account.account_id, { rest_ms: 0 })).toEqual({
    outcome: "moved",
    differences: [],
  })
  expect(await getCustomerPrice(a.database, id)).toBeNull()
  expect(await getCustomerPrice(b.database, id)).toMatchObject({
    prices: PRICES,
    state: "current",
  })
  expect(await getCustomerPrice(b.database, ended.id)).toMatchObject({ end: { actor: "test" } })
  expect((await ask(b, account)).result).toEqual({ outcome: "prices_changed" })
  expect((await ask(b, account, await ownTerms(b, id))).result).toMatchObject({ outcome: "held" })
  const [standing] = await readStandings(b.connection, [account.key_id], 0)
  expect(standing).toMatchObject({ prices: [{ id, model: "model", prices: PRICES }] })
})

test("D100 the keys of an account share the list of its prices", async () => {
  const account = await a.db.account(1_000_000n)
  await set(a, account, { price_multiplier_bp: 20_000 })
  const owners = new Owners()
  const read = async (key_hash: string) => {
    const [standing] = await readStandings(a.connection, [account.key_id], 0)
    if (standing === undefined || standing === null || typeof standing === "string") throw new Error("no key")
    owners.note(key_hash, standing)
    return owners.get(key_hash)?.prices
  }
  const prices = await read("one")
  expect(prices).toMatchObject([{ price_multiplier_bp: 20_000 }])
  expect(await read("two")).toBe(prices)
  await set(a, account, { price_multiplier_bp: 30_000 })
  expect(await read("two")).toMatchObject([{ price_multiplier_bp: 30_000 }])
  expect(owners.get("one")?.prices).toBe(prices)
})
