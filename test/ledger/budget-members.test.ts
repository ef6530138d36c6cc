import { describe, expect, test } from "bun:test"
import { nextId } from "../../src/id.ts"
import {
  type BudgetOrder,
  budgetsOfCall,
  changeBudget,
  getBudget,
} from "../../src/ledger/accounts/budgets.ts"
import { forgetEndUser } from "../../src/ledger/accounts/end-users.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import { differences } from "../../src/ledger/archive/audit-checks.ts"
import type { DatabaseConnection } from "../../src/ledger/database/connection.ts"
import type { Hold, HoldResult, Labels } from "../../src/ledger/entries.ts"
import { forgetMembers } from "../../src/ledger/money/budgets.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import type { HoldAttempt } from "../../src/ledger/money/hold-exact.ts"
import { restoreBatch } from "../../src/ledger/money/restore.ts"
import type { Tags } from "../../src/wire/call.ts"
import { budgetOf } from "./budget-order.ts"
import {
  type Account,
  falsify,
  holdOf,
  lockAccount,
  lockWaiters,
  nth,
  settled,
  testGateway,
} from "./test-database.ts"

/** D97: budgets of each end user and of each value of a tag, on a real Postgres. */

const { db, connection: first, connections, gateway_id, endUnknown, expire } = await testGateway()
const AUTHOR = { actor: "test", reason: null }

const budget = (account: Account, changes: Partial<BudgetOrder> = {}) =>
  budgetOf(db.database.operators, account, { name: "Each", selector: "end_user", ...changes })

let last_label = 0
/** Labels as a call's have been written before its hold. */
async function labelled({ account_id }: Account, subject: string | null, tags: Tags = {}): Promise<Labels> {
  const id = ++last_label
  const [user] =
    subject === null
      ? []
      : await db.sql`INSERT INTO tollgate.end_users (id, account_id, subject) VALUES (${nextId()}, ${account_id}, ${subject})
          ON CONFLICT (account_id, subject) DO UPDATE SET subject = excluded.subject RETURNING id`
  const end_user_id = user === undefined ? null : String(user.id)
  await db.sql`INSERT INTO tollgate.labels (id, account_id, end_user_id, tags)
    VALUES (${id}, ${account_id}, ${end_user_id}, ${JSON.stringify({ ...tags, label: String(id) })}::text::jsonb)`
  return { id, end_user_id, tags }
}

/** As the queue of holds asks, which repeats a conflict. */
async function hold(connection: DatabaseConnection, ...holds: Hold[]): Promise<readonly HoldAttempt[]> {
  const results = [...(await holdBatch(connection, gateway_id, holds, 5_000))]
  for (const [at, asked] of holds.entries())
    while (results[at]?.outcome === "conflict")
      results[at] = nth(await holdBatch(connection, gateway_id, [asked], 5_000), 0)
  return results
}
const outcomes = async (...holds: Hold[]) => (await hold(first, ...holds)).map(({ outcome }) => outcome)
const end = (id: string, charge: bigint) => endUnknown(settled(id, charge))

async function used(id: string) {
  const found = await getBudget(db.database.operators, id)
  return found && [found.spent, found.held, found.amount - found.most_used]
}
const counters = async (id: string) =>
  [
    ...(await db.sql`SELECT member, spent::int, held::int FROM tollgate.budget_windows WHERE id = ${id} AND member <> ''
    ORDER BY member`),
  ].map(({ member, spent, held }) => [member, spent, held])

/** No counter differs from the journal, by both audits. */
async function exact({ account_id }: Account) {
  for (const settle_ms of [0, 60_000]) {
    const found = await audit(db.database.operators, { settle_ms })
    expect(found.violations.filter(({ kind }) => kind.startsWith("budget"))).toEqual([])
  }
  expect(await differences(db.database.operators, account_id)).toEqual([])
}

const reachedIn = (result: HoldResult | HoldAttempt | undefined) =>
  result?.outcome === "budget_reached" ? result.budget : null

describe("D97 a budget of each", () => {
  test("makes one counter for each, once, and sells none twice, by four connections at the same time", async () => {
    const account = await db.account(1_000_000n)
    const { id } = await budget(account, { thresholds: [50] })
    await db.sql.unsafe(
      `ALTER TABLE tollgate.budget_windows ADD CONSTRAINT watched CHECK (id <> '${id}' OR spent + held <= 100)`,
    )
    const users = await Promise.all(Array.from({ length: 12 }, (_, at) => labelled(account, `user ${at}`)))
    const lock = await lockAccount(db.sql, account.account_id)
    const asking = connections.map((connection) =>
      hold(
        connection,
        ...users.flatMap((labels) => [60n, 41n].map((amount) => holdOf(account, amount, { labels }))),
      ),
    )
    await lockWaiters(db.sql, connections.length)
    await lock.unlock()
    const results = (await Promise.all(asking)).flat()
    expect(results.filter(({ outcome }) => outcome === "held").length).toBe(24)
    expect(await counters(id)).toEqual(
      users
        .map(({ end_user_id }) => [end_user_id, 0, 82])
        .toSorted(([one], [other]) => (String(one) < String(other) ? -1 : 1)),
    )
    const [parent] =
      await db.sql`SELECT members, spent::int, held::int FROM tollgate.budget_windows WHERE id = ${id} AND member = ''`
    expect(parent).toEqual({ members: 12, spent: 0, held: 0 })
    await exact(account)
    await db.sql.unsafe("ALTER TABLE tollgate.budget_windows DROP CONSTRAINT watched")
  })

  test("has a counter for at most 10,000 of a window: it refuses others if it is hard, and does not count them in an alert", async () => {
    const account = await db.account(10_000n)
    const hard = await budget(account)
    const [ann, bob, cid] = [
      await labelled(account, "ann"),
      await labelled(account, "bob"),
      await labelled(account, "cid"),
    ]
    await hold(first, holdOf(account, 1n, { labels: ann }))
    const full = (id: string) =>
      db.sql`UPDATE tollgate.budget_windows SET members = 9999 WHERE id = ${id} AND member = ''`
    await full(hard.id)
    const results = await hold(first, ...[ann, bob, cid].map((labels) => holdOf(account, 0n, { labels })))
    expect(results.map(({ outcome }) => outcome).toSorted()).toEqual(["budget_reached", "held", "held"])
    expect(reachedIn(results.find(({ outcome }) => outcome === "budget_reached"))).toMatchObject({
      amount: 0n,
      held: 0n,
    })
    const quoted = async (end_user: string) => {
      const facts = {
        account_id: account.account_id,
        id: account.key_id,
        group_path: null,
        model: "m",
        tags: {},
      }
      const budgets = await budgetsOfCall(db.database.operators, { ...facts, end_user })
      return budgets.map(({ amount, held }) => [amount, held])
    }
    expect(await quoted("ann")).toEqual([[100n, 1n]])
    expect(await quoted("new")).toEqual([[0n, 0n]])
    await changeBudget(db.database.operators, hard.id, { change: "changed", is_hard: false, ...AUTHOR })
    expect(await outcomes(...[bob, cid].map((labels) => holdOf(account, 5n, { labels })))).toEqual([
      "held",
      "held",
    ])
    expect((await counters(hard.id)).length).toBe(2)
    await falsify(db.sql, async (tx) => {
      await tx`UPDATE tollgate.budget_windows SET since = since - interval '40 days' WHERE id = ${hard.id}`
      await tx`UPDATE tollgate.holds SET held_at = held_at - interval '40 days' WHERE account_id = ${account.account_id}`
    })
    expect(await outcomes(...[bob, cid].map((labels) => holdOf(account, 5n, { labels })))).toEqual([
      "held",
      "held",
    ])
    expect((await counters(hard.id)).map(([, , held]) => held).toSorted()).toEqual([1, 5, 5])
    await exact(account)
  })

  test("counts the calls of its period from before, expiries, corrections and restored holds, and begins anew with a reset", async () => {
    const account = await db.account(10_000n)
    const [ann, bob, cid] = [
      await labelled(account, "ann"),
      await labelled(account, "bob", { team: "x" }),
      await labelled(account, "cid"),
    ]
    const [early, lost] = [holdOf(account, 30n, { labels: ann }), holdOf(account, 20n, { labels: bob })]
    await hold(first, early, lost, holdOf(account, 7n))
    const { id } = await budget(account, { thresholds: [25] })
    expect(await used(id)).toEqual([0n, 50n, 70n])
    await end(early.id, 25n)
    await expire(lost)
    await end(lost.id, 19n)
    const restored = holdOf(account, 40n, { labels: cid })
    await restoreBatch(first, gateway_id, [restored], 300)
    expect(await used(id)).toEqual([44n, 40n, 60n])
    await exact(account)
    expect(
      await outcomes(holdOf(account, 61n, { labels: cid }), holdOf(account, 60n, { labels: cid })),
    ).toEqual(["budget_reached", "held"])
    await end(restored.id, 1n)
    const crossed =
      await db.sql`SELECT member, percent FROM tollgate.budget_crossings WHERE budget_id = ${id}`
    expect([...crossed]).toEqual([{ member: ann.end_user_id, percent: 25 }])
    await changeBudget(db.database.operators, id, { change: "reset", ...AUTHOR })
    expect(await used(id)).toEqual([0n, 0n, 100n])
    expect(await outcomes(holdOf(account, 100n, { labels: cid }))).toEqual(["held"])
    await exact(account)
  })

  test("is not touched by erasure, which makes the next call that of another end user", async () => {
    const account = await db.account(10_000n)
    const mine = await budget(account, { selected: "ann", amount: 10n })
    expect(await outcomes(holdOf(account, 11n, { labels: await labelled(account, "ann") }))).toEqual([
      "budget_reached",
    ])
    expect((await budget(account, { selected: "ann" })).selected).toBe(mine.selected)
    const each = await budget(account)
    await hold(first, holdOf(account, 9n, { labels: await labelled(account, "ann") }))
    const forgotten = await forgetEndUser(db.database.operators, account.account_id, "ann")
    expect(forgotten?.id).toBe(mine.selected ?? "")
    expect(await outcomes(holdOf(account, 100n, { labels: await labelled(account, "ann") }))).toEqual([
      "held",
    ])
    expect((await counters(each.id)).map(([, , held]) => held).toSorted()).toEqual([100, 9])
    expect(await used(mine.id)).toEqual([0n, 9n, 1n])
    await exact(account)
  })

  test("forgets counters of windows that have ended a day ago, and no others", async () => {
    const account = await db.account(10_000n)
    const [day, total] = [
      await budget(account, { period: "day" }),
      await budget(account, { period: "total" }),
    ]
    const users = await Promise.all(["ann", "bob", "cid"].map((name) => labelled(account, name)))
    const holds = users.map((labels) => holdOf(account, 5n, { labels }))
    await hold(first, ...holds)
    await falsify(db.sql, async (tx) => {
      for (const [at, days] of [2, 1].entries()) {
        const { id, end_user_id } = nth(users, at)
        await tx`UPDATE tollgate.budget_windows SET since = since - ${days} * interval '1 day'
          WHERE account_id = ${account.account_id} AND member = ${end_user_id}`
        await tx`UPDATE tollgate.holds SET held_at = held_at - ${days} * interval '1 day' WHERE labels_id = ${id}`
      }
    })
    await forgetMembers(first)
    expect([(await counters(day.id)).length, (await counters(total.id)).length]).toEqual([2, 3])
    for (const { id } of holds) await end(id, 5n)
    expect(await outcomes(...users.map((labels) => holdOf(account, 95n, { labels })))).toEqual([
      "held",
      "held",
      "held",
    ])
    expect((await counters(day.id)).map(([, spent, held]) => [spent, held])).toEqual(
      expect.arrayContaining([
        [0, 95],
        [0, 95],
        [5, 95],
      ]),
    )
  })
})

test("D99 each end user has its own budget per minute, whose counter is forgotten after a day", async () => {
  const account = await db.account(1_000n)
  // It refills so slowly that the time of the test does not matter.
  const made = await budget(account, { unit: "requests", amount: 2n, period: "minute" })
  const [ann, bob] = [await labelled(account, "ann"), await labelled(account, "bob")]
  const call = (labels: Labels) => holdOf(account, 1n, { labels, tokens: 1 })
  const [one, ...others] = [call(ann), call(ann), call(bob)]
  if (one === undefined) throw new Error("there are three")
  expect(await outcomes(one, ...others)).toEqual(["held", "held", "held"])
  const [refused] = await hold(first, call(ann))
  expect(refused).toMatchObject({
    outcome: "budget_reached",
    budget: { selected: ann.end_user_id, period: "minute", amount: 2n },
    wait_ms: expect.any(Number),
    rates: [{ unit: "requests", limit: 2n, remaining: 0n }],
  })
  expect(await used(made.id)).toEqual([3n, 0n, 0n])
  await end(one.id, 1n)
  await exact(account)
  await db.sql`UPDATE tollgate.budget_windows SET step_at = step_at - interval '25 hours' WHERE id = ${made.id} AND member = ${ann.end_user_id}`
  await forgetMembers(first)
  expect((await counters(made.id)).map(([member]) => member)).toEqual([bob.end_user_id])
  expect(await outcomes(call(ann), call(ann))).toEqual(["held", "held"])
})
