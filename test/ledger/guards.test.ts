import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { close, closeOne, closingValues } from "../../src/ledger/journal/end.ts"
import type { Connection } from "../../src/ledger/database/connection.ts"
import { expire } from "../../src/ledger/journal/expire.ts"
import type { Closing, Hold } from "../../src/ledger/entries.ts"
import { holdValues, reserve, reserveOne } from "../../src/ledger/journal/hold.ts"
import { batchOf, type Row, type Statement } from "../../src/ledger/database/statement.ts"
import { codeOf, troubleOf } from "../../src/ledger/database/errors.ts"
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

/** One call alone: whether it is held. */
async function isHeld(
  statement: Statement,
  hold: Hold,
  { by = connections[0], under = gateway_id } = {},
): Promise<boolean> {
  const rows = await by.run(statement, holdValues(hold, under, Number(PATIENCE)), WITHIN_MS)
  return rows.length === 1
}

/** One call alone: whether it is closed by this. */
async function isSettled(statement: Statement, closing: Closing): Promise<boolean> {
  const rows = await connections[0].run(statement, closingValues(closing, Number(PATIENCE)), WITHIN_MS)
  return rows.length === 1
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
  [
    "alone: newest version",
    reserveOne,
    unguarded.oneWithoutNewestVersion,
    raceAlone,
    /^balance 10, held 20$/,
  ],
  ["alone: revocation", reserveOne, unguarded.oneWithoutRevocation, holdWith("revoked_at = now()"), /^held$/],
  ["alone: expiry", reserveOne, unguarded.oneWithoutExpiry, holdWith("expires_at = now()"), /^held$/],
  ["alone: models", reserveOne, unguarded.oneWithoutModels, holdWith("models = '{other}'"), /^held$/],
  [
    "alone: the key's account",
    reserveOne,
    unguarded.oneWithoutKeysAccount,
    holdWith("account_id = gen_random_uuid()"),
    /^held$/,
  ],
  ["alone: gateway", reserveOne, unguarded.oneWithoutGateway, holdUnderTheDead, /^held$/],
  ["alone: reservation", reserveOne, unguarded.oneWithoutReservation, loseReservation, /^held 5, journal 0$/],
  ["alone: state, twice", closeOne, unguarded.oneWithoutState, settleTwiceAlone, /^held 1, journal 6$/],
  ["alone: state, late", closeOne, unguarded.oneWithoutState, settleLateAlone, /^held 1, journal 6$/],
  ["alone: payment", closeOne, unguarded.oneWithoutPayment, losePayment, /^held 5, journal 0$/],
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
  if (row?.charge_nano !== "4") throw fault(`charge ${row?.charge_nano}`)
}

/** Two calls of one account; one of them expires and is settled late, while the other is open. */
async function settleAfterExpiry(statement: Statement): Promise<void> {
  const account = await books.account(100n)
  const lost = holdOf(account, 5n)
  await hold(reserve, [lost, holdOf(account, 6n)])
  await connections[0].run(expire, [PATIENCE, batchOf([{ id: lost.id }])], WITHIN_MS)
  await settle(statement, [settled(lost.id, 4n)])
}

/** Two calls alone that wait at the same account, which has enough for one of them. */
async function raceAlone(statement: Statement): Promise<void> {
  const account = await books.account(10n)
  const lock = await lockAccount(books.sql, account.account_id)
  const racing = connections.map((by) => isHeld(statement, holdOf(account, 10n), { by }))
  await waiting(2)
  await lock.unlock()
  await Promise.all(racing)
}

/** A call whose key does not allow it. */
function holdWith(change: string): (statement: Statement) => Promise<void> {
  return async (statement) => {
    const account = await books.account(10n)
    await books.sql.unsafe(`UPDATE tollgate.keys SET ${change} WHERE id = '${account.key_id}'`)
    if (await isHeld(statement, holdOf(account, 5n))) throw fault("held")
  }
}

async function holdUnderTheDead(statement: Statement): Promise<void> {
  const under = await books.gateway()
  await books.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${under}`
  if (await isHeld(statement, holdOf(await books.account(10n), 5n), { under })) throw fault("held")
}

/** The division by zero undoes everything. */
async function loseReservation(statement: Statement): Promise<void> {
  const account = await books.account(10n)
  await losing("INSERT", "reservations", () => isHeld(statement, holdOf(account, 5n)))
}

async function losePayment(statement: Statement): Promise<void> {
  const account = await books.account(10n)
  const once = holdOf(account, 5n)
  await hold(reserve, [once])
  await losing("UPDATE", "accounts", () => isSettled(statement, settled(once.id, 4n)))
}

/** Does this while such rows get lost; it may fail at that, as a statement does that notices. */
async function losing(what: string, table: string, work: () => Promise<unknown>): Promise<void> {
  await books.sql.unsafe(`
    CREATE OR REPLACE FUNCTION tollgate.lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
    CREATE TRIGGER losing BEFORE ${what} ON tollgate.${table} FOR EACH ROW EXECUTE FUNCTION tollgate.lose()`)
  try {
    await work()
  } catch (error) {
    if (troubleOf(error) !== "incomplete") throw error
  } finally {
    await books.sql.unsafe(`DROP TRIGGER losing ON tollgate.${table}`)
  }
}

/** Beside another call of the account, so that there is something to be freed a second time. */
async function settleTwiceAlone(statement: Statement): Promise<void> {
  const account = await books.account(100n)
  const once = holdOf(account, 5n)
  await hold(reserve, [once, holdOf(account, 6n)])
  await isSettled(closeOne, settled(once.id, 4n))
  await isSettled(statement, settled(once.id, 4n))
}

async function settleLateAlone(statement: Statement): Promise<void> {
  const account = await books.account(100n)
  const lost = holdOf(account, 5n)
  await hold(reserve, [lost, holdOf(account, 6n)])
  await connections[0].run(expire, [PATIENCE, batchOf([{ id: lost.id }])], WITHIN_MS)
  await isSettled(statement, settled(lost.id, 4n))
}

function fault(code: string): Error {
  return Object.assign(new Error(), { code })
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
