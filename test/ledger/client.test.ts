import { expect, test } from "bun:test"
import { LedgerBusy } from "../../src/ledger/entries.ts"
import { openClientReports } from "../../src/ledger/reports/client.ts"
import { testDatabase } from "./test-database.ts"

const db = await testDatabase()
const account = await db.account(1_000n)

const RANGE = { from: new Date(0), to: new Date(86_400_000), by: "day" } as const

test("D47, D48 sums wait for one another, so many and no more; receipts and balances do not wait for them", async () => {
  const reports = openClientReports([db.database])
  const locked = Promise.withResolvers<void>()
  const unlock = Promise.withResolvers<void>()
  const holding = db.sql.begin(async (transaction) => {
    await transaction`LOCK TABLE tollgate.ends IN ACCESS EXCLUSIVE MODE`
    locked.resolve()
    await unlock.promise
  })
  await locked.promise
  const usage = (account_id = account.account_id) => reports.usage(account_id, RANGE)
  const waiting = Array.from({ length: 4 }, () => usage())
  expect(await usage().catch((error: unknown) => error)).toBeInstanceOf(LedgerBusy)
  waiting.push(...Array.from({ length: 28 }, () => usage(crypto.randomUUID())))
  expect(await usage(crypto.randomUUID()).catch((error: unknown) => error)).toBeInstanceOf(LedgerBusy)
  expect(await reports.holder({ ...account, shard: 0 })).toMatchObject({
    account: { id: account.account_id, balance_nano: 1_000n },
    key: { id: account.key_id },
  })
  unlock.resolve()
  await holding
  for (const { total } of await Promise.all(waiting)) expect(total.calls).toBe(0)
  expect((await usage()).total.calls).toBe(0)
})
