import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { changeBudget } from "../../src/ledger/accounts/budgets.ts"
import { addMonths } from "../../src/ledger/archive/months.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { endBatch } from "../../src/ledger/money/end.ts"
import { expireBatch } from "../../src/ledger/money/expire.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import type { HoldAttempt } from "../../src/ledger/money/hold-exact.ts"
import type { RateLeft } from "../../src/wire/budget.ts"
import { makeClock, stopClock, WoundSession } from "./budget-clock.ts"
import { budgetOf } from "./budget-order.ts"
import { admit, keepRoom, ModelRate, type RateCall } from "./rate-model.ts"
import { step } from "./steps.ts"
import {
  type Account,
  holdOf,
  idAt,
  keyOf,
  released,
  settled,
  testDatabase,
  violations,
} from "./test-database.ts"

/** D99: every verdict of the statement that holds is that of a model, and never more than the limit is let through. */

const HISTORIES = Number(process.env.RATE_HISTORIES ?? 50)
const SEED = Number(process.env.RATE_SEED ?? 1)
const BEGINS = Math.floor(Date.now() / 60_000) * 60_000 + 777
const AUTHOR = { actor: "test", reason: null }

const db = await testDatabase()
await makeClock(db)
await stopClock(db)
await addMonths(db.database.operators)
const gateway_id = await db.gateway()

const rate = fc.record({
  key: fc.option(fc.nat(1)),
  unit: fc.constantFrom("tokens" as const, "tokens" as const, "requests" as const),
  amount: fc.oneof(fc.integer({ min: 0, max: 120 }), fc.integer({ min: 1, max: 8 })),
})
const anyStep = fc.oneof(
  step(6, ["hold"], {
    calls: fc.array(
      fc.record({
        key: fc.nat(1),
        nano: fc.integer({ min: 1, max: 9 }),
        tokens: fc.integer({ min: 1, max: 70 }),
      }),
      { minLength: 1, maxLength: 4 },
    ),
  }),
  step(1, ["again"], {}),
  step(4, ["settle", "settle", "release", "expire"], {
    which: fc.nat(20),
    part: fc.double({ min: 0, max: 1, noNaN: true }),
    is_known: fc.boolean(),
  }),
  step(5, ["wait"], {
    ms: fc.oneof(fc.integer({ min: 1, max: 9_000 }), fc.constantFrom(1, 2_000, 60_000, 70_000, 400_000)),
  }),
  step(1, ["change", "reset"], { which: fc.nat(3), amount: fc.nat(100) }),
)
const history = fc.record({
  rates: fc.array(rate, { minLength: 1, maxLength: 3 }),
  steps: fc.array(anyStep, { minLength: 1, maxLength: 25 }),
})
type History = typeof history extends fc.Arbitrary<infer Value> ? Value : never
type Step = History["steps"][number]

class Player {
  readonly #session: WoundSession
  readonly #keys: readonly Account[]
  readonly #rates: ModelRate[] = []
  readonly #open: { readonly hold: Hold; readonly call: RateCall }[] = []
  /** Calls that were refused in the last step. */
  #refused: readonly { readonly hold: Hold; readonly call: RateCall }[] = []
  #now = BEGINS
  /** True for every other batch: it is asked of the statement for limited accounts first. */
  #is_limited = false
  is_changed = false

  constructor(session: WoundSession, keys: readonly Account[]) {
    this.#session = session
    this.#keys = keys
  }

  async begin(rates: History["rates"]): Promise<void> {
    await this.#session.wind(this.#now)
    for (const { key, unit, amount } of rates) {
      const owner = key === null ? null : this.#key(key).key_id
      const { id } = await budgetOf(this.#session.database, this.#key(0), {
        ...{ unit, amount: BigInt(amount), period: "minute" },
        ...{ selector: owner === null ? "all" : "key", selected: owner },
      })
      this.#rates.push(new ModelRate(id, owner, unit, amount, this.#now))
    }
  }

  async play(step: Step): Promise<void> {
    switch (step.act) {
      case "hold":
        return this.#hold(
          step.calls.map(({ key, nano, tokens }) => this.#callOf(this.#key(key), BigInt(nano), tokens)),
        )
      case "again":
        return this.#hold(this.#refused.map(({ hold, call }) => this.#callOf(hold, call.nano, call.tokens)))
      case "wait":
        this.#now += step.ms
        await this.#session.wind(this.#now)
        return
      case "change":
      case "reset":
        return this.#change(step)
      default:
        return this.#end(step)
    }
  }

  #key(at: number): Account {
    const key = this.#keys[at]
    if (key === undefined) throw new Error("there is no such key")
    return key
  }

  #callOf(key: Pick<Account, "account_id" | "key_id">, nano: bigint, tokens: number) {
    const id = idAt(this.#now)
    const hold = holdOf({ account_id: key.account_id, key_id: key.key_id }, nano, { id, tokens })
    const counts = { tokens, requests: 1 }
    return { hold, call: { id, key: key.key_id, nano, tokens, at: 0, counts } }
  }

  async #hold(asked: readonly { readonly hold: Hold; readonly call: RateCall }[]): Promise<void> {
    if (asked.length === 0) return
    this.#is_limited = !this.#is_limited
    const holds = asked.map(({ hold }) => ({ ...hold, is_limited: this.#is_limited }))
    const results = await holdBatch(this.#session.connection, gateway_id, holds, 300)
    const calls = asked.map(({ call }) => call)
    const held = admit(this.#rates, calls, this.#now)
    const waits = keepRoom(
      this.#rates,
      calls.filter(({ id }) => !held.has(id)),
      this.#now,
    )
    this.#refused = asked.filter(({ call }) => !held.has(call.id))
    for (const [at, one] of asked.entries()) {
      const result = results[at]
      if (result === undefined) throw new Error("a result is missing")
      if (!held.has(one.call.id)) {
        const wait = waits.get(one.call.id) ?? null
        expect(waitOf(result)).toBe(wait === null ? null : wait - this.#now)
        continue
      }
      expect(result.outcome).toBe("held")
      this.#open.push({ hold: { ...one.hold, is_limited: true }, call: one.call })
      this.#compare(one.call, result)
    }
    this.check()
  }

  #compare(call: RateCall, result: HoldAttempt): void {
    const concerned = this.#rates.filter((rate) => rate.concerns(call))
    if (result.outcome !== "held") throw new Error("it is not held")
    const left = concerned.map((rate) => ({
      unit: rate.unit,
      limit: BigInt(rate.amount),
      remaining: BigInt(Math.max(rate.amount - Math.ceil(rate.level / 30), 0)),
      reset_ms: Math.max(rate.refilledAt(rate.level, this.#now) - this.#now, 0),
    }))
    const order = (rates: readonly RateLeft[]) =>
      rates.map((one) => `${one.unit} ${one.limit} ${one.remaining} ${one.reset_ms}`).sort()
    expect(order(result.rates ?? [])).toEqual(order(left))
  }

  async #end({ act, which, part, is_known }: Extract<Step, { part: number }>): Promise<void> {
    const [item] = this.#open.splice(which % Math.max(this.#open.length, 1), 1)
    if (item === undefined) return
    const { hold, call } = item
    const { connection } = this.#session
    const used = act === "settle" ? Math.floor(call.tokens * part) : 0
    const counts = { tokens: used, requests: act === "release" ? 0 : 1 }
    if (act === "expire") expect(await expireBatch(connection, [hold], 300)).toEqual([true])
    else {
      const usage = { prompt_tokens: used, cached_tokens: 0, completion_tokens: 0 }
      const end = act === "release" ? released(call.id) : settled(call.id, 1n, { usage })
      const item = { end, hold: is_known ? hold : null }
      expect(await endBatch(connection, [item], 300)).toEqual(["applied"])
    }
    for (const rate of this.#rates) rate.end(call, counts)
    call.counts = counts
    this.check()
  }

  async #change({ act, which, amount }: Extract<Step, { act: "change" | "reset" }>): Promise<void> {
    const rate = this.#rates[which % this.#rates.length]
    if (rate === undefined) return
    this.is_changed = true
    if (act === "change") {
      await changeBudget(this.#session.database, rate.id, {
        change: "changed",
        amount: BigInt(amount),
        ...AUTHOR,
      })
      rate.advance(this.#now)
      rate.amount = amount
      return
    }
    // A call that is held in the same millisecond would count.
    this.#now += 1
    await this.#session.wind(this.#now)
    await changeBudget(this.#session.database, rate.id, { change: "reset", ...AUTHOR })
    const { id, key, unit, amount: same } = rate
    this.#rates.splice(this.#rates.indexOf(rate), 1, new ModelRate(id, key, unit, same, this.#now))
  }

  check(): void {
    if (!this.is_changed) for (const rate of this.#rates) expect(rate.isKept()).toBe(true)
  }
}

/** The wait of a call that was refused; null if waiting does not help. */
function waitOf(result: HoldAttempt): number | null {
  if (result.outcome !== "budget_reached") throw new Error(`${result.outcome} instead of budget_reached`)
  return result.wait_ms ?? null
}

describe("D99 budgets per minute", () => {
  test("every verdict is that of the model, and a leaky bucket of the limit never overflows", async () => {
    const session = new WoundSession(db.address)
    try {
      await fc.assert(
        fc.asyncProperty(history, async ({ rates, steps }) => {
          const account = await db.account(1_000_000n)
          const player = new Player(session, [account, await keyOf(db.sql, account, "name = 'b'")])
          await player.begin(rates)
          for (const step of steps) await player.play(step)
        }),
        { numRuns: HISTORIES, seed: SEED },
      )
    } finally {
      await session.close()
    }
    expect(await violations(db.sql, { overdrawn: true })).toEqual([])
  }, 86_400_000)
})
