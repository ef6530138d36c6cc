import { expect, test } from "bun:test"
import fc from "fast-check"
import { credit } from "../../src/ledger/accounts/credits.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { restoreBatch } from "../../src/ledger/money/restore.ts"
import { balanceAt, type PastBalance } from "../../src/ledger/reports/balance.ts"
import {
  type Account,
  checkpointOf,
  holdOf,
  released,
  settled,
  testGateway,
  writeCheckpoints,
} from "./test-database.ts"

/** D55: every entry has the ledger's time, so what an account had at any moment can be computed. */

const { db, connection, gateway_id, ask, end, expire } = await testGateway()

const step = fc.record({
  act: fc.constantFrom("hold", "hold", "hold", "settle", "settle", "release", "expire", "restore", "credit"),
  which: fc.nat(30),
  nano: fc.bigInt(1n, 60n),
})

interface Observation extends PastBalance {
  readonly at: Date
}

/** What stands on the account at a moment; what comes later is after it, to the millisecond that a `Date` can tell. */
async function observe({ account_id }: Account): Promise<Observation> {
  const [row] = await db.sql`SELECT balance_nano, held_nano,
      date_trunc('milliseconds', clock_timestamp()) + interval '1 ms' AS at
    FROM tollgate.accounts WHERE id = ${account_id}`
  await db.sql`SELECT pg_sleep_until(${row?.at} + interval '1 ms')`
  return { at: row?.at, balance_nano: BigInt(row?.balance_nano), held_nano: BigInt(row?.held_nano) }
}

test("D55 the balance and the held amount at any past moment are what was observed then", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
      const account = await db.account(500n)
      const neighbour = await db.account(500n)
      const holds: Hold[] = []
      const observed = [await observe(account)]
      for (const { act, which, nano } of steps) {
        const hold = holds[which % Math.max(holds.length, 1)]
        if (act === "hold") {
          const asked = [holdOf(account, nano), holdOf(neighbour, nano)]
          await ask(...asked)
          holds.push(...asked.slice(0, 1))
        } else if (act === "credit") {
          const { account_id } = account
          const order = { id: crypto.randomUUID(), account_id, amount_nano: nano - 30n, reason: null }
          await credit(db.database.operators, order)
        } else if (act === "restore") {
          await restoreBatch(connection, gateway_id, [holdOf(account, nano)], 300)
        } else if (hold === undefined) {
          continue
        } else if (act === "expire") {
          await writeCheckpoints(connection, gateway_id, checkpointOf(hold.id, nano))
          await expire(hold)
        } else {
          // A settlement may come late, and add a correction.
          await end(act === "settle" ? settled(hold.id, nano) : released(hold.id))
        }
        observed.push(await observe(account))
      }
      const computed = await Promise.all(
        observed.map(async ({ at }) => ({
          at,
          ...(await balanceAt(db.database.receipts, account.account_id, at)),
        })),
      )
      expect(computed).toEqual(observed)
    }),
    { numRuns: 8, endOnFailure: true },
  )
})

test("D55 before its first entry an account had nothing, in the future it has what it has, and nobody has nothing", async () => {
  const [row] = await db.sql`SELECT now() - interval '1 hour' AS before, now() + interval '1 hour' AS after`
  const account = await db.account(77n)
  await ask(holdOf(account, 7n))
  const at = (moment: Date, id = account.account_id) => balanceAt(db.database.receipts, id, moment)
  expect(await at(row?.before)).toEqual({ balance_nano: 0n, held_nano: 0n })
  expect(await at(row?.after)).toEqual({ balance_nano: 77n, held_nano: 7n })
  expect(await at(row?.after, crypto.randomUUID())).toBeNull()
})
