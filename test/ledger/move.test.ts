import { describe, expect, test } from "bun:test"
import { eq } from "drizzle-orm"
import { nextId } from "../../src/id.ts"
import { changeAccount, listAccounts } from "../../src/ledger/accounts/accounts.ts"
import { changeBudget, getBudget } from "../../src/ledger/accounts/budgets.ts"
import { credit } from "../../src/ledger/accounts/credits.ts"
import { openGrants } from "../../src/ledger/accounts/grants.ts"
import { changeKey, createKey, getKey, revokeKey } from "../../src/ledger/accounts/keys.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { expireBatch } from "../../src/ledger/money/expire.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { cancelMove, carry, type MoveShard, moveAccount } from "../../src/ledger/moves/moves.ts"
import { readStandings } from "../../src/ledger/queue/standings.ts"
import { accounts } from "../../src/ledger/schema/tables.ts"
import { thrown } from "../support/thrown.ts"
import { budgetOf } from "./budget-order.ts"
import { type Account, holdOf, keyOf, nth, settled, until } from "./test-database.ts"
import { type Shard, twoShards } from "./two-shards.ts"

/** D76: an account moves between two databases, and everything that it has with it. */

const [a, b] = await twoShards()

const AT_ONCE = { rest_ms: 0 }
/** What a call of `settled` costs at its terms. */
const COST = 4_525n

const ask = async ({ connection, gateway_id }: Shard, account: Account, changes = {}) => {
  const hold = holdOf(account, 10_000n, changes)
  const [result] = await holdBatch(connection, gateway_id, [hold], 300)
  return { hold, outcome: result?.outcome }
}
const settle = ({ connection }: Shard, id: string) =>
  endBatch(connection, [{ end: settled(id, COST), hold: null }], 300)

async function spend(side: Shard, account: Account, changes = {}): Promise<string> {
  const { hold, outcome } = await ask(side, account, changes)
  expect(outcome).toBe("held")
  await settle(side, hold.id)
  return hold.id
}

interface Rich extends Account {
  readonly plain: Account
  readonly claim: { readonly key_hash: string; readonly body_hash: string }
  readonly end_users: number
}

/** End users of an account that are more than one statement copies. */
const SEVERAL_PAGES = 1_001

/** An account that has everything: calls, a key with a limit and one without, a claim and a kept answer. */
async function rich(side: Shard, end_users = SEVERAL_PAGES): Promise<Rich> {
  const account = await side.db.account(1_000_000n)
  const { sql, database } = side.db
  await changeKey(database.operators, account.key_id, { spending: { limit_nano: 50_000n, period: "day" } })
  const plain = await keyOf(sql, account, "models = '{model,other}', expires_at = now() + interval '1 day'")
  await changeAccount(database.operators, account.account_id, { name: "rich", price_multiplier_bp: 10_000 })
  const claim = { key_hash: crypto.randomUUID(), body_hash: "body" }
  await spend(side, account)
  const call_id = await spend(side, plain, { idempotency: claim })
  await sql`INSERT INTO tollgate.answers (call_id, body, expires_at) VALUES (${call_id}, '{"é":1}', now() + interval '1 hour')`
  await sql`INSERT INTO tollgate.end_users (id, account_id, subject)
    SELECT gen_random_uuid(), ${account.account_id}, 'person ' || n FROM generate_series(1, ${end_users}) n`
  await sql`UPDATE tollgate.end_users SET subject = NULL, forgotten_at = now() WHERE account_id = ${account.account_id}
    AND subject = 'person 1'`
  return { ...account, plain, claim, end_users }
}

/** The end users of an account, which keep their ids when it moves (D94). */
const usersOf = ({ db }: Shard, { account_id }: Account) =>
  db.sql`SELECT id, subject, forgotten_at FROM tollgate.end_users WHERE account_id = ${account_id} ORDER BY id`

const live = async ({ db }: Shard, { account_id }: Account) => {
  const [row] = await db.sql`SELECT count(*)::int AS count FROM tollgate.accounts a
    JOIN tollgate.keys k ON k.account_id = a.id AND k.hash = k.id::text
    WHERE a.id = ${account_id} AND a.moving_to IS NULL AND a.moved_to IS NULL`
  return row?.count > 0
}

async function rowOf({ db }: Shard, { account_id }: Account) {
  const [row] = await db.database.operators.select().from(accounts).where(eq(accounts.id, account_id))
  return row
}

/** The account as its calls find it in `there`, which it has left `gone` for. */
async function expectMoved(gone: Shard, there: Shard, account: Rich): Promise<void> {
  const row = await rowOf(there, account)
  expect(row).toMatchObject({
    name: "rich",
    held_nano: 0n,
    is_limited: true,
    moved_to: null,
    suspended_at: null,
  })
  expect(row?.balance_nano).toBe(1_000_000n - 2n * COST)
  expect([...(await usersOf(there, account))]).toEqual([...(await usersOf(gone, account))])
  expect(await usersOf(there, account)).toHaveLength(account.end_users)
  const old = await rowOf(gone, account)
  expect(old).toMatchObject({ balance_nano: 0n, held_nano: 0n, moved_to: there.name })
  const key = await getKey(there.database, account.key_id)
  expect(key?.spending).toEqual({ limit_nano: 50_000n, period: "day", spent_nano: COST })
  expect((await getKey(there.database, account.plain.key_id))?.models).toEqual(["model", "other"])
  expect(await getKey(gone.database, account.key_id)).toBeNull()
  const listed = await Promise.all(
    [gone, there].map(({ db }) => listAccounts(db.database.operators, { limit: 1_000, after: null })),
  )
  const isListed = ({ data }: (typeof listed)[number]) => data.some(({ id }) => id === account.account_id)
  expect(listed.map(isListed)).toEqual([false, true])
  const used = await ask(there, account.plain, { idempotency: account.claim })
  expect(used.outcome).toBe("idempotency_key_used")
  const kept = await there.db.sql`SELECT body FROM tollgate.answers JOIN tollgate.idempotency USING (call_id)
    WHERE account_id = ${account.account_id}`
  expect(kept).toMatchObject([{ body: '{"é":1}' }])
  expect((await ask(gone, account)).outcome).toBe("invalid_api_key")
  const found = await Promise.all(
    [gone, there].map(({ connection }) => readStandings(connection, [account.key_id], 0)),
  )
  expect(found).toMatchObject([
    [null],
    [{ key_id: account.key_id, spending: { remaining_nano: 50_000n - COST } }],
  ])
}

class Killed extends Error {}

/** A place whose statements, counted with those of others, are the last ones of their process. */
function killing({ name, database }: Shard, count: { left: number }): MoveShard {
  const counted = async <Answer>(work: Promise<Answer>): Promise<Answer> => {
    const answer = await work
    count.left -= 1
    if (count.left < 0) throw new Killed()
    return answer
  }
  const wrapped = <Client extends object>(client: Client): Client =>
    new Proxy(client, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name)
        if (name === "execute" && typeof value === "function")
          return (...given: unknown[]) => counted(Promise.resolve(Reflect.apply(value, target, given)))
        if (name === "transaction" && typeof value === "function")
          return (work: (inner: object) => unknown, ...rest: unknown[]) =>
            Reflect.apply(value, target, [(inner: object) => work(wrapped(inner)), ...rest])
        return typeof value === "function" ? value.bind(target) : value
      },
    })
  return { name, database: wrapped(database) }
}

const MOVED = { outcome: "moved" as const, differences: [] }

describe("D76 a move", () => {
  test("takes the account with its money, keys, limits, claims and answers, there and back", async () => {
    const account = await rich(a)
    expect(await moveAccount(a, b, account.account_id, AT_ONCE)).toEqual(MOVED)
    await expectMoved(a, b, account)
    expect(await moveAccount(b, a, account.account_id, AT_ONCE)).toMatchObject({
      differences: [],
    })
    await expectMoved(b, a, account)
    await spend(a, account)
    expect((await getKey(a.database, account.key_id))?.spending?.spent_nano).toBe(2n * COST)
  })

  test("counts what was spent before it for a limit that is set after it", async () => {
    const account = await rich(a)
    await moveAccount(a, b, account.account_id, AT_ONCE)
    const { operators } = b.db.database
    for (const period of ["month", "day"] as const) {
      const key = await changeKey(operators, account.plain.key_id, { spending: { limit_nano: 10n, period } })
      expect(key?.spending?.spent_nano).toBe(COST)
    }
    expect((await audit(operators)).violations).toEqual([])
  })

  test("killed after any of its statements is continued, and the account is never live in both", async () => {
    let killed = 0
    const moves = async (last: number) => {
      const account = await rich(a, 2)
      const count = { left: last }
      const work = moveAccount(killing(a, count), killing(b, count), account.account_id, AT_ONCE)
      const ended = await work.catch((error: unknown) => error)
      if (ended instanceof Killed) {
        killed += 1
        const living = await Promise.all([live(a, account), live(b, account)])
        expect(living.filter(Boolean).length).toBeLessThan(2)
      } else expect(ended).toEqual(MOVED)
      const again = await moveAccount(a, b, account.account_id, AT_ONCE)
      expect(again).toEqual(MOVED)
      await expectMoved(a, b, account)
      return !(ended instanceof Killed)
    }
    const AT_A_TIME = 6
    const several = (first: number) =>
      Promise.all(Array.from({ length: AT_A_TIME }, (_, at) => moves(first + at)))
    for (let first = 0; !(await several(first)).includes(true); ) first += AT_A_TIME
    expect(killed).toBeGreaterThan(25)
  })

  test("of two runs at once is one", async () => {
    const account = await rich(a)
    const run = () => moveAccount(a, b, account.account_id, AT_ONCE).catch(() => null)
    await Promise.all([run(), run(), run()])
    expect(await run()).toEqual(MOVED)
    await expectMoved(a, b, account)
  })

  test("waits for open calls, refuses new ones and changes meanwhile, and can be cancelled", async () => {
    const account = await rich(a)
    const { hold } = await ask(a, account.plain)
    const seen: bigint[] = []
    const moving = moveAccount(a, b, account.account_id, {
      ...AT_ONCE,
      onProgress: ({ step, held_nano }) => void (step === "draining" && seen.push(held_nano)),
    }).catch((error: unknown) => error)
    await until(() => seen.length > 0)
    expect(nth(seen, 0)).toBe(10_000n)
    for (const changes of [{}, { idempotency: { key_hash: "x", body_hash: "y" } }])
      expect((await ask(a, account, changes)).outcome).toBe("account_moving")
    expect((await ask(b, account)).outcome).toBe("account_moving")
    for (const side of [a, b])
      expect(await readStandings(side.connection, [account.key_id], 0)).toEqual(["moving"])
    const { operators } = a.db.database
    for (const change of [
      () => changeAccount(operators, account.account_id, { suspended: true }),
      () => changeKey(operators, account.key_id, { suspended: true }),
      () => revokeKey(operators, account.key_id),
      () =>
        createKey(operators, {
          id: crypto.randomUUID(),
          account_id: account.account_id,
          name: null,
          hash: "h",
          prefix: "p",
          models: null,
          expires_at: null,
          spending: null,
        }),
    ])
      expect(String(await thrown(change()))).toContain("the account is being moved")
    const order = { id: crypto.randomUUID(), account_id: account.account_id, amount_nano: 5n, reason: null }
    expect(await credit(operators, order)).toMatchObject({ outcome: "credited" })
    expect(await moveAccount(a, { ...b, name: "c" }, account.account_id)).toEqual({
      outcome: "elsewhere",
      shard: "b",
    })
    expect(await cancelMove(a, account.account_id)).toBe(true)
    expect(await cancelMove(a, account.account_id)).toBe(false)
    expect((await ask(b, account)).outcome).toBe("account_moving")
    await spend(a, account)
    await settle(a, hold.id)
    expect(String(await moving)).toContain("its move was cancelled")
    expect(await moveAccount(a, b, account.account_id, AT_ONCE)).toMatchObject({
      differences: [],
    })
    const { balance_nano } = (await rowOf(b, account)) ?? {}
    expect(balance_nano).toBe(1_000_005n - 4n * COST)
    expect(await cancelMove(a, account.account_id)).toBe(false)
    const other = { ...order, id: crypto.randomUUID() }
    expect(String(await thrown(credit(operators, other)))).toContain("is being moved")
    expect(await credit(operators, order)).toMatchObject({ outcome: "known" })
  })

  test("waits for an open call that holds nothing", async () => {
    const account = await rich(a)
    const hold = holdOf(account.plain, 0n)
    await holdBatch(a.connection, a.gateway_id, [hold], 300)
    const waiting = Promise.withResolvers<void>()
    const moving = moveAccount(a, b, account.account_id, {
      ...AT_ONCE,
      onProgress: ({ step }) => void (step === "draining" && waiting.resolve()),
    })
    await waiting.promise
    await settle(a, hold.id)
    expect(await moving).toMatchObject({ differences: [] })
    expect((await rowOf(b, account))?.balance_nano).toBe(1_000_000n - 3n * COST)
  })

  test("a call that is settled late where the account was is paid where it is", async () => {
    const account = await rich(a)
    const { hold } = await ask(a, account.plain)
    await expireBatch(a.connection, [hold], 300)
    await moveAccount(a, b, account.account_id, AT_ONCE)
    await settle(a, hold.id)
    const balances = async () =>
      Promise.all([a, b].map(async (side) => (await rowOf(side, account))?.balance_nano))
    expect(await balances()).toEqual([-COST, 1_000_000n - 2n * COST])
    for (let last = 0; last < 6; last++) {
      const count = { left: last }
      await carry(killing(a, count), killing(b, count), account.account_id).catch(() => {})
    }
    await carry(a, b, account.account_id)
    expect(await balances()).toEqual([0n, 1_000_000n - 3n * COST])
  })

  test("is refused without such an account, and where another one has its id", async () => {
    const id = crypto.randomUUID()
    expect(await moveAccount(a, b, id, AT_ONCE)).toEqual({ outcome: "no_account" })
    const account = await a.db.account(5n)
    await b.db.sql`INSERT INTO tollgate.accounts (id, name) VALUES (${account.account_id}, 'other')`
    expect(await moveAccount(a, b, account.account_id, AT_ONCE)).toEqual({ outcome: "taken" })
    expect((await ask(a, account)).outcome).toBe("insufficient_balance")
  })
})

test("D97 its budgets move with what they have spent, their entries and thresholds, and count on, there and back", async () => {
  const account = await a.db.account(1_000_000n)
  const { id } = await budgetOf(a.database, account, {
    amount: 5n * COST,
    thresholds: [20, 40, 60],
  })
  await spend(a, account)
  await moveAccount(a, b, account.account_id, AT_ONCE)
  expect(await getBudget(a.database, id)).toBeNull()
  expect(await getBudget(b.database, id)).toMatchObject({ spent: COST, held: 0n })
  await spend(b, account)
  await changeBudget(b.database, id, {
    change: "changed",
    name: "every",
    actor: "test",
    reason: null,
  })
  expect(await moveAccount(b, a, account.account_id)).toEqual(MOVED)
  await spend(a, account)
  expect(await getBudget(a.database, id)).toMatchObject({ name: "every", spent: 3n * COST })
  const [counts] = await a.db.sql`SELECT
    (SELECT array_agg(change ORDER BY id) FROM tollgate.budget_entries WHERE budget_id = ${id}) AS changes,
    (SELECT array_agg(percent ORDER BY percent) FROM tollgate.budget_crossings WHERE budget_id = ${id}) AS percents`
  expect(counts).toEqual({ changes: ["created", "changed"], percents: [20, 40, 60] })
  expect((await ask(a, account, { amount_nano: 3n * COST })).outcome).toBe("budget_reached")
  for (const { db } of [a, b])
    expect((await audit(db.database.operators, { settle_ms: 0 })).violations).toEqual([])
})

test("D99 a budget per minute moves with what has not refilled, and room is kept on", async () => {
  const account = await a.db.account(1_000_000n)
  const minute = { unit: "tokens", amount: 1_000_000n, period: "minute" } as const
  const { id } = await budgetOf(a.database, account, minute)
  const rowIn = async ({ db }: Shard) =>
    (
      await db.sql`SELECT steps::text, step_at, waiting_amount, waiting_until FROM tollgate.budget_windows
      WHERE id = ${id}`
    )[0]
  await spend(a, account, { tokens: 1_000_000 })
  const { hold, outcome } = await ask(a, account, { tokens: 900_000 })
  expect(outcome).toBe("held")
  expect((await ask(a, account, { tokens: 500_000 })).outcome).toBe("budget_reached")
  await settle(a, hold.id)
  const before = await rowIn(a)
  expect(before).toMatchObject({ waiting_amount: "500000" })
  expect(await moveAccount(a, b, account.account_id, AT_ONCE)).toMatchObject(MOVED)
  expect(await rowIn(b)).toEqual(before)
  expect((await audit(b.database, { settle_ms: 0 })).violations).toEqual([])
  expect((await ask(b, account, { tokens: 500_000 })).outcome).toBe("held")
})

test("D95: grants move with what is left of them, and are drawn, begin and expire on the new shard", async () => {
  const account = await a.db.account(30_000n)
  const { account_id } = account
  const { operators } = a.db.database
  await changeAccount(operators, account_id, { credit_limit_nano: 7n })
  const hours = (count: number) => new Date(Date.now() + count * 3_600_000)
  const orders = [
    { amount_nano: 5_000n, priority: 10 },
    { amount_nano: 6_000n, expires_at: hours(1), kind: "promotion" as const },
    { amount_nano: 8_000n, effective_at: hours(2), source_ref: "moved" },
  ]
  for (const order of orders) await credit(operators, { id: nextId(), account_id, reason: null, ...order })
  await spend(a, account)
  await spend(a, account)
  const left = async ({ db }: Shard) =>
    (await openGrants(db.database.operators, account_id)).map(({ left_nano, starts_at, expires_at }) => [
      left_nano,
      starts_at === null,
      expires_at === null,
    ])
  const before = [
    [5_000n + 6_000n - 2n * COST, true, false],
    [30_000n, true, true],
    [8_000n, false, true],
  ]
  expect(await left(a)).toEqual(before)
  expect(await moveAccount(a, b, account_id, AT_ONCE)).toEqual(MOVED)
  expect([await left(a), await left(b)]).toEqual([[], before])
  expect(await rowOf(b, account)).toMatchObject({ credit_limit_nano: 7n, balance_nano: 41_000n - 2n * COST })
  await spend(b, account)
  expect((await left(b))[0]).toEqual([30_000n - (3n * COST - 11_000n), true, true])
  // Back again, with a grant in debt: all that is left is spent, and more.
  expect(await moveAccount(b, a, account_id, AT_ONCE)).toEqual(MOVED)
  await credit(operators, { id: nextId(), account_id, amount_nano: -30_000n, reason: null })
  expect(await moveAccount(a, b, account_id, AT_ONCE)).toEqual(MOVED)
  expect(await left(b)).toEqual([[8_000n, false, true]])
  expect(await rowOf(b, account)).toMatchObject({ balance_nano: 41_000n - 3n * COST - 30_000n })
})
