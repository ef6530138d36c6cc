import { describe, expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import {
  endCustomerPrice,
  listCustomerPrices,
  setCustomerPrice,
} from "../../src/ledger/accounts/customer-prices.ts"
import type { PriceOfList } from "../../src/ledger/entries.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { moveAccount } from "../../src/ledger/moves/moves.ts"
import { DEADLINES, operatorLedger } from "../../src/ledger/operators.ts"
import { type Account, holdOf } from "./test-database.ts"
import { type Shard, twoShards } from "./two-shards.ts"

/** D110: prices that accounts share, which are customer prices of each (D100). */

const [a, b] = await twoShards()
const ledger = operatorLedger([a, b], { ...DEADLINES, deadline_ms: 10_000 })

const by = { actor: "test", reason: "Contract" }
const at = (price_multiplier_bp: number, model: string | null = null): PriceOfList => ({
  model,
  price_multiplier_bp,
  prices: null,
})

async function made(prices: readonly PriceOfList[]) {
  const result = await ledger.createPriceList({ name: nextId(), prices, ...by })
  if (!("list" in result)) throw new Error(result.outcome)
  return result.list
}

async function change(list_id: string, prices: readonly PriceOfList[], id = nextId()) {
  const result = await ledger.changePriceList({ id, list_id, prices, ...by })
  if (!("list" in result)) throw new Error(result.outcome)
  let after: string | null = null
  do after = (await ledger.updateAssignments(result.list, after)).next
  while (after !== null)
  return result
}

async function assign(
  list: Awaited<ReturnType<typeof made>>,
  { account_id }: Account,
  span: { readonly from_at?: Date; readonly until_at?: Date; readonly id?: string } = {},
) {
  const order = { account_id, from_at: null, until_at: null, ...span, ...by }
  const result = await ledger.assignPriceList(list, order)
  if (!("assignment" in result)) throw new Error(result.outcome)
  return result.assignment
}

/** The multiplier at which a call to `model` is held now; undefined for the configured price. */
async function heldAt({ connection, gateway_id }: Shard, account: Account) {
  const [result] = await holdBatch(connection, gateway_id, [holdOf(account, 100n)], 300)
  if (result?.outcome !== "held") throw new Error(JSON.stringify(result))
  return result.price_multiplier_bp
}

/** Entries about prices of the account. */
const entries = async ({ db }: Shard, { account_id }: Account) =>
  (await db.sql`SELECT FROM tollgate.customer_prices WHERE account_id = ${account_id}`).length
const hours = (count: number) => new Date(Date.now() + count * 3_600_000)

describe("D110 a price list", () => {
  test("that is changed is changed for its accounts of all shards, once, and keeps what is the same", async () => {
    const accounts = [
      [a, await a.db.account(10_000n)],
      [b, await b.db.account(10_000n)],
    ] as const
    const list = await made([at(9_000), at(20_000, "other")])
    for (const [, account] of accounts) await assign(list, account)
    const held = () => Promise.all(accounts.map(([shard, account]) => heldAt(shard, account)))
    expect(await held()).toEqual([9_000, 9_000])
    const [id, prices] = [nextId(), [at(8_000), at(20_000, "other"), at(15_000, "model")]]
    expect(await change(list.id, prices, id)).toMatchObject({ outcome: "created", list: { version: 2 } })
    expect(await held()).toEqual([15_000, 15_000])
    expect(await ledger.countAssignments((await ledger.getPriceList(list.id)) ?? list)).toEqual({
      assigned: 2,
      pending: 0,
    })
    // Two prices of the assignment, an end, and two new ones: the price of `other` stays.
    expect(await Promise.all(accounts.map((one) => entries(...one)))).toEqual([5, 5])
    expect(await change(list.id, prices, id)).toMatchObject({ outcome: "known", list: { version: 2 } })
    expect(await Promise.all(accounts.map((one) => entries(...one)))).toEqual([5, 5])
  })

  test("whose change was interrupted says how many accounts wait, and a repetition goes on", async () => {
    const account = await b.db.account(10_000n)
    const list = await made([at(9_000)])
    await assign(list, account)
    const order = { id: nextId(), list_id: list.id, prices: [at(8_000)], ...by }
    const { list: newer } = { list, ...(await ledger.changePriceList(order)) }
    expect(await ledger.countAssignments(newer)).toEqual({ assigned: 1, pending: 1 })
    expect(await heldAt(b, account)).toBe(9_000)
    await change(list.id, order.prices, order.id)
    expect(await ledger.countAssignments(newer)).toEqual({ assigned: 1, pending: 0 })
    expect(await heldAt(b, account)).toBe(8_000)
  })

  test("has a name that no other has, and its id no other change", async () => {
    const list = await made([at(9_000)])
    const same = { ...by, name: list.name, prices: list.prices }
    expect(await ledger.createPriceList(same)).toEqual({ outcome: "name_taken" })
    expect(await ledger.createPriceList({ ...same, id: list.id })).toMatchObject({ outcome: "known" })
    const other = await made([at(9_000)])
    const stolen = { id: list.id, list_id: other.id, prices: [at(1)], ...by }
    expect(await ledger.changePriceList(stolen)).toEqual({ outcome: "conflict" })
    expect(await ledger.changePriceList({ ...stolen, id: nextId(), list_id: nextId() })).toEqual({
      outcome: "no_list",
    })
    const { data } = await ledger.listPriceLists({ limit: 2, after: null })
    expect(data.map(({ id }) => id)).toEqual([other.id, list.id])
  })
})

describe("D110 an assignment", () => {
  test("comes after the account's own price for the model, and before an older assignment", async () => {
    const account = await a.db.account(10_000n)
    const set = { account_id: account.account_id, prices: null, from_at: null, until_at: null, ...by }
    const own = await setCustomerPrice(a.database, { id: nextId(), ...set, ...at(11_000) })
    await assign(await made([at(9_000)]), account)
    expect(await heldAt(a, account)).toBe(11_000)
    await assign(await made([at(7_000, "model")]), account)
    expect(await heldAt(a, account)).toBe(7_000)
    const last = await assign(await made([at(6_000, "model")]), account)
    expect(await heldAt(a, account)).toBe(6_000)
    expect(await ledger.endAssignment(last.id, { at: null, ...by })).toMatchObject({ state: "over" })
    expect(await heldAt(a, account)).toBe(7_000)
    if (!("price" in own)) throw new Error(own.outcome)
    const { data } = await listCustomerPrices(a.database, account.account_id, {
      limit: 9,
      after: null,
    })
    expect(data.map(({ state }) => state)).toEqual(["over", "current", "replaced", "current"])
    const listed = data.find(({ price_list_id }) => price_list_id !== null)?.id ?? ""
    expect(await endCustomerPrice(a.database, listed, { at: null, ...by })).toBe("of_list")
  })

  test("keeps its beginning and its end when the list is changed", async () => {
    const account = await a.db.account(10_000n)
    const list = await made([at(9_000)])
    const [later, soon] = [{ from_at: hours(1), until_at: hours(3) }, { until_at: hours(2) }]
    const ids = [(await assign(list, account, later)).id, (await assign(list, account, soon)).id]
    await ledger.endAssignment(ids[0] ?? "", { at: hours(2), ...by })
    const { list: newer } = await change(list.id, [at(8_000)])
    expect(await heldAt(a, account)).toBe(8_000)
    const { data } = await ledger.listAssignments(newer, { limit: 9, after: null })
    expect(data.map(({ id }) => id)).toEqual(ids.toReversed())
    expect(data[1]).toMatchObject({ state: "scheduled", from_at: later.from_at, is_pending: false })
    expect(data[0]).toMatchObject({ state: "current", until_at: soon.until_at, is_pending: false })
    const open = await a.db
      .sql`SELECT from_at, until_at FROM tollgate.customer_prices p WHERE account_id = ${account.account_id}
      AND price_multiplier_bp = 8000 ORDER BY from_at`
    expect(open[1]?.from_at).toEqual(later.from_at)
    // The end by an operator is the end of the new price, too.
    expect(open[1]?.until_at.getTime()).toBeLessThan(hours(2.5).getTime())
    await ledger.endAssignment(ids[1] ?? "", { at: null, ...by })
    expect(await heldAt(a, account)).toBeUndefined()
  })

  test("is made once, and not in the past, nor twice by one id", async () => {
    const [account, other] = [await a.db.account(10_000n), await b.db.account(10_000n)]
    const list = await made([at(9_000)])
    const order = { id: nextId(), account_id: account.account_id, from_at: null, until_at: null, ...by }
    expect(await ledger.assignPriceList(list, order)).toMatchObject({ outcome: "created" })
    expect(await ledger.assignPriceList(list, order)).toMatchObject({ outcome: "known" })
    expect(await entries(a, account)).toBe(1)
    expect(await ledger.assignPriceList(list, { ...order, account_id: other.account_id })).toEqual({
      outcome: "conflict",
    })
    const past = { ...order, id: nextId(), from_at: hours(-1) }
    expect(await ledger.assignPriceList(list, past)).toEqual({ outcome: "past" })
    expect(await ledger.assignPriceList(list, { ...order, id: nextId(), account_id: nextId() })).toEqual({
      outcome: "no_account",
    })
  })

  test("moves with its account, and the list goes on changing it", async () => {
    const account = await a.db.account(10_000n)
    const list = await made([at(9_000)])
    await assign(list, account)
    expect(await moveAccount(a, b, account.account_id, { rest_ms: 0 })).toEqual({
      outcome: "moved",
      differences: [],
    })
    expect(await ledger.countAssignments(list)).toEqual({ assigned: 1, pending: 0 })
    await change(list.id, [at(8_000)])
    expect(await heldAt(b, account)).toBe(8_000)
  })
})
