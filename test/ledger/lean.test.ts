import { describe, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import fc from "fast-check"
import { nextId } from "../../src/id.ts"
import { changeKey, type SpendingLimit } from "../../src/ledger/accounts/keys.ts"
import type { DatabaseConnection, Runner } from "../../src/ledger/database/connection.ts"
import { errorCode, kindOf, Overdue } from "../../src/ledger/database/database-errors.ts"
import { type Statement, statement } from "../../src/ledger/database/statement.ts"
import type { End, Hold, HoldResult } from "../../src/ledger/entries.ts"
import { endBatch, endLean, endLimited, endOne } from "../../src/ledger/money/end.ts"
import { type EndResult, endExact, endExactly } from "../../src/ledger/money/end-exact.ts"
import { expireBatch } from "../../src/ledger/money/expire.ts"
import {
  holdBatch,
  holdLean,
  holdLimited,
  holdOneKey,
  type KnownAccounts,
} from "../../src/ledger/money/hold.ts"
import { type HoldAttempt, holdExact, holdExactly } from "../../src/ledger/money/hold-exact.ts"
import { restoreBatch } from "../../src/ledger/money/restore.ts"
import { takes } from "../support/fair-clock.ts"
import { DatabaseProxy } from "../support/proxy.ts"
import {
  type Account,
  call,
  checkpointOf,
  FIRST,
  holdOf,
  insertHold,
  keyOf,
  ledgerAt,
  lockAccount,
  lockWaiters,
  nth,
  OTHER_MODEL,
  openTransaction,
  released,
  settled,
  testDatabase,
  violations,
  writeCheckpoints,
} from "./test-database.ts"

/** Most calls go by lean statements, one call by a shorter one still: whatever happens, all come out as by the exact ones. */

const LOCK_MS = 300

const db = await testDatabase()
const connection = db.connection()
const alive_id = await db.gateway()
const dead_id = await db.gateway()
await db.sql`UPDATE tollgate.gateways SET dead_at = now() WHERE id = ${dead_id}`

/** A way to ask for one call, on a connection of its own. `hold` is what an end is believed to free. */
interface Way {
  readonly connection: DatabaseConnection
  hold(gateway_id: string, hold: Hold): Promise<HoldAttempt | undefined>
  end(end: End, hold: Hold): Promise<EndResult | undefined>
}

/** By a batch, which has the call as `changed` after a call of the `neighbour`. */
function inBatch(
  connection: DatabaseConnection,
  neighbour: ((hold: Hold) => Hold) | null = null,
  changed: Partial<Hold> = {},
): Way {
  const beside = (hold: Hold) => (neighbour === null ? [] : [neighbour(hold)])
  return {
    connection,
    hold: async (gateway_id, hold) =>
      (await holdBatch(connection, gateway_id, [...beside(hold), { ...hold, ...changed }], LOCK_MS)).at(-1),
    async end(end, hold) {
      const others = beside(hold)
      if (others.length > 0) await holdExactly(connection, alive_id, others, LOCK_MS, 1_000)
      const released_ones = others.map((other) => ({ end: released(other.id), hold: other }))
      const batch = [...released_ones, { end, hold: { ...hold, ...changed } }]
      return (await endBatch(connection, batch, LOCK_MS)).at(-1)
    },
  }
}

function exactly(connection: DatabaseConnection): Way {
  return {
    connection,
    hold: async (gateway_id, hold) => (await holdExactly(connection, gateway_id, [hold], LOCK_MS, 1_000))[0],
    end: async (end) => (await endExactly(connection, [end], LOCK_MS, 1_000))[0],
  }
}

/** What the keys of an account are like, besides one that may do everything. */
const CHANGES = [
  "revoked_at = now()",
  "expires_at = now()",
  "expires_at = now() + interval '1 hour'",
  "suspended_at = now()",
  "models = '{other}'",
  "models = '{other,model}'",
  "spend_limit_nano = 25, spend_period = 'month', spent_since = date_trunc('month', now(), 'UTC')",
]
const KEYS = CHANGES.length + 1

/** Three accounts, each with keys of all kinds, and the ids of calls. The keys of the last one have spending limits. */
class World {
  readonly #way: Way
  readonly #accounts: readonly Account[]
  readonly #keys: readonly string[]
  readonly #ids = Array.from({ length: 8 }, () => nextId())
  /** What was asked for last by each id. */
  readonly #asked = new Map<string, Hold>()

  private constructor(way: Way, accounts: readonly Account[], keys: readonly string[]) {
    this.#way = way
    this.#accounts = accounts
    this.#keys = keys
  }

  static async open(way: Way, balances: readonly bigint[]): Promise<World> {
    const accounts = await Promise.all(balances.map((balance) => db.account(balance)))
    const keys: string[] = []
    for (const [at, account] of accounts.entries()) {
      keys.push(account.key_id)
      for (const change of CHANGES) {
        const is_limit = change.startsWith("spend_limit")
        const { key_id } = await keyOf(db.sql, account, is_limit && at < 2 ? "name = 'k'" : change)
        keys.push(key_id)
      }
    }
    await db.sql`UPDATE tollgate.accounts SET is_limited = true WHERE id = ${nth(accounts, 2).account_id}`
    return new World(way, accounts, keys)
  }

  /** What is said of it. */
  async does(step: Step): Promise<unknown> {
    const id = this.#id(step.call)
    const account_id = this.#account(step.account)
    const { connection } = this.#way
    const asked = this.#asked.get(id) ?? this.#hold(step)
    switch (step.what) {
      case "hold":
        this.#asked.set(id, this.#hold(step))
        return this.#way.hold(step.dead ? dead_id : alive_id, this.#hold(step))
      case "settle":
        return this.#way.end(settled(id, step.charge_nano, { notes: ["cached_clamped", "overage"] }), asked)
      case "settle without usage":
        return this.#way.end(
          settled(id, step.charge_nano, { usage: null, terms_id: null, ttft_ms: null }),
          asked,
        )
      case "release":
        return this.#way.end(released(id), asked)
      case "expire":
        return expireBatch(connection, [{ id, account_id }], LOCK_MS)
      case "restore":
        return restoreBatch(connection, alive_id, [this.#hold(step)], LOCK_MS)
      case "checkpoint":
        return writeCheckpoints(connection, alive_id, checkpointOf(id, step.charge_nano))
      case "suspend":
        return db.sql`UPDATE tollgate.accounts
          SET suspended_at = CASE WHEN suspended_at IS NULL THEN now() END WHERE id = ${account_id}`.then(
          () => {},
        )
    }
  }

  /** All its rows without those of neighbours, with indexes instead of ids, and without times. */
  async rows(): Promise<unknown> {
    const { sql } = db
    const own = this.#accounts.map(({ account_id }) => account_id)
    const said = {
      accounts:
        await sql`SELECT id AS account_id, balance_nano, held_nano FROM tollgate.accounts WHERE id IN ${sql(own)}`,
      keys: await sql`SELECT id AS key_id, account_id, spent_nano FROM tollgate.keys WHERE account_id IN ${sql(own)}`,
      holds: await sql`SELECT * FROM tollgate.holds WHERE account_id IN ${sql(own)}`,
      ends: await sql`SELECT * FROM tollgate.ends WHERE account_id IN ${sql(own)}`,
      corrections: await sql`SELECT * FROM tollgate.corrections WHERE account_id IN ${sql(own)}`,
    }
    const placed = Object.entries(said).map(([table, rows]) => [
      table,
      rows
        .map(({ id, account_id, key_id, held_at: _h, ended_at: _e, corrected_at: _c, xid: _x, ...row }) => ({
          ...row,
          call: this.#ids.indexOf(id),
          account: own.indexOf(account_id),
          key: this.#keys.indexOf(key_id),
        }))
        .filter((row) => row.call !== -1 || table === "accounts" || table === "keys")
        .map((row) => JSON.stringify(row))
        .sort(),
    ])
    return Object.fromEntries(placed)
  }

  #hold({ call, account, key, foreign, other_model, amount_nano }: Step): Hold {
    const owner = foreign ? (account + 1) % 3 : account
    const key_id = nth(this.#keys, owner * KEYS + key)
    const terms_id = other_model ? OTHER_MODEL : FIRST
    return holdOf({ account_id: this.#account(account), key_id }, amount_nano, {
      id: this.#id(call),
      terms_id,
    })
  }

  #id(call: number): string {
    return nth(this.#ids, call)
  }

  #account(at: number): string {
    return nth(this.#accounts, at).account_id
  }
}

const weighted = <Word>(weight: number, word: Word) => ({ weight, arbitrary: fc.constant(word) })
const step = fc.record({
  what: fc.oneof(
    weighted(12, "hold" as const),
    weighted(4, "settle" as const),
    weighted(4, "settle without usage" as const),
    weighted(3, "release" as const),
    weighted(4, "expire" as const),
    weighted(1, "restore" as const),
    weighted(3, "checkpoint" as const),
    weighted(1, "suspend" as const),
  ),
  call: fc.nat(7),
  account: fc.nat(2),
  key: fc.oneof(fc.constant(0), fc.constant(KEYS - 1), fc.nat(KEYS - 1)),
  /** Whether the key is another account's. */
  foreign: fc.nat(7).map((number) => number === 0),
  other_model: fc.nat(7).map((number) => number === 0),
  dead: fc.nat(7).map((number) => number === 0),
  /** At least 1 is held (D12). */
  amount_nano: fc.bigInt(1n, 40n),
  charge_nano: fc.bigInt(0n, 40n),
})
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

const HOLD: Step = {
  what: "hold",
  call: 0,
  account: 0,
  key: 0,
  foreign: false,
  other_model: false,
  dead: false,
  amount_nano: 20n,
  charge_nano: 20n,
}
const keyWith = (text: string) => 1 + CHANGES.findIndex((change) => change.startsWith(text))

/** A history with every answer that the test asks for: twelve random ones can miss some. */
const ALL_ANSWERS: readonly Step[] = [
  HOLD,
  { ...HOLD, call: 1, account: 1, amount_nano: 40n },
  { ...HOLD, call: 2, account: 1 },
  { ...HOLD, call: 2, dead: true },
  ...["revoked_at", "suspended_at", "models"].map((text) => ({ ...HOLD, call: 3, key: keyWith(text) })),
  ...[4, 5].map((call) => ({ ...HOLD, call, account: 2, key: keyWith("spend_limit") })),
  { ...HOLD, what: "settle", call: 0 },
  { ...HOLD, what: "release", call: 1, account: 1 },
  { ...HOLD, call: 3, account: 1, other_model: true },
  { ...HOLD, what: "settle without usage", call: 3, account: 1 },
  { ...HOLD, what: "settle", call: 6 },
  { ...HOLD, what: "restore", call: 6 },
  { ...HOLD, call: 6 },
  { ...HOLD, what: "settle", call: 6 },
  { ...HOLD, what: "release", call: 6 },
  { ...HOLD, what: "suspend" },
  { ...HOLD, call: 7 },
]

test("D55 random histories: the same answers and the same entries, by lean statements and by exact ones", async () => {
  const said = new Set<string>()
  const rich = await db.account(1_000_000n)
  const nobody = { account_id: crypto.randomUUID(), key_id: crypto.randomUUID() }
  const ways = [
    inBatch(db.connection()),
    // By the lean statement, beside a call that it writes.
    inBatch(db.connection(), () => holdOf(rich, 1n)),
    // By the lean statement for calls that are alike, beside one that holds and is charged nothing.
    inBatch(db.connection(), ({ account_id, key_id, terms_id }) =>
      holdOf({ account_id, key_id }, 0n, { terms_id }),
    ),
    // By the lean statement, beside an unknown call, which it leaves out.
    inBatch(db.connection(), () => holdOf(nobody, 1n)),
    inBatch(db.connection(), null, { is_limited: true }),
    exactly(db.connection()),
  ]
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(fc.bigInt(20n, 200n), fc.bigInt(-5n, 60n), fc.bigInt(20n, 200n)),
      fc.array(step, { minLength: 25, maxLength: 40 }),
      async (balances, steps) => {
        const worlds = await Promise.all(ways.map((way) => World.open(way, balances)))
        for (const step of steps) {
          const answers = await Promise.all(worlds.map((world) => world.does(step)))
          const exact = answers.at(-1)
          expect(answers).toEqual(answers.map(() => exact))
          if (step.what === "hold") said.add(String(Object.values(exact ?? {})[0]))
          else said.add(`${step.what}: ${exact}`)
        }
        const rows = await Promise.all(worlds.map((world) => world.rows()))
        expect(rows).toEqual(rows.map(() => rows.at(-1)))
      },
    ),
    { numRuns: 13, endOnFailure: true, examples: [[[100n, 40n, 100n], [...ALL_ANSWERS]]] },
  )
  expect(await violations(db.sql, { overdrawn: true })).toEqual([])
  const all = [
    ...["held", "closed", "invalid_api_key", "key_suspended", "model_not_allowed", "gateway_dead"],
    ...["account_suspended", "insufficient_balance", "spending_limit_reached"],
    ...["settle: applied", "settle: closed", "settle: none", "release: applied", "release: closed"],
  ]
  expect(all.filter((answer) => !said.has(answer))).toEqual([])
})

test("a server that refuses the short forms is asked for them once", async () => {
  const asked: Statement[] = []
  const refusing: Runner = {
    async run(statement, values, within_ms, size) {
      asked.push(statement)
      if ([holdOneKey, endOne].includes(statement)) await connection.run(unsupported, [], within_ms)
      return connection.run(statement, values, within_ms, size)
    },
  }
  const account = await db.account(100n)
  const calls = [holdOf(account, 1n), holdOf(account, 2n), holdOf(account, 3n)]
  const ended = (hold: Hold) => ({ end: released(hold.id), hold })
  expect(await holdBatch(refusing, alive_id, calls.slice(0, 1), LOCK_MS)).toEqual([{ outcome: "held" }])
  expect(await holdBatch(refusing, alive_id, calls.slice(1), LOCK_MS)).toEqual([
    { outcome: "held" },
    { outcome: "held" },
  ])
  expect(await endBatch(refusing, calls.map(ended), LOCK_MS)).toEqual(["applied", "applied", "applied"])
  expect(asked).toEqual([holdOneKey, holdExact, holdLean, endLean])
})

/** Like a form that Citus refuses: SQLSTATE 0A000. */
const unsupported = statement("sweep", sql`SELECT count(*) FROM (SELECT 1 AS a) x FOR UPDATE`)

test("D27 the releases of holds of no amount that are not there are not taken for written", async () => {
  const account = await db.account(100n)
  const ends = [1, 2].map(() => {
    const hold = holdOf(account, 0n)
    return { end: released(hold.id), hold }
  })
  expect(await endBatch(connection, ends, LOCK_MS)).toEqual(["none", "none"])
})

describe("what comes into the ledger while a statement waits", () => {
  /** Two connections, and what their statements have failed with. */
  function watched() {
    const codes: string[] = []
    const watch = ({ error }: { error: unknown }) => {
      if (error !== null) codes.push(errorCode(error))
    }
    return { codes, by: [0, 1].map(() => db.database.connection(watch)) }
  }

  test.each([
    ["by another connection", 100n, ["23505"]],
    ["with no balance left for another one", 30n, []],
  ] as const)("D27 the same hold, %s: both are held, once", async (_, balance_nano, failures) => {
    const { codes, by } = watched()
    const account = await db.account(balance_nano)
    const hold = holdOf(account, 30n)
    await using lock = await lockAccount(db.sql, account.account_id)
    const racing = by.map((own) => holdBatch(own, alive_id, [hold], 5_000))
    await lockWaiters(db.sql, 2)
    await lock.unlock()
    expect((await Promise.all(racing)).flat()).toEqual([{ outcome: "held" }, { outcome: "held" }])
    expect(codes).toEqual([...failures])
    expect(await violations(db.sql, { overdrawn: true })).toEqual([])
    await Promise.all(by.map((own) => own.end()))
  })

  test("D27 the release of the hold: it is closed, and nothing is held", async () => {
    const { codes, by } = watched()
    const hold = holdOf(await db.account(100n), 30n)
    const closing = await openTransaction(db.sql, async (tx) => {
      await insertHold(tx, hold, alive_id)
      await tx`INSERT INTO tollgate.ends (id, account_id, key_id, charge_nano, freed_nano, terms_id, outcome, basis)
        VALUES (${hold.id}, ${hold.account_id}, ${hold.key_id}, 0, 30, ${FIRST}, 'released', 'none')`
    })
    const holding = holdBatch(nth(by, 0), alive_id, [hold], 5_000)
    await lockWaiters(db.sql, 1)
    await closing.commit()
    expect(await holding).toEqual([{ outcome: "closed" }])
    expect(codes).toEqual(["23505"])
    expect(await violations(db.sql, { overdrawn: true })).toEqual([])
    await Promise.all(by.map((made) => made.end()))
  })

  test.each([
    [
      "a release",
      "closed",
      (own: DatabaseConnection, hold: Hold) => endBatch(own, [{ end: released(hold.id), hold }], 5_000),
    ],
    ["an expiry", "applied", (own: DatabaseConnection, hold: Hold) => expireBatch(own, [hold], 5_000)],
  ] as const)("D13 %s of the hold that is being settled: the settlement is %s", async (_, ended, first) => {
    const { codes, by } = watched()
    const account = await db.account(100n)
    const hold = holdOf(account, 30n)
    // Beside another one, so that there is something to be freed a second time.
    await holdBatch(connection, alive_id, [hold, holdOf(account, 40n)], LOCK_MS)
    await using lock = await lockAccount(db.sql, account.account_id)
    const before = first(nth(by, 0), hold)
    await lockWaiters(db.sql, 1)
    const settling = endBatch(nth(by, 1), [{ end: settled(hold.id, 7n), hold }], 5_000)
    await lockWaiters(db.sql, 2)
    await lock.unlock()
    await before
    expect(await settling).toEqual([ended])
    expect(codes).toEqual(["23505"])
    expect(await violations(db.sql, { overdrawn: true })).toEqual([])
    await Promise.all(by.map((own) => own.end()))
  })
})

test.each([300, 100])("waits %d ms for a lock, and leaves no setting of the session", async (lock_ms) => {
  const account = await db.account(100n)
  const [hold, other] = [holdOf(account, 5n), holdOf(account, 5n)]
  await holdBatch(connection, alive_id, [hold, other], LOCK_MS)
  await using lock = await lockAccount(db.sql, account.account_id)
  const more = () => holdOf(account, 5n)
  const item = { end: settled(hold.id, 4n), hold }
  for (const work of [
    () => holdBatch(connection, alive_id, [more()], lock_ms),
    () => holdBatch(connection, alive_id, [more(), more()], lock_ms),
    () => holdExactly(connection, alive_id, [more()], lock_ms, 5_000),
    () => endBatch(connection, [item], lock_ms),
    () => endBatch(connection, [item, { end: settled(other.id, 4n), hold: other }], lock_ms),
    () => endBatch(connection, [{ ...item, hold: null }], lock_ms),
    () => expireBatch(connection, [hold], lock_ms),
  ]) {
    const refused = work().catch((thrown: unknown) => thrown)
    expect(kindOf(await takes(lock_ms, lock_ms + 250, refused))).toBe("locked")
  }
  await lock.unlock()
  const [row] = await connection.run(statement("sweep", sql`SHOW lock_timeout`), [], 1_000)
  expect(row).toEqual({ lock_timeout: "0" })
  expect((await call(db.sql, hold.id))?.state).toBe("open")
})

test("D27 the exact statement has the rest of the time of one statement", async () => {
  const proxy = await DatabaseProxy.start(db.address)
  const own = db.connection(proxy.address)
  await own.run(statement("sweep", sql`SELECT 1`), [], 1_000)
  const first = proxy.meet(holdOneKey, "done")
  const second = proxy.meet(holdExact, "asked")
  const started_at = performance.now()
  const hold = holdOf(await db.account(1n), 2n)
  const refused = takes(
    995,
    1_350,
    holdBatch(own, alive_id, [hold], LOCK_MS).catch((thrown: unknown) => thrown),
  )
  const { pass } = await first
  setTimeout(pass, 400)
  await second
  expect(performance.now() - started_at).toBeGreaterThan(395)
  expect(await refused).toBeInstanceOf(Overdue)
  await proxy.stop()
})

test("D42 calls of an account with a spending limit go to the statements for limited accounts, until a hold finds no limit", async () => {
  const proxy = await DatabaseProxy.start(db.address)
  const ledger = await ledgerAt(db, proxy.address)
  const account = await db.account(1_000n)
  const limit = (spending: SpendingLimit | null) =>
    changeKey(db.database.operators, account.key_id, { spending })
  let met: Statement[] = []
  const watch = (wanted: Statement) =>
    void proxy.meet(wanted, "asked").then(({ pass }) => {
      met.push(wanted)
      watch(wanted)
      pass()
    })
  for (const wanted of [holdOneKey, endOne, holdLimited, endLimited, holdExact, endExact]) watch(wanted)
  const asked = async (outcome: HoldResult["outcome"]) => {
    met = []
    const hold = holdOf(account, 5n)
    expect((await ledger.hold(hold)).outcome).toBe(outcome)
    if (outcome === "held") await ledger.end(settled(hold.id, 4n))
    return met
  }
  await limit({ limit_nano: 1n, period: "month" })
  expect(await asked("spending_limit_reached")).toEqual([holdOneKey, holdExact])
  expect(await asked("spending_limit_reached")).toEqual([holdLimited, holdExact])
  await limit({ limit_nano: 100n, period: "month" })
  expect(await asked("held")).toEqual([holdLimited, endLimited])
  await limit(null)
  expect(await asked("held")).toEqual([holdLimited, holdExact, endOne])
  expect(await asked("held")).toEqual([holdOneKey, endOne])
  await ledger.stop()
  await proxy.stop()
})

test("every hold is made when another batch learns meanwhile that an account has no limit any more", async () => {
  const [limited, other] = [await db.account(100n), await db.account(100n)]
  const known: KnownAccounts = new Map([[limited.account_id, { is_limited: true }]])
  const forgetting: Runner = {
    async run(statement, ...rest) {
      const rows = await connection.run(statement, ...rest)
      known.clear()
      return rows
    },
  }
  const holds = [holdOf(limited, 5n), holdOf(other, 5n)]
  expect(await holdBatch(forgetting, alive_id, holds, LOCK_MS, known)).toEqual(
    holds.map(() => ({ outcome: "held" })),
  )
  for (const { id } of holds) expect((await call(db.sql, id))?.state).toBe("open")
})

test("a hold that was made before says nothing of a limit, whatever is held beside it", async () => {
  const account = await db.account(100n)
  await db.sql`UPDATE tollgate.accounts SET is_limited = true WHERE id = ${account.account_id}`
  const [before, beside] = [holdOf(account, 1n), holdOf(account, 2n)]
  const hold = (...holds: Hold[]) => holdExactly(connection, alive_id, holds, LOCK_MS, 1_000)
  const made = { outcome: "held", is_limited: true } as const
  expect(await hold(before)).toEqual([made])
  expect(await hold(before)).toEqual([{ outcome: "held" }])
  expect(await hold(before, beside)).toEqual([{ outcome: "held" }, made])
})
