import { expect, test } from "bun:test"
import fc from "fast-check"
import type { Hold } from "../../src/ledger/entries.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { expireBatch } from "../../src/ledger/money/expire.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { restoreBatch } from "../../src/ledger/money/restore.ts"
import { Auditor } from "./auditor.ts"
import {
  type Account,
  checkpointOf,
  holdOf,
  nth,
  released,
  settled,
  standings,
  testDatabase,
  writeCheckpoints,
} from "./test-database.ts"

/**
 * Random batches, one after the other over several connections: every answer and every entry is what the auditor says.
 */

const db = await testDatabase()

/** A step takes some calls, known or new, in any order and more than once. */
const picks = fc.array(fc.tuple(fc.nat(15), fc.bigInt(0n, 30n), fc.boolean()), {
  minLength: 1,
  maxLength: 8,
})
const kinds = fc.constantFrom("hold", "hold", "end", "expire", "checkpoint", "restore")
/** Whether an end says what it frees, as the lean statement needs it. */
const step: fc.Arbitrary<[string, [number, bigint, boolean][], boolean]> = fc.tuple(
  kinds,
  picks,
  fc.boolean(),
)
const history = fc.array(step, { minLength: 10, maxLength: 20 })

const all = (...indexes: number[]) => indexes.map((index): [number, bigint, boolean] => [index, 9n, false])
/** A history in which each kind of step meets calls in every state. */
const examples = [false, true].map((is_known): [[string, [number, bigint, boolean][], boolean][]] => [
  [
    ["hold", all(0, 1, 2, 3, 4, 5), false],
    ["hold", all(5, 6, 7), false],
    ["checkpoint", all(0, 1, 2), false],
    ["expire", all(1, 2, 8), false],
    ["checkpoint", all(1, 0), false],
    [
      "end",
      [[1, 3n, true], ...all(1, 1, 9), [1, 3n, true], [0, 30n, false], [0, 0n, false], [3, 0n, true]],
      is_known,
    ],
    [
      "end",
      [
        [2, 0n, false],
        [0, 8n, false],
        [3, 7n, false],
        [3, 7n, true],
      ],
      is_known,
    ],
    ["restore", all(4, 9), false],
    ["hold", all(9, 4, 3, 1), false],
    [
      "end",
      [
        [4, 60n, false],
        [9, 1n, false],
      ],
      is_known,
    ],
    ["expire", all(0, 1, 5, 9), false],
  ],
])

test("D55 the ledger and the auditor agree after every step", async () => {
  const connections = Array.from({ length: 3 }, () => db.connection())
  const gateway_id = await db.gateway()
  await fc.assert(
    fc.asyncProperty(history, async (steps) => {
      const accounts = [await db.account(100n), await db.account(40n)]
      const auditor = new Auditor()
      auditor.balances.set(nth(accounts, 0).account_id, 100n)
      auditor.balances.set(nth(accounts, 1).account_id, 40n)
      const calls: Hold[] = Array.from({ length: 16 }, (_, at) =>
        holdOf(nth(accounts, at % 2), BigInt(2 * at + 1)),
      )
      const pick = (at: number) => nth(calls, at % calls.length)

      for (const [at, [kind, picked, is_known]] of steps.entries()) {
        const connection = nth(connections, at % connections.length)
        const distinct = [...new Set(picked.map(([index]) => pick(index)))]
        const ids = distinct.map(({ id }) => id)
        if (kind === "hold") {
          const results = await holdBatch(connection, gateway_id, distinct, 300)
          expect(results.map(({ outcome }) => outcome)).toEqual(auditor.hold(distinct))
        } else if (kind === "end") {
          const ends = picked.map(([index, charge_nano, release]) =>
            release ? released(pick(index).id) : settled(pick(index).id, charge_nano),
          )
          const items = ends.map((end, place) => ({
            end,
            hold: is_known ? pick(nth(picked, place)[0]) : null,
          }))
          expect(await endBatch(connection, items, 300)).toEqual(auditor.end(ends))
        } else if (kind === "expire") {
          // A hold that is named twice expires once, and both are told so.
          const twice = [...distinct, ...distinct]
          const results = auditor.expire(ids)
          expect(await expireBatch(connection, twice, 300)).toEqual([...results, ...results])
        } else if (kind === "checkpoint") {
          const charges = ids.map((id, place) => checkpointOf(id, BigInt(place)))
          await writeCheckpoints(connection, gateway_id, ...charges)
          auditor.checkpoint(charges)
        } else {
          await restoreBatch(connection, gateway_id, distinct, 300)
          auditor.restore(distinct)
        }
        await agree(auditor, accounts)
      }
    }),
    { numRuns: 16, examples },
  )
})

async function agree(auditor: Auditor, accounts: readonly Account[]): Promise<void> {
  const said = new Map((await standings(db.sql)).map((at) => [at.account_id, at]))
  for (const { account_id } of accounts) {
    expect(said.get(account_id)).toEqual({
      account_id,
      balance_nano: auditor.balance(account_id),
      held_nano: auditor.held(account_id),
      journal_balance_nano: auditor.balance(account_id),
      journal_held_nano: auditor.held(account_id),
    })
  }
  const rows = await db.sql`
    SELECT h.id, h.account_id, h.amount_nano, e.outcome::text, e.charge_nano, e.freed_nano,
      c.charge_nano AS corrected_nano, c.difference_nano, c.notes
    FROM tollgate.holds h LEFT JOIN tollgate.ends e USING (id) LEFT JOIN tollgate.corrections c USING (id)
    WHERE h.account_id IN ${db.sql(accounts.map(({ account_id }) => account_id))} ORDER BY h.id`
  const expected = [...auditor.calls].sort(([one], [other]) => (one < other ? -1 : 1))
  expect([...rows]).toEqual(
    expected.map(([id, { account_id, amount_nano, end, correction }]) => ({
      id,
      account_id,
      amount_nano: String(amount_nano),
      outcome: end?.outcome ?? null,
      charge_nano: textOf(end?.charge_nano),
      freed_nano: end === null ? null : String(amount_nano),
      corrected_nano: textOf(correction?.charge_nano),
      difference_nano: textOf(correction?.difference_nano),
      notes: correction === null ? null : ["settled_late"],
    })),
  )
}

function textOf(nano: bigint | undefined): string | null {
  return nano === undefined ? null : String(nano)
}
