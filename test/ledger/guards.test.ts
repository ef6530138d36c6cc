import { describe, expect, test } from "bun:test"
import type { DatabaseConnection, Runner } from "../../src/ledger/database/connection.ts"
import { errorCode, kindOf } from "../../src/ledger/database/database-errors.ts"
import type { Row, Statement } from "../../src/ledger/database/statement.ts"
import type { End, Hold } from "../../src/ledger/entries.ts"
import {
  endLean,
  leanValues as endLeanValues,
  endLimited,
  limitedValues as endLimitedValues,
  endOne,
  oneValues as endOneValues,
} from "../../src/ledger/money/end.ts"
import { endExact, endExactly } from "../../src/ledger/money/end-exact.ts"
import { expire, expireBatch } from "../../src/ledger/money/expire.ts"
import {
  holdLean,
  holdLimited,
  holdOneKey,
  leanValues,
  limitedValues,
  oneKeyValues,
} from "../../src/ledger/money/hold.ts"
import { holdExact, holdExactly } from "../../src/ledger/money/hold-exact.ts"
import {
  type Account,
  falsify,
  holdOf,
  lockAccount,
  lockWaiters,
  settled,
  testDatabase,
  violations,
} from "./test-database.ts"
import { exact, lean, limited, one } from "./unguarded.ts"

/**
 * Each guard earns its place: under the same load the statement without it fails where the real one holds.
 */

const LOCK_MS = 5_000
const WITHIN_MS = 15_000

const db = await testDatabase()
const connections: [DatabaseConnection, DatabaseConnection] = [db.connection(), db.connection()]
const gateway_id = await db.gateway()

/** Runs this statement in place of the real one. */
function instead(real: Statement, variant: Statement, by: Runner): Runner {
  return {
    run: (statement, values, within_ms, size) =>
      by.run(statement === real ? variant : statement, values, within_ms, size),
  }
}

const hold = (statement: Statement, holds: readonly Hold[], by: Runner = connections[0]) =>
  holdExactly(instead(holdExact, statement, by), gateway_id, holds, LOCK_MS, WITHIN_MS)

const end = (statement: Statement, ends: readonly End[], by: Runner = connections[0]) =>
  endExactly(instead(endExact, statement, by), ends, LOCK_MS, WITHIN_MS)

/** Asks a form of the holding statement. Returns for how many accounts it holds. */
type HoldForm = (
  statement: Statement,
  holds: readonly Hold[],
  options?: { readonly by?: Runner; readonly under?: string },
) => Promise<number>

const exactly: HoldForm = async (statement, holds, { by } = {}) =>
  (await hold(statement, holds, by)).filter(({ outcome }) => outcome === "held").length

const together: HoldForm = (statement, holds, { by = connections[0], under = gateway_id } = {}) =>
  countAccounts(by.run(statement, leanValues(holds, under, LOCK_MS), WITHIN_MS))

const asLimited: HoldForm = async (statement, holds, { by = connections[0], under = gateway_id } = {}) => {
  await db.sql`UPDATE tollgate.accounts SET is_limited = true WHERE id IN ${db.sql(holds.map(({ account_id }) => account_id))} AND NOT is_limited`
  return countAccounts(by.run(statement, limitedValues(holds, under, LOCK_MS), WITHIN_MS))
}

/** Asks for the first one only. */
const alone: HoldForm = async (statement, [one], { by = connections[0], under = gateway_id } = {}) => {
  if (one === undefined) throw new Error("there is no hold")
  return (await by.run(statement, oneKeyValues(one, [one], under, LOCK_MS), WITHIN_MS)).length
}

/** Asks a form of the ending statement. Returns for how many accounts it ends these holds. */
type EndForm = (statement: Statement, holds: readonly Hold[], by?: Runner) => Promise<number>

/** Each is charged 1. */
const endsExactly: EndForm = async (statement, holds, by) =>
  (
    await end(
      statement,
      holds.map(({ id }) => settled(id, 1n)),
      by,
    )
  ).length

/** Each is charged 4. */
const endsTogether: EndForm = (statement, holds, by = connections[0]) => {
  const items = holds.map((hold) => ({ end: settled(hold.id, 4n), hold }))
  return countAccounts(by.run(statement, endLeanValues(items, LOCK_MS), WITHIN_MS))
}

const endsAsLimited: EndForm = async (statement, holds, by = connections[0]) => {
  const ends = holds.map(({ id }) => settled(id, 0n))
  return countAccounts(by.run(statement, endLimitedValues(ends, LOCK_MS), WITHIN_MS))
}

const endsAlone: EndForm = async (statement, [one], by = connections[0]) =>
  (await by.run(statement, endOneValues(settled(one?.id ?? "", 0n), LOCK_MS), WITHIN_MS)).length

async function countAccounts(rows: Promise<readonly Row[]>): Promise<number> {
  return Number((await rows)[0]?.accounts)
}

/** What became of a load: what is wrong in the ledger afterwards, or the error that ended it. */
async function wrongAfter(load: () => Promise<unknown>): Promise<string[]> {
  const failed = await load().then(
    () => [],
    (error: unknown) => [errorCode(error)],
  )
  const wrong = await violations(db.sql)
  await falsify(
    db.sql,
    (tx) =>
      tx`TRUNCATE tollgate.holds, tollgate.ends, tollgate.corrections, tollgate.credits, tollgate.accounts`,
  )
  return [...failed, ...wrong]
}

type Load = (statement: Statement) => Promise<unknown>
type Guard = [guard: string, real: Statement, variant: Statement, load: Load, fault: RegExp]

const HELD = /^held$/
const ENDED = /^ended$/
const SOLD_TWICE = /^balance 10, held 20$/
const DEADLOCK = /^40P01$/
const revoked = keyThat("revoked_at = now()")
const suspended = accountThat("suspended_at = now()")
const isLimited = accountThat("is_limited = true")

const guards: Guard[] = [
  ["exact: row lock", holdExact, exact.holdRowLock, race(exactly), SOLD_TWICE],
  ["exact: lock order of holds", holdExact, exact.holdLockOrder, cross(exactly), DEADLOCK],
  ["exact: lock order of ends", endExact, exact.endLockOrder, endWhileOthersHold(endsExactly), DEADLOCK],
  [
    "exact: sum of an account",
    holdExact,
    exact.holdAggregation,
    holdTwiceOfOneAccount,
    /^held \d, journal 7$/,
  ],
  ["exact: ended once", endExact, exact.endOnce, settleTwice, /^charge 9$/],
  ["exact: freed once", endExact, exact.endFreedOnce, settleAfterExpiry, /^held -?\d+, journal 6$|^23514$/],
  [
    "exact: account of a hold lost",
    holdExact,
    exact.holdWhole,
    losing("UPDATE", "accounts", holdOne(exactly)),
    /^held 0, journal 5$/,
  ],
  ["exact: account of an end lost", endExact, exact.endWhole, endLosing, /^held 5, journal 0$/],
  ["expiry: account lost", expire, exact.expireWhole, expireLosing, /^held 5, journal 0$/],

  ["lean: newest version", holdLean, lean.holdNewestVersion, race(together), SOLD_TWICE],
  ["lean: lock order of holds", holdLean, lean.holdLockOrder, cross(together), DEADLOCK],
  ["lean: lock order of ends", endLean, lean.endLockOrder, endWhileOthersHold(endsTogether), DEADLOCK],
  ["lean: keys", holdLean, lean.holdKeys, holdBeside(together, revoked), HELD],
  ["lean: suspended account", holdLean, lean.holdSuspension, holdBeside(together, suspended), HELD],
  ["lean: limited account", holdLean, lean.holdLimits, holdBeside(together, isLimited), HELD],
  ["lean: gateway", holdLean, lean.holdGateway, underTheDead(together), HELD],
  [
    "lean: hold lost",
    holdLean,
    lean.holdWhole,
    losing("INSERT", "holds", holdOne(together)),
    /^held 5, journal 0$/,
  ],
  ["lean: limited account of an end", endLean, lean.endLimits, endOfLimited(endsTogether), ENDED],
  ["lean: hold of an end missing", endLean, lean.endFreed, endLeanMissing, /^held 6, journal 11$/],
  ["lean: charge of an end lost", endLean, lean.endCharged, endLeanMischarged, /^balance 96, journal 100$/],

  ["limited: row lock", holdLimited, limited.holdRowLock, race(asLimited, isLimited), SOLD_TWICE],
  ["limited: lock order of holds", holdLimited, limited.holdLockOrder, cross(asLimited, isLimited), DEADLOCK],
  [
    "limited: lock order of ends",
    endLimited,
    limited.endLockOrder,
    endWhileOthersHold(endsAsLimited, isLimited),
    DEADLOCK,
  ],
  ["limited: keys", holdLimited, limited.holdKeys, holdBeside(asLimited, revoked), HELD],
  ["limited: suspended account", holdLimited, limited.holdSuspension, holdBeside(asLimited, suspended), HELD],
  ["limited: gateway", holdLimited, limited.holdGateway, underTheDead(asLimited), HELD],
  [
    "limited: hold lost",
    holdLimited,
    limited.holdWhole,
    losing("INSERT", "holds", holdOne(asLimited)),
    /^held 5, journal 0$/,
  ],
  ["limited: end lost", endLimited, limited.endWhole, endLimitedLosing, /^held 0, journal 5$/],

  ["one: newest version", holdOneKey, one.holdNewestVersion, race(alone), SOLD_TWICE],
  ["one: revocation", holdOneKey, one.holdRevocation, holdAlone(revoked), HELD],
  ["one: suspended key", holdOneKey, one.holdKeySuspension, holdAlone(keyThat("suspended_at = now()")), HELD],
  ["one: expiry of the key", holdOneKey, one.holdExpiry, holdAlone(keyThat("expires_at = now()")), HELD],
  ["one: models", holdOneKey, one.holdModels, holdAlone(keyThat("models = '{other}'")), HELD],
  [
    "one: the key's account",
    holdOneKey,
    one.holdKeysAccount,
    holdAlone(keyThat("account_id = gen_random_uuid()")),
    HELD,
  ],
  ["one: suspended account", holdOneKey, one.holdSuspension, holdAlone(suspended), HELD],
  ["one: limited account", holdOneKey, one.holdLimits, holdAlone(isLimited), HELD],
  ["one: gateway", holdOneKey, one.holdGateway, underTheDead(alone), HELD],
  [
    "one: hold lost",
    holdOneKey,
    one.holdWhole,
    losing("INSERT", "holds", holdOne(alone)),
    /^held 5, journal 0$/,
  ],
  ["one: limited account of an end", endOne, one.endLimits, endOfLimited(endsAlone), ENDED],
  ["one: end lost", endOne, one.endWhole, endOneLosing, /^held 0, journal 5$/],
  ["one: ended once", endOne, one.endOnce, settleTwiceAlone, /^held 1, journal 6$/],
  ["one: ended once, late", endOne, one.endOnce, settleLateAlone, /^held 1, journal 6$/],
]

describe.each(guards)("%s", (_, real, variant, load, fault) => {
  test("with it the ledger holds", async () => {
    expect(await wrongAfter(() => load(real))).toEqual([])
  })

  test("without it it does not", async () => {
    const wrong = await wrongAfter(() => load(variant))
    expect({ wrong, is_found: wrong.some((line) => fault.test(line)) }).toMatchObject({ is_found: true })
  })
})

/** Two statements that wait at the same account, which has enough for one of them. */
function race(form: HoldForm, prepare = asItIs): Load {
  return async (statement) => {
    const account = await db.account(10n)
    await prepare(account)
    await using lock = await lockAccount(db.sql, account.account_id)
    const racing = connections.map((by) => form(statement, [holdOf(account, 10n)], { by }))
    await lockWaiters(db.sql, 2)
    await lock.unlock()
    await Promise.all(racing)
  }
}

/** Two statements of the same two accounts in opposite orders, which both wait at the first of them. */
function cross(form: HoldForm, prepare = asItIs): Load {
  return async (statement) => {
    const [one, other] = await twoAccounts(prepare)
    await using lock = await lockAccount(db.sql, one.account_id)
    const crossing = [form(statement, [holdOf(one, 1n), holdOf(other, 1n)], { by: connections[0] })]
    await lockWaiters(db.sql, 1)
    crossing.push(form(statement, [holdOf(other, 1n), holdOf(one, 1n)], { by: connections[1] }))
    await lockWaiters(db.sql, 2)
    await lock.unlock()
    await allDone(crossing)
  }
}

/** Ends of two calls while others of their accounts are held. */
function endWhileOthersHold(form: EndForm, prepare = asItIs): Load {
  return async (statement) => {
    const accounts = await twoAccounts(prepare)
    const more = () => accounts.map((account) => holdOf(account, 1n))
    const holds = more()
    await hold(holdExact, holds)
    await using lock = await lockAccount(db.sql, accounts[0].account_id)
    const crossing: Promise<unknown>[] = [hold(holdExact, more())]
    await lockWaiters(db.sql, 1)
    crossing.push(form(statement, holds, connections[1]))
    await lockWaiters(db.sql, 2)
    await lock.unlock()
    await allDone(crossing)
  }
}

async function holdTwiceOfOneAccount(statement: Statement): Promise<void> {
  const account = await db.account(100n)
  await hold(statement, [holdOf(account, 3n), holdOf(account, 4n)])
}

/** An open hold of 5, alone in its account, and of 6 beside it, so that there is something to be freed a second time. */
async function heldOne({ beside = false } = {}): Promise<Hold> {
  const account = await db.account(100n)
  const made = holdOf(account, 5n)
  await hold(holdExact, beside ? [made, holdOf(account, 6n)] : [made])
  return made
}

/** A settlement, and another one of the same call that names another charge. */
async function settleTwice(statement: Statement): Promise<void> {
  const { id } = await heldOne()
  await end(statement, [settled(id, 4n)])
  await end(statement, [settled(id, 9n)])
  const [row] = await db.sql`SELECT charge_nano FROM tollgate.calls WHERE id = ${id}`
  if (row?.charge_nano !== "4") throw fault(`charge ${row?.charge_nano}`)
}

/** Two calls of one account; one of them expires and is settled late, while the other is open. */
async function settleAfterExpiry(statement: Statement): Promise<void> {
  const lost = await heldOne({ beside: true })
  await expireBatch(connections[0], [lost], LOCK_MS)
  await end(statement, [settled(lost.id, 4n)])
}

/** A call whose key or account does not allow it, as `spoil` makes it. */
function holdAlone(spoil: (account: Account) => Promise<unknown>): Load {
  return async (statement) => {
    const account = await db.account(10n)
    await spoil(account)
    if ((await alone(statement, [holdOf(account, 5n)])) === 1) throw fault("held")
  }
}

/** The same beside a call that may be held. */
function holdBeside(form: HoldForm, spoil: (account: Account) => Promise<unknown>): Load {
  return async (statement) => {
    const account = await db.account(10n)
    await spoil(account)
    const holds = [holdOf(account, 5n), holdOf(await db.account(10n), 5n)]
    if ((await form(statement, holds)) === 2) throw fault("held")
  }
}

function keyThat(change: string) {
  return ({ key_id }: Account) =>
    db.sql.unsafe(`UPDATE tollgate.keys SET ${change} WHERE id = '${key_id}'`).execute()
}

function accountThat(change: string) {
  return ({ account_id }: Account) =>
    db.sql.unsafe(`UPDATE tollgate.accounts SET ${change} WHERE id = '${account_id}'`).execute()
}

function underTheDead(form: HoldForm): Load {
  return async (statement) => {
    const under = await db.gateway()
    await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${under}`
    if ((await form(statement, [holdOf(await db.account(10n), 5n)], { under })) === 1) throw fault("held")
  }
}

function holdOne(form: HoldForm): Load {
  return async (statement) => form(statement, [holdOf(await db.account(10n), 5n)])
}

async function endLimitedLosing(statement: Statement): Promise<void> {
  const once = await heldOne()
  await isLimited(once)
  await losing("INSERT", "ends", () => endsAsLimited(statement, [once]))(statement)
}

async function endLosing(statement: Statement): Promise<void> {
  const { id } = await heldOne()
  await losing("UPDATE", "accounts", () => end(statement, [settled(id, 0n)]))(statement)
}

async function expireLosing(statement: Statement): Promise<void> {
  const lost = await heldOne()
  const by = instead(expire, statement, connections[0])
  await losing("UPDATE", "accounts", () => expireBatch(by, [lost], LOCK_MS))(statement)
}

/** Its end is lost, with no charge: the balance stays as it is. */
async function endOneLosing(statement: Statement): Promise<void> {
  const once = await heldOne()
  await losing("INSERT", "ends", () => endsAlone(statement, [once]))(statement)
}

function endOfLimited(form: EndForm): Load {
  return async (statement) => {
    const once = await heldOne()
    await isLimited(once)
    if ((await form(statement, [once])) === 1) throw fault("ended")
  }
}

/** An end of a hold that is not in the ledger, and of nothing else: the statement for a batch moves its sums. */
async function endLeanMissing(statement: Statement): Promise<void> {
  const { account_id, key_id } = await heldOne({ beside: true })
  const missing = holdOf({ account_id, key_id }, 5n)
  const items = [{ end: settled(missing.id, 0n), hold: missing }]
  await noticed(() => connections[0].run(statement, endLeanValues(items, LOCK_MS), WITHIN_MS))
}

/** The gateway has summed up another charge than the ends say. */
async function endLeanMischarged(statement: Statement): Promise<void> {
  const once = await heldOne()
  const values = endLeanValues([{ end: settled(once.id, 0n), hold: once }], LOCK_MS)
  await noticed(() => connections[0].run(statement, values.with(3, "{4}"), WITHIN_MS))
}

/** Does this while such rows get lost. */
function losing(what: string, table: string, work: Load): Load {
  return async (statement) => {
    await db.sql.unsafe(`
    CREATE OR REPLACE FUNCTION tollgate.lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
    CREATE TRIGGER losing BEFORE ${what} ON tollgate.${table} FOR EACH ROW EXECUTE FUNCTION tollgate.lose()`)
    await noticed(() => work(statement)).finally(() =>
      db.sql.unsafe(`DROP TRIGGER losing ON tollgate.${table}`),
    )
  }
}

/** The statement may fail at this, as one does that notices; then everything is undone. */
async function noticed(work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (kindOf(error) !== "incomplete") throw error
  }
}

/** Beside another call of the account, so that there is something to be freed a second time. */
async function settleTwiceAlone(statement: Statement): Promise<void> {
  const once = await heldOne({ beside: true })
  await end(endExact, [settled(once.id, 4n)])
  await refused(() => endsAlone(statement, [once]))
}

async function settleLateAlone(statement: Statement): Promise<void> {
  const lost = await heldOne({ beside: true })
  await expireBatch(connections[0], [lost], LOCK_MS)
  await refused(() => endsAlone(statement, [lost]))
}

/** The primary key may refuse it. */
async function refused(work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (errorCode(error) !== "23505") throw error
  }
}

function fault(code: string): Error {
  return Object.assign(new Error(), { code })
}

/** Waits for both, also when one of them fails. */
async function allDone(works: readonly Promise<unknown>[]): Promise<void> {
  const failed = (await Promise.allSettled(works)).find((end) => end.status === "rejected")
  if (failed !== undefined) throw failed.reason
}

async function asItIs(_account: Account): Promise<unknown> {
  return undefined
}

async function twoAccounts(prepare: (account: Account) => Promise<unknown>): Promise<[Account, Account]> {
  const one = await db.account(100n)
  const other = await db.account(100n)
  await prepare(one)
  await prepare(other)
  return one.account_id < other.account_id ? [one, other] : [other, one]
}
