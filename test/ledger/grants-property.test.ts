import { expect, test } from "bun:test"
import fc from "fast-check"
import { nextId } from "../../src/id.ts"
import { getAccount } from "../../src/ledger/accounts/accounts.ts"
import { credit, voidCredit } from "../../src/ledger/accounts/credits.ts"
import { endedGrants, openGrants } from "../../src/ledger/accounts/grants.ts"
import { audit } from "../../src/ledger/archive/audit.ts"
import type { DatabaseConnection, Runner } from "../../src/ledger/database/connection.ts"
import { Uncertain } from "../../src/ledger/database/database-errors.ts"
import type { Hold } from "../../src/ledger/entries.ts"
import { type EndOfHold, endBatch } from "../../src/ledger/money/end.ts"
import { expireBatch } from "../../src/ledger/money/expire.ts"
import { sweepGrants } from "../../src/ledger/money/grants.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { GrantsModel } from "./grants-model.ts"
import { type Account, falsify, holdOf, settled, testDatabase } from "./test-database.ts"

/** D95: random histories of grants and calls, compared with a model. 100,000 take an hour: `GRANT_HISTORIES=100000`. */

const HISTORIES = Number(process.env.GRANT_HISTORIES ?? 120)
const LANES = 4
const TIMEOUT_MS = 120_000 + HISTORIES * 500

/** Two for each lane, so that calls of one account come from two gateways at once. */

const db = await testDatabase()
const gateway_id = await db.gateway()
const lanes: (readonly [DatabaseConnection, DatabaseConnection])[] = Array.from(
  { length: LANES },
  () => [db.connection(), db.connection()] as const,
)

type Step =
  | readonly ["credit", amount: number, priority: number, starts_in: number, lasts: number | null]
  | readonly ["correct", amount: number]
  | readonly ["hold", amounts: readonly number[]]
  | readonly ["end", charges: readonly (readonly [place: number, charge: number, is_known: boolean])[]]
  | readonly ["lose" | "late", place: number, charge: number]
  | readonly ["advance", hours: number]
  | readonly ["void", place: number]
  | readonly ["fault", at: number]
  | readonly ["sweep" | "compare"]

const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.tuple(
      fc.constant("credit" as const),
      fc.integer({ min: 1, max: 50 }),
      fc.constantFrom(10, 50, 50, 50, 90),
      fc.constantFrom(0, 0, 0, 3, 12),
      fc.constantFrom(null, null, 2, 9, 25),
    ),
  },
  { weight: 1, arbitrary: fc.tuple(fc.constant("correct" as const), fc.integer({ min: 1, max: 20 })) },
  {
    weight: 5,
    arbitrary: fc.tuple(
      fc.constant("hold" as const),
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 3 }),
    ),
  },
  {
    weight: 5,
    arbitrary: fc.tuple(
      fc.constant("end" as const),
      fc.array(fc.tuple(fc.nat(9), fc.nat(50), fc.boolean()), { minLength: 1, maxLength: 3 }),
    ),
  },
  {
    weight: 4,
    arbitrary: fc.tuple(fc.constantFrom("lose" as const, "late" as const), fc.nat(9), fc.nat(50)),
  },
  { weight: 4, arbitrary: fc.tuple(fc.constant("advance" as const), fc.integer({ min: 1, max: 12 })) },
  { weight: 1, arbitrary: fc.tuple(fc.constant("void" as const), fc.nat(9)) },
  { weight: 2, arbitrary: fc.tuple(fc.constant("fault" as const), fc.nat(7)) },
  { weight: 1, arbitrary: fc.tuple(fc.constantFrom("sweep" as const, "compare" as const)) },
)

/** Rare among random histories: money comes back to a grant that is over, while calls are open that could hold it. */
const RETURN_AFTER_EXPIRY: Step[] = [
  ["credit", 10, 10, 0, 2],
  ["credit", 50, 50, 0, null],
  ["hold", [8]],
  ["lose", 0, 10],
  ["advance", 3],
  ["hold", [20]],
  ["late", 0, 2],
  ["end", [[0, 20, true]]],
]

/** Also rare: money comes back that two grants have paid, one after the other. */
const RETURN_TO_BOTH: Step[] = [
  ["credit", 10, 10, 0, 25],
  ["credit", 50, 50, 0, null],
  ["hold", [10]],
  ["lose", 0, 10],
  ["hold", [5]],
  ["lose", 0, 5],
  ["late", 0, 2],
]

/** Also rare: money comes back to a voided grant, of which an open call held all. */
const RETURN_AFTER_VOID: Step[] = [
  ["credit", 20, 10, 0, null],
  ["credit", 50, 50, 0, null],
  ["hold", [20]],
  ["void", 0],
  ["lose", 0, 20],
  ["late", 0, 15],
]

const LOST = new Error("the connection was lost")

/** A connection that is lost once: a statement of those that follow is rolled back, or is done and its answer is lost. */
function losing(connection: Runner, at: number): Runner {
  let statements = 0
  return {
    async run(asked, values, within_ms, size) {
      const is_lost = statements === at >> 1
      statements += 1
      if (!is_lost) return connection.run(asked, values, within_ms, size)
      if (at % 2 === 1) await connection.run(asked, values, within_ms, size)
      else
        await db.sql
          .begin(async (tx) => {
            await tx.unsafe(asked.text, [...values])
            throw LOST
          })
          .catch(() => {})
      throw LOST
    },
  }
}

const isLost = (error: unknown) => error === LOST || (error instanceof Uncertain && error.cause === LOST)

class History {
  readonly #model: GrantsModel
  readonly #account: Account
  readonly #lane: readonly [DatabaseConnection, DatabaseConnection]
  readonly #holds = new Map<string, Hold>()
  /** Charges of calls whose gateway was lost. */
  readonly #lost = new Map<string, number>()
  /** The fault of the next statements; null if there is none. */
  #fault: number | null = null

  constructor(account: Account, limit: number, lane: readonly [DatabaseConnection, DatabaseConnection]) {
    this.#account = account
    this.#lane = lane
    this.#model = new GrantsModel(limit)
  }

  /** Runs the steps. To which grants money comes back depends on when they were drawn, so then each step is a change of grants. */
  async runAll(history: readonly Step[]): Promise<void> {
    const is_stepwise = history.some(([kind]) => kind === "late")
    for (const step of history) {
      this.#model.step += 1
      const [kind, charges] = step
      await this.run(is_stepwise && kind === "end" ? ["end", charges.slice(0, 1)] : step)
      if (is_stepwise) await db.sql`SELECT tollgate.change_grants(${this.#account.account_id}::uuid)`
    }
    await this.compare()
  }

  async run(step: Step): Promise<void> {
    const model = this.#model
    switch (step[0]) {
      case "credit":
        return this.#credit(...step)
      case "correct":
        await this.#order({ id: nextId(), amount_nano: BigInt(-step[1]) })
        return model.spend(step[1])
      case "hold":
        return this.#hold(step[1])
      case "end":
        return this.#end(step[1])
      case "lose":
        return this.#lose(step[1], step[2])
      case "late":
        return this.#settleLate(step[1], step[2])
      case "advance":
        await advance(this.#account, step[1])
        return model.advance(step[1])
      case "void": {
        const grant = model.grants[step[1] % model.grants.length]
        if (grant === undefined) return
        await voidCredit(db.database.operators, grant.id, null)
        return model.void(grant)
      }
      case "fault":
        this.#fault = step[1]
        return
      case "sweep":
        return this.#repeated(0, sweepGrants)
      case "compare":
        return this.compare()
    }
  }

  async #credit(_: "credit", amount: number, priority: number, starts_in: number, lasts: number | null) {
    const id = nextId()
    const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000)
    await this.#order({
      id,
      amount_nano: BigInt(amount),
      priority,
      ...(starts_in > 0 && { effective_at: inHours(starts_in) }),
      ...(lasts !== null && { expires_at: inHours(starts_in + lasts) }),
    })
    this.#model.credit(id, amount, priority, starts_in, lasts)
  }

  async #order(order: Omit<Parameters<typeof credit>[1], "account_id" | "reason">): Promise<void> {
    const { account_id } = this.#account
    const made = await credit(db.database.operators, { ...order, account_id, reason: null })
    expect(made.outcome).toBe("credited")
  }

  /** Calls at the same time, each in its own statement; a refused one does not fit beside those that were held. */
  async #hold(amounts: readonly number[]): Promise<void> {
    const holds = amounts.map((amount) => holdOf(this.#account, BigInt(amount)))
    const outcomes = await Promise.all(holds.map((hold, at) => this.#attempt(hold, at)))
    for (const [at, hold] of holds.entries()) {
      if (outcomes[at] !== "held") continue
      this.#holds.set(hold.id, hold)
      this.#model.hold(hold.id, amounts[at] ?? 0)
    }
    const { available } = this.#model
    if (outcomes.includes("held")) expect(available).toBeGreaterThanOrEqual(0)
    for (const [at, outcome] of outcomes.entries()) {
      if (outcome === "held") continue
      expect(outcome).toBe("insufficient_balance")
      expect(amounts[at]).toBeGreaterThan(available)
    }
  }

  async #attempt(hold: Hold, at: number): Promise<string | undefined> {
    return this.#repeated(at, async (connection) => {
      const [held] = await holdBatch(connection, gateway_id, [hold], 1_000)
      return held?.outcome
    })
  }

  /** Repeats what is to be tried again, and what was lost, with the same ids as a gateway does. */
  async #repeated<Result>(at: number, ask: (connection: Runner) => Promise<Result>): Promise<Result> {
    for (;;) {
      try {
        const result = await ask(this.#connection(at))
        if (result !== "conflict" && result !== "delayed") return result
      } catch (error) {
        if (!isLost(error)) throw error
      }
    }
  }

  async #endOne(item: EndOfHold, at: number): Promise<void> {
    await this.#repeated(at, async (connection) => (await endBatch(connection, [item], 1_000))[0])
  }

  async #end(charges: readonly (readonly [place: number, charge: number, is_known: boolean])[]) {
    const ending = new Map<string, readonly [charge: number, is_known: boolean]>()
    for (const [place, charge, is_known] of charges) {
      const call = this.#model.calls[place % Math.max(1, this.#model.calls.length)]
      if (call !== undefined) ending.set(call.id, [charge, is_known])
    }
    await Promise.all(
      [...ending].map(async ([id, [charge, is_known]], at) => {
        const item = {
          end: settled(id, BigInt(charge)),
          hold: is_known ? (this.#holds.get(id) ?? null) : null,
        }
        await this.#endOne(item, at)
      }),
    )
    for (const [id, [charge]] of ending) this.#model.end(id, charge)
  }

  /** The gateway of a call is lost after this charge. */
  async #lose(place: number, charge: number): Promise<void> {
    const call = this.#model.calls[place % Math.max(1, this.#model.calls.length)]
    if (call === undefined) return
    await db.sql`INSERT INTO tollgate.checkpoints (id, gateway_id, charge_nano, basis)
      VALUES (${call.id}, ${gateway_id}, ${charge}, 'estimate')`
    const lost = { id: call.id, account_id: this.#account.account_id }
    expect(await expireBatch(this.#lane[0], [lost], 1_000)).toEqual([true])
    this.#lost.set(call.id, charge)
    this.#model.end(call.id, charge)
  }

  async #settleLate(place: number, charge: number): Promise<void> {
    const id = [...this.#lost.keys()][place % Math.max(1, this.#lost.size)]
    if (id === undefined) return
    await this.#endOne({ end: settled(id, BigInt(charge)), hold: null }, 0)
    const more = charge - (this.#lost.get(id) ?? 0)
    this.#lost.delete(id)
    if (more > 0) this.#model.spend(more)
    else this.#model.giveBack(-more)
  }

  #connection(at: number): Runner {
    const connection = this.#lane[at % 2 === 0 ? 0 : 1]
    const fault = this.#fault
    this.#fault = null
    return fault === null ? connection : losing(connection, fault)
  }

  async compare(): Promise<void> {
    const { account_id } = this.#account
    const { operators } = db.database
    const account = await getAccount(operators, account_id)
    const ids = this.#model.grants.map(({ id }) => id)
    const open = new Map(
      (await openGrants(operators, account_id)).map((each) => [each.credit_id, each.left_nano]),
    )
    const ended = await endedGrants(operators, account_id, ids)
    expect({
      balance: Number(account?.balance_nano),
      held: Number(account?.held_nano),
      grants: ids.map((id) => [
        Number(open.get(id) ?? 0n),
        Number(ended.get(id)?.expired_nano ?? 0n),
        Number(ended.get(id)?.voided_nano ?? 0n),
      ]),
    }).toEqual({
      balance: this.#model.balance,
      held: this.#model.held,
      grants: this.#model.grants.map((grant) => [this.#model.leftOf(grant), grant.expired, grant.voided]),
    })
  }
}

/** Lets time pass for one account: every time of it is earlier by so much. */
async function advance({ account_id }: Account, hours: number): Promise<void> {
  const by = `${hours} hours`
  await falsify(db.sql, async (tx) => {
    await tx`UPDATE tollgate.accounts SET next_change_at = next_change_at - ${by}::interval WHERE id = ${account_id}`
    await tx`UPDATE tollgate.grants SET starts_at = starts_at - ${by}::interval, expires_at = expires_at - ${by}::interval,
      made_at = made_at - ${by}::interval WHERE account_id = ${account_id}`
    await tx`UPDATE tollgate.credits SET effective_at = effective_at - ${by}::interval, expires_at = expires_at - ${by}::interval,
      created_at = created_at - ${by}::interval WHERE account_id = ${account_id}`
  })
}

test(
  "D95: grants are drawn, expire and are voided as in a model, by calls on two connections",
  async () => {
    const histories = fc.tuple(fc.constantFrom(0, 0, 15), fc.array(steps, { minLength: 4, maxLength: 16 }))
    await Promise.all(
      lanes.map((lane, at) =>
        fc.assert(
          fc.asyncProperty(histories, async ([limit, history]) => {
            const account = await db.account(0n)
            if (limit > 0)
              await db.sql`UPDATE tollgate.accounts SET credit_limit_nano = ${limit} WHERE id = ${account.account_id}`
            const run = new History(account, limit, lane)
            await run.runAll(history)
          }),
          {
            numRuns: Math.ceil(HISTORIES / LANES),
            seed: Number(process.env.GRANT_SEED ?? 1) + at,
            endOnFailure: true,
            examples: [RETURN_AFTER_EXPIRY, RETURN_TO_BOTH, RETURN_AFTER_VOID].map((history) => [
              [0, history],
            ]),
          },
        ),
      ),
    )
    const { violations } = await audit(db.database.operators, { settle_ms: 0 })
    // The charges of these calls are not those of their tokens.
    expect(violations.filter(({ kind }) => kind !== "charge")).toEqual([])
  },
  TIMEOUT_MS,
)
