import { expect, test } from "bun:test"
import { LedgerBusy, NoAnswer } from "../../src/ledger/entries.ts"
import { openClientReports } from "../../src/ledger/reports/client.ts"
import { MAX_GROUPS } from "../../src/ledger/reports/usage-sums.ts"
import { openTransaction, testDatabase } from "./test-database.ts"

const db = await testDatabase()
const account = await db.account(1_000n)
const other = await db.account(2_000n)

const RANGE = { from: new Date(0), to: new Date(86_400_000), by: "day" } as const

/** Locks a table until the returned function is called. */
async function locked(table: string): Promise<() => Promise<void>> {
  const lock = `LOCK TABLE tollgate.${table} IN ACCESS EXCLUSIVE MODE`
  return (await openTransaction(db.sql, (tx) => tx.unsafe(lock))).commit
}

test("D47, D78 of one account so many balances and receipts wait, and another account does not wait for them", async () => {
  const reports = openClientReports([db.database])
  const unlock = await locked("accounts")
  const ended: string[] = []
  const read = async ({ account_id, key_id }: typeof account) => {
    const holder = await reports.holder({ account_id, key_id, shard: 0 })
    ended.push(holder.account.id)
  }
  // The last ones may be too late on a busy machine.
  const waiting = Promise.allSettled(Array.from({ length: 128 }, () => read(account)))
  expect(await read(account).catch((error: unknown) => error)).toBeInstanceOf(LedgerBusy)
  const busy = await reports.call(account.account_id, crypto.randomUUID()).catch((error: unknown) => error)
  expect(busy).toBeInstanceOf(LedgerBusy)
  const modest = read(other)
  await unlock()
  await modest
  expect(ended.indexOf(other.account_id)).toBeLessThan(6)
  for (const one of await waiting) if (one.status === "rejected") expect(one.reason).toBeInstanceOf(NoAnswer)
  await read(account)
})

test("D47, D48 sums wait for one another, so many and no more; receipts and balances do not wait for them", async () => {
  const reports = openClientReports([db.database])
  const unlock = await locked("ends")
  const usage = (account_id = account.account_id) =>
    reports.usage(account_id, RANGE, MAX_GROUPS, async () => {})
  const waiting = Array.from({ length: 4 }, () => usage())
  expect(await usage().catch((error: unknown) => error)).toBeInstanceOf(LedgerBusy)
  waiting.push(...Array.from({ length: 28 }, () => usage(crypto.randomUUID())))
  expect(await usage(crypto.randomUUID()).catch((error: unknown) => error)).toBeInstanceOf(LedgerBusy)
  expect(await reports.holder({ ...account, shard: 0 })).toMatchObject({
    account: { id: account.account_id, balance_nano: 1_000n },
    key: { id: account.key_id },
  })
  await unlock()
  for (const { total } of await Promise.all(waiting)) expect(total.calls).toBe(0)
  expect((await usage()).total.calls).toBe(0)
})
