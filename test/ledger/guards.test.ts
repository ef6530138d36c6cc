import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { close } from "../../src/ledger/close.ts"
import type { Connection } from "../../src/ledger/connection.ts"
import { expire } from "../../src/ledger/expire.ts"
import type { Closing, Hold } from "../../src/ledger/reservation.ts"
import { reserve } from "../../src/ledger/reserve.ts"
import { batchOf, type Row, type Statement } from "../../src/ledger/statement.ts"
import { codeOf } from "../../src/ledger/trouble.ts"
import { type Account, holdOf, lockAccount, openBooks, settled, type TestBooks, violations } from "./books.ts"
import * as unguarded from "./unguarded.ts"

/**
 * Each guard earns its place: under the same load the statement without it fails where the real one holds.
 */

const PATIENCE = "5000"
const WITHIN_MS = 15_000

let books: TestBooks
let connections: [Connection, Connection]
let gateway_id: string

beforeAll(async () => {
  books = await openBooks()
  connections = [books.connection(), books.connection()]
  gateway_id = await books.gateway()
})
afterAll(() => books.close())

function hold(statement: Statement, holds: readonly Hold[], by = connections[0]): Promise<readonly Row[]> {
  const batch = batchOf(holds.map(({ price, ...rest }) => ({ ...rest, ...price })))
  return by.run(statement, [PATIENCE, batch, gateway_id], WITHIN_MS)
}

function settle(
  statement: Statement,
  closings: readonly Closing[],
  by = connections[0],
): Promise<readonly Row[]> {
  const batch = batchOf(closings.map(({ usage, ...rest }) => ({ ...rest, ...usage })))
  return by.run(statement, [PATIENCE, batch], WITHIN_MS)
}

/** What became of a load: what the books say is wrong afterwards, or the error that ended it. */
async function wrongAfter(load: () => Promise<unknown>): Promise<string[]> {
  const failed = await load().then(
    () => [],
    (error: unknown) => [codeOf(error)],
  )
  const wrong = await violations(books.sql)
  await books.sql`DELETE FROM tollgate.reservations`
  await books.sql`DELETE FROM tollgate.credits`
  await books.sql`DELETE FROM tollgate.accounts`
  return [...failed, ...wrong]
}

const guards: [
  guard: string,
  real: Statement,
  variant: Statement,
  load: (statement: Statement) => Promise<unknown>,
  fault: RegExp,
][] = [
  ["row lock", reserve, unguarded.withoutRowLock, raceForOne, /^balance 10, held 20$/],
  ["lock order of reserves", reserve, unguarded.reserveWithoutLockOrder, crossInOppositeOrders, /^40P01$/],
  ["lock order of closings", close, unguarded.closeWithoutLockOrder, settleWhileOthersReserve, /^40P01$/],
  [
    "aggregation per account",
    reserve,
    unguarded.withoutAggregation,
    holdTwiceOfOneAccount,
    /^held \d, journal 7$/,
  ],
  ["state guard", close, unguarded.withoutStateGuard, settleTwice, /^charge 9$/],
  ["freed once", close, unguarded.withoutFreedOnce, settleAfterExpiry, /^held -?\d+, journal 6$|^23514$/],
]

describe.each(guards)("%s", (_, real, variant, load, fault) => {
  test("with it the books hold", async () => {
    expect(await wrongAfter(() => load(real))).toEqual([])
  })

  test("without it they do not", async () => {
    const wrong = await wrongAfter(() => load(variant))
    expect(wrong.some((line) => fault.test(line))).toBe(true)
  })
})

/** Two batches that wait at the same account, which has enough for one of them. */
async function raceForOne(statement: Statement): Promise<void> {
  const account = await books.account(10n)
  const lock = await lockAccount(books.sql, account.account_id)
  const racing = connections.map((by) => hold(statement, [holdOf(account, 10n)], by))
  await waiting(2)
  await lock.unlock()
  await Promise.all(racing)
}

/** Two batches of the same two accounts, in opposite orders, which both wait at the first of them. */
async function crossInOppositeOrders(statement: Statement): Promise<void> {
  const [one, other] = await twoAccounts()
  const lock = await lockAccount(books.sql, one.account_id)
  const crossing = [hold(statement, [holdOf(one, 1n), holdOf(other, 1n)], connections[0])]
  await waiting(1)
  crossing.push(hold(statement, [holdOf(other, 1n), holdOf(one, 1n)], connections[1]))
  await waiting(2)
  await lock.unlock()
  await allDone(crossing)
}

/** A batch of settlements and a batch of reserves of the same two accounts, which both wait at the first of them. */
async function settleWhileOthersReserve(statement: Statement): Promise<void> {
  const [one, other] = await twoAccounts()
  const calls = [holdOf(one, 1n), holdOf(other, 1n)]
  await hold(reserve, calls)
  const lock = await lockAccount(books.sql, one.account_id)
  const closings = calls.map(({ id }) => settled(id, 1n))
  const crossing = [hold(reserve, [holdOf(one, 1n), holdOf(other, 1n)], connections[0])]
  await waiting(1)
  crossing.push(settle(statement, closings, connections[1]))
  await waiting(2)
  await lock.unlock()
  await allDone(crossing)
}

async function holdTwiceOfOneAccount(statement: Statement): Promise<void> {
  const account = await books.account(100n)
  await hold(statement, [holdOf(account, 3n), holdOf(account, 4n)])
}

/** A settlement, and another one of the same call that names another charge. */
async function settleTwice(statement: Statement): Promise<void> {
  const account = await books.account(100n)
  const once = holdOf(account, 5n)
  await hold(reserve, [once])
  await settle(statement, [settled(once.id, 4n)])
  await settle(statement, [settled(once.id, 9n)])
  const [row] = await books.sql`SELECT charge_nano FROM tollgate.reservations WHERE id = ${once.id}`
  if (row?.charge_nano !== "4") throw Object.assign(new Error(), { code: `charge ${row?.charge_nano}` })
}

/** Two calls of one account; one of them expires and is settled late, while the other is open. */
async function settleAfterExpiry(statement: Statement): Promise<void> {
  const account = await books.account(100n)
  const lost = holdOf(account, 5n)
  await hold(reserve, [lost, holdOf(account, 6n)])
  await connections[0].run(expire, [PATIENCE, batchOf([{ id: lost.id }])], WITHIN_MS)
  await settle(statement, [settled(lost.id, 4n)])
}

/** Waits for both, also when one of them fails. */
async function allDone(works: readonly Promise<unknown>[]): Promise<void> {
  const failed = (await Promise.allSettled(works)).find((end) => end.status === "rejected")
  if (failed !== undefined) throw failed.reason
}

async function twoAccounts(): Promise<[Account, Account]> {
  const one = await books.account(100n)
  const other = await books.account(100n)
  return one.account_id < other.account_id ? [one, other] : [other, one]
}

/** Resolves when so many of our statements wait for a lock. */
async function waiting(count: number): Promise<void> {
  for (;;) {
    const [row] = await books.sql`SELECT count(*)::int AS waiting FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`
    if (row?.waiting >= count) return
  }
}
