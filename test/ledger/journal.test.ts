import { afterAll, beforeAll, expect, test } from "bun:test"
import { openJournal } from "../../src/ledger/reports/client.ts"
import { type Account, openBooks, type TestBooks } from "./books.ts"

let books: TestBooks
let account: Account

beforeAll(async () => {
  books = await openBooks()
  account = await books.account(1_000n)
})
afterAll(() => books.close())

const range = () => ({
  account_id: account.account_id,
  from: new Date(0),
  to: new Date(86_400_000),
  by: "day" as const,
})

test("D47, D48 sums wait for one another, so many and no more; receipts and balances do not wait for them", async () => {
  const { receipts, sums } = books.database
  const journal = openJournal(receipts, sums)
  const locked = Promise.withResolvers<void>()
  const unlock = Promise.withResolvers<void>()
  const holding = books.sql.begin(async (transaction) => {
    await transaction`LOCK TABLE tollgate.reservations IN ACCESS EXCLUSIVE MODE`
    locked.resolve()
    await unlock.promise
  })
  await locked.promise
  const waiting = Array.from({ length: 4 }, () => journal.usage(range()))
  expect(await journal.usage(range()).catch((error) => error)).toMatchObject({ code: "overloaded" })
  const others = Array.from({ length: 28 }, () => ({ ...range(), account_id: crypto.randomUUID() }))
  waiting.push(...others.map((other) => journal.usage(other)))
  const late = { ...range(), account_id: crypto.randomUUID() }
  expect(await journal.usage(late).catch((error) => error)).toMatchObject({ code: "overloaded" })
  expect(await journal.holder(account.account_id, account.key_id)).toMatchObject({
    account: { id: account.account_id, balance_nano: 1_000n },
    key: { id: account.key_id },
  })
  unlock.resolve()
  await holding
  for (const { total } of await Promise.all(waiting)) expect(total.calls).toBe(0)
  expect((await journal.usage(range())).total.calls).toBe(0)
})
