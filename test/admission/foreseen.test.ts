import { expect, test } from "bun:test"
import fc from "fast-check"
import { predictRefusal } from "../../src/admission/admit.ts"
import { nextId } from "../../src/id.ts"
import { budgetsOfCall, createBudget } from "../../src/ledger/accounts/budgets.ts"
import { getKey } from "../../src/ledger/accounts/keys.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { readStandings } from "../../src/ledger/queue/standings.ts"
import { holdOf, settled, testGateway } from "../ledger/test-database.ts"

const { db, connection, gateway_id } = await testGateway()

/** Budgets in the order in which they are made, and a call for which some are too small. */
const budgets = fc.array(
  fc.record({
    unit: fc.constantFrom("usd", "tokens", "requests"),
    amount: fc.bigInt({ min: 100n, max: 300n }),
    period: fc.constantFrom("minute", "total", "day"),
  }),
  { minLength: 2, maxLength: 5 },
)
const { database } = db
/** A budget per minute refills with each step of 2 s, between the quote and the hold too. */
const stepOf = () => Math.floor(Date.now() / 2_000)
const cost = (amount_nano: bigint, tokens: number) => ({
  amount_nano,
  cost_pico: amount_nano * 1_000n,
  tokens,
})

test("D97 a quote names the budget that the hold names, or the balance", async () => {
  const histories = fc.tuple(
    budgets,
    fc.boolean(),
    fc.integer({ min: 1, max: 250 }),
    fc.constantFrom(400n, 9_000n),
  )
  const property = fc.asyncProperty(histories, async ([orders, is_open, tokens, balance]) => {
    const account = await db.account(balance)
    for (const { unit, amount, period } of orders) {
      if (unit === "usd" && period === "minute") continue
      const rest = {
        selector: "all",
        selected: null,
        timezone: "UTC",
        is_hard: true,
      } as const
      const order = {
        id: nextId(),
        account_id: account.account_id,
        name: unit,
        unit,
        amount,
        period,
        thresholds: [],
        ...rest,
      }
      expect(await createBudget(database.operators, { ...order, actor: "test", reason: null })).toMatchObject(
        {
          outcome: "created",
        },
      )
    }
    const first = holdOf(account, 90n, cost(90n, 90))
    const [before] = await holdBatch(connection, gateway_id, [first], 300)
    if (before?.outcome === "held" && !is_open)
      await endBatch(connection, [{ end: settled(first.id, 60n), hold: first }], 300)
    const [standing] = await readStandings(connection, [account.key_id], 0)
    const key = await getKey(database.operators, account.key_id)
    if (!standing || typeof standing === "string" || key === null) throw new Error("no key")
    const call = cost(BigInt(tokens * 2), tokens)
    const step = stepOf()
    const counted = await budgetsOfCall(database.operators, {
      ...key,
      model: "model",
      end_user: null,
      tags: {},
    })
    const seen = predictRefusal(standing, counted, "model", call)
    const [held] = await holdBatch(connection, gateway_id, [holdOf(account, call.amount_nano, call)], 300)
    const named = (result: typeof seen | typeof held) =>
      result && "budget" in result
        ? [result.outcome, result.budget.id, result.wait_ms !== undefined, result.budget.needed]
        : [result?.outcome ?? "held"]
    fc.pre(step === stepOf())
    expect(named(seen)).toEqual(named(held))
  })
  await fc.assert(property, { numRuns: Number(process.env.PROPERTY_RUNS ?? 40) })
})
