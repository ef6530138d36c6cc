import { describe, expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import { accounts, credits } from "../../src/ledger/schema/tables.ts"
import { plantCall, refusal, testAdmin } from "./admin-harness.ts"

/** What an account had at a moment (D55). */

const account = nextId()
const NOON_MS = Date.parse("2026-03-01T12:00:00Z")
const at = (minutes: number) => new Date(NOON_MS + minutes * 60_000)

/** Half a minute after each entry, and before the first: balance and held. */
const HISTORY: readonly [minutes: number, what: string, balance: string, held: string][] = [
  [-1, "before its first credit", "0", "0"],
  [0, "after a credit", "0.0000001", "0"],
  [1, "while a call holds", "0.0000001", "0.00000004"],
  [2, "after it was settled", "0.00000007", "0"],
  [3, "while the next one holds", "0.00000007", "0.00000002"],
  [4, "after that expired", "0.000000068", "0"],
  [5, "after it was corrected", "0.000000064", "0"],
  [6, "after money was taken off", "0.000000054", "0"],
  [7, "while the last one holds", "0.000000054", "0.000000005"],
]

const adminApi = await testAdmin()
const { database } = adminApi
await database.insert(accounts).values([{ id: account, name: "a", balance_nano: 54n, held_nano: 5n }])
await database.insert(credits).values([
  { id: nextId(), account_id: account, amount_nano: 100n, created_at: at(0) },
  { id: nextId(), account_id: account, amount_nano: -10n, created_at: at(6) },
])
const call = { account_id: account }
const settled = { state: "settled", amount_nano: 40n, charge_nano: 30n }
await plantCall(database, { ...call, ...settled, held_at: at(1), ended_at: at(2) })
await plantCall(database, { ...call, account_id: nextId(), ...settled, held_at: at(1), ended_at: at(2) })
await plantCall(database, {
  ...call,
  state: "expired",
  amount_nano: 20n,
  charge_nano: 2n,
  held_at: at(3),
  ended_at: at(4),
  corrected: { charge_nano: 6n, corrected_at: at(5) },
})
await plantCall(database, { ...call, amount_nano: 5n, held_at: at(7) })

describe("D55 GET /admin/accounts/{id}/balance", () => {
  test.each(HISTORY)("minute %i, %s: %s USD, of which %s are held", async (minutes, _, balance, held) => {
    const moment = at(minutes + 0.5)
    const { status, body } = await adminApi.ask(
      "GET",
      `/admin/accounts/${account}/balance?at=${moment.toISOString()}`,
    )
    expect(status).toBe(200)
    const available = (BigInt(nanoOf(balance)) - BigInt(nanoOf(held))).toString()
    expect(body as unknown).toEqual({
      account_id: account,
      at: moment.toISOString(),
      balance,
      held,
      available: expect.any(String),
    })
    expect(nanoOf(body.available)).toBe(available)
  })

  test("a day is its first moment in UTC; now is what the account says", async () => {
    const day = await adminApi.ask("GET", `/admin/accounts/${account}/balance?at=2026-03-02`)
    expect(day.body as unknown).toMatchObject({ at: "2026-03-02T00:00:00.000Z", balance: "0.000000054" })
    const now = await adminApi.ask(
      "GET",
      `/admin/accounts/${account.toUpperCase()}/balance?at=${new Date().toISOString()}`,
    )
    const { body } = await adminApi.ask("GET", `/admin/accounts/${account}`)
    const { balance, held, available } = body
    expect(now.body as unknown).toMatchObject({ account_id: account, balance, held, available })
  })

  test.each([
    ["", "at"],
    ["?at=", "at"],
    ["?at=yesterday", "at"],
    ["?at=2026-02-30", "at"],
    ["?at=2999-01-01", "at"],
    ["?at=2026-03-01&at=2026-03-02", "at"],
    ["?at=2026-03-01&to=2026-03-02", null],
  ])("%p is 400", async (query, param) => {
    const reply = await adminApi.ask("GET", `/admin/accounts/${account}/balance${query}`)
    expect(refusal(reply)).toEqual({ status: 400, code: "invalid_request", param })
  })

  test.each([nextId(), "x"])("of no account (%s) it is 404", async (id) => {
    const reply = await adminApi.ask("GET", `/admin/accounts/${id}/balance?at=2026-03-01`)
    expect(refusal(reply)).toMatchObject({ status: 404, code: "not_found" })
  })
})

function nanoOf(usd: string): string {
  const [whole = "", fraction = ""] = usd.split(".")
  return BigInt(whole + fraction.padEnd(9, "0")).toString()
}
