import { afterAll, beforeAll, expect, test } from "bun:test"
import fc from "fast-check"
import { writeCheckpoints } from "../../src/ledger/journal/checkpoints.ts"
import { closeBatch } from "../../src/ledger/journal/end.ts"
import { expireBatch } from "../../src/ledger/journal/expire.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { reserveBatch } from "../../src/ledger/journal/hold.ts"
import { buryBatch } from "../../src/ledger/journal/tombstone.ts"
import { Auditor } from "./auditor.ts"
import { type Account, holdOf, openBooks, released, settled, standings, type TestBooks } from "./books.ts"

/**
 * Random batches, one after the other over several connections: every answer and every row is what the auditor says.
 */

let books: TestBooks

beforeAll(async () => {
  books = await openBooks()
})
afterAll(() => books.close())

/** A step takes some calls, known or new, in any order and more than once. */
const picks = fc.array(fc.tuple(fc.nat(60), fc.bigInt(0n, 30n), fc.boolean()), {
  minLength: 1,
  maxLength: 8,
})
const step = fc.tuple(fc.constantFrom("reserve", "reserve", "close", "expire", "checkpoint", "bury"), picks)
const history = fc.array(step, { minLength: 1, maxLength: 20 })

test("the books and the auditor agree after every step", async () => {
  const connections = Array.from({ length: 3 }, () => books.connection())
  const gateway_id = await books.gateway()
  await fc.assert(
    fc.asyncProperty(history, async (steps) => {
      const accounts = [await books.account(100n), await books.account(40n)]
      const auditor = new Auditor()
      auditor.balances.set(accounts[0]?.account_id ?? "", 100n)
      auditor.balances.set(accounts[1]?.account_id ?? "", 40n)
      const calls: Hold[] = Array.from({ length: 40 }, (_, at) =>
        holdOf(nth(accounts, at % 2), BigInt(2 * at)),
      )
      const pick = (at: number) => nth(calls, at % calls.length)

      for (const [at, [kind, picked]] of steps.entries()) {
        const connection = nth(connections, at % connections.length)
        const distinct = [...new Set(picked.map(([index]) => pick(index)))]
        const ids = distinct.map(({ id }) => id)
        if (kind === "reserve") {
          const results = await reserveBatch(connection, gateway_id, distinct, 300)
          expect(results.map(({ outcome }) => outcome)).toEqual(auditor.reserve(distinct))
        } else if (kind === "close") {
          const closings = picked.map(([index, charge_nano, release]) =>
            release ? released(pick(index).id) : settled(pick(index).id, charge_nano),
          )
          expect(await closeBatch(connection, closings, 300)).toEqual(auditor.close(closings))
        } else if (kind === "expire") {
          expect(await expireBatch(connection, distinct, 300)).toEqual(auditor.expire(ids))
        } else if (kind === "checkpoint") {
          const charges = ids.map((id, place) => ({
            id,
            charge_nano: BigInt(place),
            basis: "estimate" as const,
            usage: null,
          }))
          await writeCheckpoints(connection, charges)
          auditor.checkpoint(charges)
        } else {
          expect(await buryBatch(connection, gateway_id, distinct, 300)).toEqual(auditor.bury(distinct))
        }
        await agree(auditor, accounts)
      }
    }),
    { numRuns: 40 },
  )
})

async function agree(auditor: Auditor, accounts: readonly Account[]): Promise<void> {
  const said = new Map((await standings(books.sql)).map((at) => [at.account_id, at]))
  for (const { account_id } of accounts) {
    expect(said.get(account_id)).toEqual({
      account_id,
      balance_nano: auditor.balances.get(account_id) ?? 0n,
      held_nano: auditor.held(account_id),
      journal_balance_nano: auditor.balances.get(account_id) ?? 0n,
      journal_held_nano: auditor.held(account_id),
    })
  }
  const rows =
    await books.sql`SELECT id, state, charge_nano, checkpoint_nano, notes FROM tollgate.reservations
    WHERE account_id IN ${books.sql(accounts.map(({ account_id }) => account_id))} ORDER BY id`
  const expected = [...auditor.calls].sort(([one], [other]) => (one < other ? -1 : 1))
  expect([...rows]).toEqual(
    expected.map(([id, { state, charge_nano, checkpoint_nano, late }]) => ({
      id,
      state,
      charge_nano: charge_nano === null ? null : String(charge_nano),
      checkpoint_nano: String(checkpoint_nano),
      notes: late ? ["settled_late"] : [],
    })),
  )
}

function nth<Item>(list: readonly Item[], at: number): Item {
  const item = list[at]
  if (item === undefined) throw new Error(`there is no ${at}`)
  return item
}
