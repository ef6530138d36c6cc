import { describe, expect, test } from "bun:test"
import {
  type BudgetOrder,
  type BudgetUpdate,
  changeBudget,
  getBudget,
} from "../../src/ledger/accounts/budgets.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { restoreBatch } from "../../src/ledger/money/restore.ts"
import { makeClock, WoundSession } from "./budget-clock.ts"
import { budgetOf } from "./budget-order.ts"
import {
  type Account,
  falsify,
  holdOf,
  lockAccount,
  lockWaiters,
  OTHER_MODEL,
  settled,
  statementsOf,
  testGateway,
  violations,
} from "./test-database.ts"

/** D97: budgets of an account, on a real Postgres. */

const { db, connection, connections, gateway_id, ask: hold, outcomes, endUnknown: end } = await testGateway()
await makeClock(db)

const AUTHOR = { actor: "test", reason: "because" }

const budget = (account: Account, changes: Partial<BudgetOrder> = {}) =>
  budgetOf(db.database.operators, account, { name: "Everything", ...AUTHOR, ...changes })

const change = (id: string, update: BudgetUpdate) => changeBudget(db.database.operators, id, update)

async function used(id: string) {
  const found = await getBudget(db.database.operators, id)
  return found && { spent: found.spent, held: found.held }
}

/** No counter differs from the journal. The tests charge what tokens do not cost. */
async function exact(account: Account) {
  const found = await audit(db.database.operators, { settle_ms: 0 })
  expect(
    found.violations.filter(({ kind, account_id }) => kind !== "charge" && account_id === account.account_id),
  ).toEqual([])
  expect(await violations(db.sql, { overdrawn: true })).toEqual([])
}

describe("D97 a budget", () => {
  test("an alert refuses nothing, and each threshold of a window is written once", async () => {
    const account = await db.account(1_000n)
    const alert = await budget(account, { is_hard: false, thresholds: [50, 100, 200] })
    const holds = [40, 40, 40].map((amount) => holdOf(account, BigInt(amount)))
    expect(await outcomes(...holds)).toEqual(["held", "held", "held"])
    const crossed = async () =>
      (
        await db.sql`SELECT percent, spent::int, amount::int FROM tollgate.budget_crossings WHERE budget_id = ${alert.id}
        ORDER BY percent`
      ).map(({ percent, spent, amount }) => [percent, spent, amount])
    const [one, two, three] = holds.map(({ id }) => settled(id, 40n))
    if (one === undefined || two === undefined || three === undefined) throw new Error("there are three")
    await end(one)
    expect(await crossed()).toEqual([])
    await end(two)
    await end(two)
    expect(await crossed()).toEqual([[50, 80, 100]])
    await end(three)
    expect(await crossed()).toEqual([
      [50, 80, 100],
      [100, 120, 100],
    ])
    await exact(account)
  })

  test("every change is an entry, a raise ends by itself, and a reset begins anew", async () => {
    const account = await db.account(1_000n)
    const { id } = await budget(account)
    await hold(holdOf(account, 100n))
    const raise = { amount: 150n, until: new Date(Date.now() + 3_600_000) }
    await change(id, { change: "raised", raise, ...AUTHOR })
    expect(await outcomes(holdOf(account, 51n), holdOf(account, 50n))).toEqual(["budget_reached", "held"])
    await change(id, { change: "raised", raise: { ...raise, until: new Date(Date.now() - 1) }, ...AUTHOR })
    expect(await outcomes(holdOf(account, 1n))).toEqual(["budget_reached"])
    await change(id, { change: "reset", ...AUTHOR })
    expect(await used(id)).toEqual({ spent: 0n, held: 0n })
    await change(id, { change: "changed", amount: 10n, ...AUTHOR })
    expect(await outcomes(holdOf(account, 11n), holdOf(account, 10n))).toEqual(["budget_reached", "held"])
    await exact(account)
    await change(id, { change: "deleted", ...AUTHOR })
    expect(await change(id, { change: "deleted", ...AUTHOR })).toBeNull()
    expect(await outcomes(holdOf(account, 500n))).toEqual(["held"])
    const entries =
      await db.sql`SELECT change, settings->>'amount' AS amount, actor, reason FROM tollgate.budget_entries
      WHERE budget_id = ${id} ORDER BY id`
    expect(entries.map(({ change, amount }) => `${change} ${amount}`)).toEqual([
      "created 100",
      "raised 100",
      "raised 100",
      "reset 100",
      "changed 10",
      "deleted 10",
    ])
    expect(entries.every(({ actor, reason }) => actor === "test" && reason === "because")).toBe(true)
    expect(db.sql`UPDATE tollgate.budget_entries SET actor = ''`.execute()).rejects.toThrow("never changed")
  })

  test("a hold and an end that wait while a budget is made or changed are asked again, and count", async () => {
    const account = await db.account(1_000n)
    await budget(account, { amount: 500n })
    const open = holdOf(account, 30n)
    await hold(open)
    const [, second, third] = connections
    if (second === undefined || third === undefined) throw new Error("there are four")
    await using lock = await lockAccount(db.sql, account.account_id)
    const making = budget(account, { amount: 50n })
    await lockWaiters(db.sql, 1)
    const late = holdOf(account, 40n)
    const holding = holdBatch(second, gateway_id, [late], 5_000)
    const ending = endBatch(third, [{ end: settled(open.id, 20n), hold: null }], 5_000)
    await lockWaiters(db.sql, 3)
    await lock.unlock()
    const made = await making
    expect(await holding).toEqual([{ outcome: "conflict" }])
    expect(await ending).toEqual(["conflict"])
    expect(await used(made.id)).toEqual({ spent: 0n, held: 30n })
    expect(await end(settled(open.id, 20n))).toEqual(["applied"])
    expect(await used(made.id)).toEqual({ spent: 20n, held: 0n })
    expect(await outcomes(late)).toEqual(["budget_reached"])
    await exact(account)
  })

  test("the audit finds a counter that differs from the journal, and names the budget", async () => {
    const account = await db.account(1_000n)
    const made = await budget(account, { unit: "tokens", amount: 100n })
    await hold(holdOf(account, 1n, { tokens: 5 }))
    await db.sql`UPDATE tollgate.budget_windows SET spent = spent + 2, held = held + 1 WHERE id = ${made.id}`
    for (const settle_ms of [0, 60_000]) {
      const found = await audit(db.database.operators, { settle_ms })
      expect(found.violations.filter(({ kind }) => kind.startsWith("budget"))).toEqual([
        {
          kind: "budget_held",
          account_id: account.account_id,
          id: made.id,
          recorded_nano: 6_000_000_000n,
          expected_nano: 5_000_000_000n,
        },
        {
          kind: "budget_spent",
          account_id: account.account_id,
          id: made.id,
          recorded_nano: 2_000_000_000n,
          expected_nano: 0n,
        },
      ])
    }
    await db.sql`UPDATE tollgate.budget_windows SET spent = spent - 2, held = held - 1 WHERE id = ${made.id}`
    await falsify(
      db.sql,
      (tx) => tx`UPDATE tollgate.holds SET held_at = held_at - interval '40 days'
      WHERE account_id = ${account.account_id}`,
    )
    const found = await audit(db.database.operators, { settle_ms: 0 })
    expect(found.violations.filter(({ kind }) => kind.startsWith("budget"))).toMatchObject([
      { kind: "budget_held", recorded_nano: 5_000_000_000n, expected_nano: 0n },
    ])
  })
})

describe("D97 the windows of a budget", () => {
  test.each([
    ["hour", "UTC", "2026-11-26T10:59:59Z", "2026-11-26T10:00:00Z", "2026-11-26T11:00:00Z"],
    ["hour", "Asia/Kolkata", "2026-11-26T10:59:59Z", "2026-11-26T10:30:00Z", "2026-11-26T11:30:00Z"],
    ["hour", "Europe/Berlin", "2026-10-25T01:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"],
    ["day", "Europe/Berlin", "2026-03-29T10:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"],
    ["day", "Europe/Berlin", "2026-10-25T23:30:00Z", "2026-10-25T23:00:00Z", "2026-10-26T23:00:00Z"],
    ["week", "America/New_York", "2026-11-30T04:59:59Z", "2026-11-23T05:00:00Z", "2026-11-30T05:00:00Z"],
    ["month", "Asia/Tokyo", "2026-11-30T15:00:00Z", "2026-11-30T15:00:00Z", "2026-12-31T15:00:00Z"],
    ["month", "UTC", "2028-02-29T23:59:59Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"],
    // Havana repeats the hour after midnight.
    ["day", "America/Havana", "2026-11-01T04:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"],
    ["day", "America/Havana", "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"],
    ["day", "America/Havana", "2026-10-31T12:00:00Z", "2026-10-31T04:00:00Z", "2026-11-01T04:00:00Z"],
    // Cairo has no midnight on this day.
    ["day", "Africa/Cairo", "2026-04-24T12:00:00Z", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"],
  ])("%s in %s at %s", async (period, timezone, at, from, to) => {
    const [row] = await db.sql`SELECT tollgate.window_start(${period}, ${timezone}, ${at}) AS "from",
      tollgate.window_end(${period}, ${timezone}, ${at}) AS "to"`
    expect([row?.from, row?.to]).toEqual([new Date(from), new Date(to)])
  })

  test("begin at their time, in the order of the calls: no call counts in two, and none is lost", async () => {
    const account = await db.account(100_000n)
    const session = new WoundSession(db.address)
    const wound = statementsOf(session.connection, gateway_id)
    const day = await budget(account, { period: "day", timezone: "Europe/Berlin" })
    const hour = await budget(account, {
      period: "hour",
      selector: "model",
      selected: "other",
      amount: 1_000n,
    })
    const midnight = day.resets_at?.getTime() ?? 0
    const at = async (ms: number, amount: bigint, changes: Partial<Hold> = {}) => {
      await session.wind(midnight + ms - Date.now())
      const asked = holdOf(account, amount, { id: session.nextId(), ...changes })
      const [outcome] = await wound.outcomes(asked)
      return { outcome, asked }
    }
    const evening = await at(-60_000, 100n)
    expect(evening.outcome).toBe("held")
    expect((await at(-30_000, 1n)).outcome).toBe("budget_reached")
    const night = await at(1_000, 100n, { terms_id: OTHER_MODEL })
    expect(night.outcome).toBe("held")
    // A gateway whose statement began before midnight comes late: it counts in the new day.
    expect((await at(-1_000, 1n)).outcome).toBe("budget_reached")
    await wound.endUnknown(settled(evening.asked.id, 70n))
    await wound.endUnknown(settled(night.asked.id, 60n, { terms_id: OTHER_MODEL }))
    expect((await at(-1_000, 40n, { terms_id: OTHER_MODEL })).outcome).toBe("held")
    const rows = await db.sql`SELECT id, spent::int, held::int FROM tollgate.budget_windows
      WHERE account_id = ${account.account_id}`
    expect(new Map(rows.map(({ id, spent, held }) => [id, [spent, held]]))).toEqual(
      new Map([
        [day.id, [60, 40]],
        [hour.id, [60, 40]],
      ]),
    )
    await exact(account)
    await session.close()
  })

  test("begin with a restored hold, if no call came since: it is not counted in the window before", async () => {
    const account = await db.account(1_000n)
    const made = await budget(account, { period: "day", thresholds: [50] })
    const tokens = await budget(account, { period: "day", unit: "tokens", amount: 1_000n })
    const [paid, lost] = [holdOf(account, 60n), holdOf(account, 90n, { tokens: 70 })]
    await hold(paid)
    await end(settled(paid.id, 60n))
    await falsify(db.sql, async (tx) => {
      await tx`UPDATE tollgate.holds SET held_at = held_at - interval '1 day' WHERE id = ${paid.id}`
      for (const table of ["budget_windows", "budget_crossings"])
        await tx`UPDATE ${tx(`tollgate.${table}`)} SET since = since - interval '1 day' WHERE account_id = ${account.account_id}`
    })
    await restoreBatch(connection, gateway_id, [lost], 300)
    expect(await used(made.id)).toEqual({ spent: 0n, held: 90n })
    expect((await used(tokens.id))?.held).toBe(70n)
    await exact(account)
    expect(await outcomes(holdOf(account, 11n))).toEqual(["budget_reached"])
    expect(await outcomes(holdOf(account, 10n))).toEqual(["held"])
    expect(await end(settled(lost.id, 80n))).toEqual(["applied"])
    expect(await used(made.id)).toEqual({ spent: 80n, held: 10n })
    await exact(account)
    const crossed = await db.sql`SELECT percent, spent::int FROM tollgate.budget_crossings
      WHERE budget_id = ${made.id} ORDER BY since`
    expect([...crossed]).toEqual([
      { percent: 50, spent: 60 },
      { percent: 50, spent: 80 },
    ])
  })
})
