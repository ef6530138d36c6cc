import { afterAll, describe, expect, test } from "bun:test"
import { floorId, nextId } from "../../src/id.ts"
import { type BudgetOrder, changeBudget, getBudget } from "../../src/ledger/accounts/budgets.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import { addMonths } from "../../src/ledger/archive/months.ts"
import type { End, Hold } from "../../src/ledger/entries.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { restoreBatch } from "../../src/ledger/money/restore.ts"
import { makeClock, stopClock, WoundSession } from "./budget-clock.ts"
import { budgetOf } from "./budget-order.ts"
import { type Account, holdOf, openTestDatabase, released, settled, statementsOf } from "./test-database.ts"

/** D99: budgets per minute, on a real Postgres whose clock the tests wind. */

const AUTHOR = { actor: "test", reason: null }
const BEGINS = Math.floor(Date.now() / 60_000) * 60_000

let calls = 0

const db = await openTestDatabase()
await makeClock(db)
await stopClock(db)
await addMonths(db.database.operators)
const session = new WoundSession(db.address)
const gateway_id = await db.gateway()
const { ask, endUnknown: end, expire } = statementsOf(session.connection, gateway_id)
afterAll(async () => {
  await session.close()
  await db.close()
})

const at = (s: number) => session.wind(BEGINS + s * 1_000)

const TOKENS = { name: "Tokens", unit: "tokens", period: "minute" } as const

async function rate(account: Account, changes: Partial<BudgetOrder> = {}): Promise<string> {
  const order = { ...TOKENS, amount: 100_000n, ...changes }
  return (await budgetOf(session.database, account, order)).id
}

/** Its id has the wound clock's time, and follows those before it. */
function callOf(account: Account, tokens: number, changes: Partial<Hold> = {}): Hold {
  calls += 1
  const id = `${floorId(new Date(session.ahead_ms)).slice(0, 14)}7${calls.toString(16).padStart(3, "0")}${nextId().slice(18)}`
  return holdOf(account, 1n, { id, tokens, ...changes })
}

/** `held`, the seconds until the call fits, or another outcome. */
async function hold(...holds: Hold[]): Promise<(string | number)[]> {
  const results = await ask(...holds)
  return results.map((result) =>
    result.outcome === "budget_reached" && result.wait_ms !== undefined
      ? result.wait_ms / 1_000
      : result.outcome,
  )
}

function using(call: Hold, prompt_tokens: number): End {
  return settled(call.id, 1n, { usage: { prompt_tokens, cached_tokens: 0, completion_tokens: 0 } })
}

async function left(id: string): Promise<bigint> {
  const budget = await getBudget(session.database, id)
  if (budget === null) throw new Error("there is no such budget")
  return budget.amount - budget.spent - budget.held
}

describe("D99 a budget per minute", () => {
  test("refills evenly, and takes back what a call did not use: the example of the page", async () => {
    await at(0)
    const account = await db.account(1_000n)
    const id = await rate(account)
    const a = callOf(account, 70_000)
    expect(await hold(a)).toEqual(["held"])
    expect(await left(id)).toBe(30_000n)
    await at(1)
    expect(await hold(callOf(account, 60_000))).toEqual([19])
    await at(4)
    expect(await hold(callOf(account, 1_000))).toEqual([18])
    expect(await left(id)).toBe(33_333n)
    await at(10)
    await end(using(a, 5_000))
    expect(await left(id)).toBe(100_000n)
    await at(20)
    expect(await hold(callOf(account, 60_000))).toEqual(["held"])
    expect(await left(id)).toBe(40_000n)
  })

  test("keeps one place, in the order of the calls, until 5 s after the call fits", async () => {
    await at(0)
    const account = await db.account(10_000n)
    await rate(account, { amount: 900n })
    await hold(callOf(account, 900))
    expect(await hold(callOf(account, 300))).toEqual([22])
    // What comes later also waits for the room that is kept.
    expect(await hold(callOf(account, 600))).toEqual([62])
    await at(22)
    expect(await hold(callOf(account, 30))).toEqual([2])
    await at(26.999)
    expect(await hold(callOf(account, 400))).not.toEqual(["held"])
    await at(27)
    expect(await hold(callOf(account, 330))).toEqual(["held"])
  })

  test("keeps no room for a call that something else refuses, or that never fits", async () => {
    await at(0)
    const account = await db.account(100n)
    const id = await rate(account, { amount: 1_000n })
    await hold(callOf(account, 900))
    const none = async () => {
      const [row] = await db.sql`SELECT waiting_amount FROM tollgate.budget_windows WHERE id = ${id}`
      expect(row?.waiting_amount).toBeNull()
    }
    expect(await hold(callOf(account, 500, { amount_nano: 1_000n }))).toEqual(["insufficient_balance"])
    await none()
    expect(await hold(callOf(account, 1_001))).toEqual(["budget_reached"])
    await none()
    const month = await rate(account, { period: "month", amount: 950n })
    expect(await hold(callOf(account, 500))).toEqual(["budget_reached"])
    await none()
    await changeBudget(session.database, month, { change: "deleted", ...AUTHOR })
    expect(await hold(callOf(account, 500))).toEqual([26])
  })

  test("counts overage, late settlements, lost and restored calls, and after a reset nothing from before", async () => {
    await at(0)
    const account = await db.account(1_000n)
    const id = await rate(account, { amount: 1_000n })
    const [lost, over] = [callOf(account, 300), callOf(account, 100)]
    await hold(lost, over)
    await at(3)
    expect(await expire(lost)).toEqual([true])
    await end(using(over, 150))
    expect(await left(id)).toBe(850n)
    await end(using(lost, 40))
    expect(await left(id)).toBe(810n)
    const before = callOf(account, 10)
    await hold(before)
    await at(4)
    await changeBudget(session.database, id, { change: "reset", ...AUTHOR })
    await hold(callOf(account, 100))
    await end(using(before, 0))
    expect(await left(id)).toBe(900n)
    // The restored hold has the time of the server.
    await session.wind(Date.now() - 60_000)
    const later = await db.account(1_000n)
    const restoring = await rate(later, { amount: 1_000n })
    const restored = callOf(later, 200)
    await restoreBatch(session.connection, gateway_id, [restored], 300)
    expect(await left(restoring)).toBe(800n)
    await end(using(restored, 30))
    expect(await left(restoring)).toBe(970n)
  })
})

test("D99 four connections never let more than the limit through, and the audit agrees", async () => {
  const account = await db.account(1_000_000_000n)
  const limit = 1_000
  await budgetOf(db.database.operators, account, { ...TOKENS, amount: BigInt(limit) })
  let held = 0
  await Promise.all(
    [1, 2, 3, 4].map(async (worker) => {
      const connection = db.connection()
      for (let round = 0; round < 25; round += 1) {
        const calls = Array.from({ length: 1 + (round % 3) }, (_, place) =>
          holdOf(account, 1n, { tokens: 1 + ((round * 37 + worker * 11 + place * 5) % 90) }),
        )
        const results = await holdBatch(connection, gateway_id, calls, 5_000)
        const taken = calls.filter((_, place) => results[place]?.outcome === "held")
        held += taken.length
        const ends = taken.map((call) => ({
          end:
            round % 4 === 0 ? released(call.id) : using(call, (call.tokens ?? 0) - ((call.tokens ?? 0) % 7)),
          hold: null,
        }))
        if (ends.length > 0) await endBatch(connection, ends, 5_000)
      }
    }),
  )
  expect(held).toBeGreaterThan(20)
  const calls = await db.sql`SELECT extract(epoch FROM h.held_at)::float8 * 1000 AS at,
      CASE e.outcome WHEN 'released' THEN 0 ELSE e.prompt_tokens END AS used
    FROM tollgate.holds h JOIN tollgate.ends e ON e.id = h.id WHERE h.account_id = ${account.account_id} ORDER BY h.held_at`
  let [level, before] = [0, 0]
  for (const call of calls) {
    level = Math.max(0, level - (limit * (call.at - before)) / 60_000) + call.used
    before = call.at
    expect(level).toBeLessThanOrEqual(limit)
  }
  expect(level).toBeGreaterThan(limit / 2)
  const found = await audit(db.database.operators, { settle_ms: 0 })
  expect(found.violations.filter(({ kind }) => kind.startsWith("budget"))).toEqual([])
}, 60_000)
