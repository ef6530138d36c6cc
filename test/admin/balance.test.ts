import { describe, expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import { accounts, credits } from "../../src/ledger/schema/tables.ts"
import { plantCall, testAdmin } from "./admin-harness.ts"

/** What an account had at a moment (D55). test/ledger/balance.test.ts computes it for any history. */

const account = nextId()
const NOON = new Date("2026-03-01T12:00:00Z")

const adminApi = await testAdmin()
const { database } = adminApi
await database.insert(accounts).values([{ id: account, name: "a", balance_nano: 54n, held_nano: 5n }])
await database
  .insert(credits)
  .values([{ id: nextId(), account_id: account, amount_nano: 54n, created_at: NOON }])
await plantCall(database, { account_id: account, amount_nano: 5n, held_at: NOON })

describe("D55 GET /admin/accounts/{id}/balance", () => {
  test("a day is its first moment in UTC; now is what the account says", async () => {
    const ask = (at: string) =>
      adminApi.ask("GET", `/admin/accounts/${account.toUpperCase()}/balance?at=${at}`)
    const amounts = { balance: "0.000000054", held: "0.000000005", available: "0.000000049" }
    const before = { account_id: account, balance: "0", held: "0", available: "0" }
    expect((await ask("2026-03-01")).body as unknown).toEqual({ ...before, at: "2026-03-01T00:00:00.000Z" })
    const day = { account_id: account, at: "2026-03-02T00:00:00.000Z", ...amounts }
    expect((await ask("2026-03-02")).body as unknown).toEqual(day)
    expect((await ask(new Date().toISOString())).body as unknown).toMatchObject(amounts)
    expect((await adminApi.ask("GET", `/admin/accounts/${account}`)).body as unknown).toMatchObject(amounts)
  })
})
