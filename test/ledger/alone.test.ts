import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import fc from "fast-check"
import { nextId } from "../../src/id.ts"
import { writeCheckpoints } from "../../src/ledger/journal/checkpoints.ts"
import { type Closed, closeBatch } from "../../src/ledger/journal/end.ts"
import type { Connection } from "../../src/ledger/database/connection.ts"
import { expireBatch } from "../../src/ledger/journal/expire.ts"
import type { Closing, Hold } from "../../src/ledger/entries.ts"
import { type Reserved, reserve, reserveBatch, reserveOne } from "../../src/ledger/journal/hold.ts"
import { statement } from "../../src/ledger/database/statement.ts"
import { buryBatch } from "../../src/ledger/journal/tombstone.ts"
import { codeOf, Overdue, troubleOf } from "../../src/ledger/database/errors.ts"
import { takes } from "../support/fair-clock.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import {
  type Account,
  call,
  holdOf,
  lockAccount,
  openBooks,
  released,
  settled,
  type TestBooks,
  violations,
} from "./books.ts"

/** One call alone goes by short statements: whatever happens, it comes out as in a batch. */

const PATIENCE_MS = 300

let books: TestBooks
let connection: Connection
let alive_id: string
let dead_id: string

beforeAll(async () => {
  books = await openBooks()
  connection = books.connection()
  alive_id = await books.gateway()
  dead_id = await books.gateway()
  await books.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${dead_id}`
})
afterAll(() => books.close())

/** A way to ask for one call. */
interface Way {
  reserve(gateway_id: string, hold: Hold): Promise<Reserved | undefined>
  close(closing: Closing): Promise<Closed | undefined>
}

const alone: Way = {
  reserve: async (gateway_id, hold) => (await reserveBatch(connection, gateway_id, [hold], PATIENCE_MS))[0],
  close: async (closing) => (await closeBatch(connection, [closing], PATIENCE_MS))[0],
}

/** Beside calls that nobody knows, which change nothing. */
const inBatch: Way = {
  async reserve(gateway_id, hold) {
    const nobody = { account_id: crypto.randomUUID(), key_id: crypto.randomUUID() }
    return (await reserveBatch(connection, gateway_id, [hold, holdOf(nobody, 1n)], PATIENCE_MS))[0]
  },
  close: async (closing) => (await closeBatch(connection, [closing, released(nextId())], PATIENCE_MS))[0],
}

/** What the keys of an account are like, besides one that may do everything. */
const CHANGES = [
  "revoked_at = now()",
  "expires_at = now()",
  "expires_at = now() + interval '1 hour'",
  "models = '{other}'",
  "models = '{other,model}'",
]
const KEYS = CHANGES.length + 1

/** Two accounts, each with keys of all kinds, and the ids of calls. */
class World {
  readonly #way: Way
  readonly #accounts: readonly Account[]
  readonly #keys: readonly string[]
  readonly #ids = Array.from({ length: 8 }, () => nextId())

  private constructor(way: Way, accounts: readonly Account[], keys: readonly string[]) {
    this.#way = way
    this.#accounts = accounts
    this.#keys = keys
  }

  static async open(way: Way, balances: readonly bigint[]): Promise<World> {
    const accounts = await Promise.all(balances.map((balance) => books.account(balance)))
    const keys: string[] = []
    for (const account of accounts) {
      keys.push(account.key_id)
      for (const change of CHANGES) keys.push(await keyOf(account, change))
    }
    return new World(way, accounts, keys)
  }

  /** What is said of it. */
  async does(step: Step): Promise<unknown> {
    const id = this.#id(step.call)
    const account_id = this.#account(step.account)
    switch (step.what) {
      case "reserve":
        return this.#way.reserve(step.dead ? dead_id : alive_id, this.#hold(step))
      case "settle":
        return this.#way.close(settled(id, step.amount_nano, { notes: ["cached_clamped", "overage"] }))
      case "settle without usage":
        return this.#way.close(settled(id, step.amount_nano, { usage: null, upstream: null, ttft_ms: null }))
      case "release":
        return this.#way.close(released(id))
      case "expire":
        return expireBatch(connection, [{ id, account_id }], PATIENCE_MS)
      case "bury":
        return buryBatch(connection, alive_id, [this.#hold(step)], PATIENCE_MS)
      case "checkpoint":
        return writeCheckpoints(connection, [
          { id, charge_nano: step.amount_nano, basis: "estimate", usage: null },
        ])
    }
  }

  /** All its rows, with places instead of ids, and without what the clock says. */
  async rows(): Promise<unknown> {
    const ids = this.#accounts.map(({ account_id }) => account_id)
    const accounts = await books.sql`SELECT id, balance_nano, held_nano FROM tollgate.accounts
      WHERE id IN ${books.sql(ids)}`
    const calls = await books.sql`SELECT *, closed_at IS NULL AS open FROM tollgate.reservations
      WHERE account_id IN ${books.sql(ids)}`
    return {
      accounts: accounts
        .map(({ id, ...row }) => ({ ...row, place: ids.indexOf(id) }))
        .sort((one, other) => one.place - other.place),
      calls: calls
        .map(({ id, account_id, key_id, started_at: _, closed_at: _closed_at, ...row }) => ({
          ...row,
          place: this.#ids.indexOf(id),
          account: ids.indexOf(account_id),
          key: this.#keys.indexOf(key_id),
        }))
        .sort((one, other) => one.place - other.place),
    }
  }

  #hold({ call, account, key, foreign, amount_nano }: Step): Hold {
    const owner = foreign ? 1 - account : account
    const key_id = nth(this.#keys, owner * KEYS + key)
    return holdOf({ account_id: this.#account(account), key_id }, amount_nano, { id: this.#id(call) })
  }

  #id(call: number): string {
    return nth(this.#ids, call)
  }

  #account(at: number): string {
    return nth(this.#accounts, at).account_id
  }
}

const step = fc.record({
  what: fc.oneof(
    { weight: 12, arbitrary: fc.constant("reserve" as const) },
    { weight: 4, arbitrary: fc.constant("settle" as const) },
    { weight: 4, arbitrary: fc.constant("settle without usage" as const) },
    { weight: 3, arbitrary: fc.constant("release" as const) },
    { weight: 4, arbitrary: fc.constant("expire" as const) },
    { weight: 1, arbitrary: fc.constant("bury" as const) },
    { weight: 3, arbitrary: fc.constant("checkpoint" as const) },
  ),
  call: fc.nat(7),
  account: fc.nat(1),
  key: fc.oneof(fc.constant(0), fc.nat(KEYS - 1)),
  /** Whether the key is the other account's. */
  foreign: fc.nat(7).map((number) => number === 0),
  dead: fc.nat(7).map((number) => number === 0),
  amount_nano: fc.bigInt(0n, 40n),
})
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

test("random histories: the same answers and the same rows, one by one and in batches", async () => {
  const said = new Set<string>()
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(fc.bigInt(20n, 200n), fc.bigInt(-5n, 60n)),
      fc.array(step, { minLength: 25, maxLength: 40 }),
      async (balances, steps) => {
        const one = await World.open(alone, balances)
        const other = await World.open(inBatch, balances)
        for (const step of steps) {
          const answer = await one.does(step)
          expect(answer).toEqual(await other.does(step))
          if (step.what === "reserve") said.add(String(Object.values(answer ?? {})[0]))
          else said.add(`${step.what}: ${answer}`)
        }
        expect(await one.rows()).toEqual(await other.rows())
      },
    ),
    { numRuns: 30 },
  )
  expect(await violations(books.sql, { overdrawn: true })).toEqual([])
  // Every answer there is has been given.
  for (const answer of ["held", "closed", "invalid_api_key", "model_not_allowed", "insufficient_balance"])
    expect(said).toContain(answer)
  for (const answer of [
    "gateway_dead",
    "settle: applied",
    "settle: closed",
    "settle: none",
    "release: closed",
  ])
    expect(said).toContain(answer)
}, 30_000)

describe("an id that comes into the books while one waits", () => {
  /** Two connections whose statements have failed with these codes. */
  function watched() {
    const codes: string[] = []
    const watch = ({ error }: { error: unknown }) => {
      if (error !== null) codes.push(codeOf(error))
    }
    return { codes, by: [0, 1].map(() => books.database.connection(watch)) }
  }

  test("D27 by the same hold on another connection: both are held, once", async () => {
    const { codes, by } = watched()
    const account = await books.account(100n)
    const hold = holdOf(account, 30n)
    const lock = await lockAccount(books.sql, account.account_id)
    const racing = by.map((own) => reserveBatch(own, alive_id, [hold], 5_000))
    await waiting(2)
    await lock.unlock()
    expect((await Promise.all(racing)).flat()).toEqual([{ outcome: "held" }, { outcome: "held" }])
    expect(codes).toEqual(["23505"])
    expect(await violations(books.sql, { overdrawn: true })).toEqual([])
    await Promise.all(by.map((own) => own.end()))
  })

  test("D27 by the same hold, for whose like nothing is left: both are held, once", async () => {
    const { codes, by } = watched()
    const account = await books.account(30n)
    const hold = holdOf(account, 30n)
    const lock = await lockAccount(books.sql, account.account_id)
    const racing = by.map((own) => reserveBatch(own, alive_id, [hold], 5_000))
    await waiting(2)
    await lock.unlock()
    expect((await Promise.all(racing)).flat()).toEqual([{ outcome: "held" }, { outcome: "held" }])
    expect(codes).toEqual([])
    await Promise.all(by.map((own) => own.end()))
  })

  test("D27 by its tombstone: it is closed, and nothing is held", async () => {
    const { codes, by } = watched()
    const account = await books.account(100n)
    const hold = holdOf(account, 30n)
    const written = Promise.withResolvers<void>()
    const committed = Promise.withResolvers<void>()
    const burying = books.sql.begin(async (tx) => {
      await tx`INSERT INTO tollgate.reservations (id, account_id, key_id, gateway_id, amount_nano, input_pico,
          cached_input_pico, output_pico, stream, model, family, upstream, state, closed_at, charge_nano)
        VALUES (${hold.id}, ${hold.account_id}, ${hold.key_id}, ${alive_id}, 30, 0, 0, 0, true, 'model', 'chat',
          'first', 'released', now(), 0)`
      written.resolve()
      await committed.promise
    })
    await written.promise
    const [own] = by
    const reserving = reserveBatch(own ?? connection, alive_id, [hold], 5_000)
    await waiting(1)
    committed.resolve()
    await burying
    expect(await reserving).toEqual([{ outcome: "closed" }])
    expect(codes).toEqual(["23505"])
    expect(await violations(books.sql, { overdrawn: true })).toEqual([])
    await Promise.all(by.map((made) => made.end()))
  })
})

test("its row in the books is every field of the closing, as in a batch: none of them is lost for null", async () => {
  const account = await books.account(100n)
  const hold = holdOf(account, 30n, { stream: false })
  await alone.reserve(alive_id, hold)
  expect(await call(books.sql, hold.id)).toMatchObject({ stream: false, state: "open", upstream: "first" })
  const bare = { usage: null, upstream: null, ttft_ms: null, ending: null, failure: null }
  expect(await alone.close(settled(hold.id, 7n, bare))).toBe("applied")
  expect(await call(books.sql, hold.id)).toMatchObject({
    state: "settled",
    charge_nano: "7",
    prompt_tokens: null,
    cached_tokens: null,
    completion_tokens: null,
    upstream: "first",
    ttft_ms: null,
    ending: null,
    failure: null,
    duration_ms: 34,
  })
})

test.each([300, 100])("waits %d ms for a lock, and leaves no setting of the session", async (patience_ms) => {
  const account = await books.account(100n)
  const hold = holdOf(account, 5n)
  await alone.reserve(alive_id, hold)
  const lock = await lockAccount(books.sql, account.account_id)
  for (const work of [
    () => reserveBatch(connection, alive_id, [holdOf(account, 5n)], patience_ms),
    () => closeBatch(connection, [settled(hold.id, 4n)], patience_ms),
  ]) {
    const refused = work().catch((thrown: unknown) => thrown)
    expect(troubleOf(await takes(patience_ms, patience_ms + 250, refused))).toBe("locked")
  }
  await lock.unlock()
  const [row] = await connection.run(statement("sweep", sql`SHOW lock_timeout`), [], 1_000)
  expect(row).toEqual({ lock_timeout: "0" })
  expect((await call(books.sql, hold.id))?.state).toBe("open")
})

test("D27 what says why has the rest of the time of one statement", async () => {
  const proxy = await DatabaseProxy.start(books.address)
  const own = books.connection(proxy.address)
  await own.run(statement("sweep", sql`SELECT 1`), [], 1_000)
  const first = proxy.meet(reserveOne, "done")
  const second = proxy.meet(reserve, "asked")
  const started_at = performance.now()
  const refused = reserveBatch(own, alive_id, [holdOf(await books.account(1n), 2n)], PATIENCE_MS)
  const { pass } = await first
  setTimeout(pass, 400)
  await second
  expect(performance.now() - started_at).toBeGreaterThan(395)
  expect(await refused.catch((thrown: unknown) => thrown)).toBeInstanceOf(Overdue)
  expect(performance.now() - started_at).toBeWithin(995, 1_350)
  await proxy.stop()
})

async function keyOf({ account_id }: Account, change: string): Promise<string> {
  const key_id = crypto.randomUUID()
  await books.sql`INSERT INTO tollgate.keys (id, account_id, hash, prefix) VALUES (${key_id}, ${account_id}, ${key_id}, 'tg')`
  await books.sql.unsafe(`UPDATE tollgate.keys SET ${change} WHERE id = '${key_id}'`)
  return key_id
}

/** Resolves when so many of our statements wait for a lock. */
async function waiting(count: number): Promise<void> {
  for (;;) {
    const [row] = await books.sql`SELECT count(*)::int AS waiting FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`
    if (row?.waiting >= count) return
  }
}

function nth<Item>(list: readonly Item[], at: number): Item {
  const item = list[at]
  if (item === undefined) throw new Error(`there is no ${at}`)
  return item
}
