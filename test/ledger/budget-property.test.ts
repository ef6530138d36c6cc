import { afterAll, expect, test } from "bun:test"
import fc from "fast-check"
import { nextId } from "../../src/id.ts"
import { changeBudget, createBudget, listBudgets } from "../../src/ledger/accounts/budgets.ts"
import { changeKey } from "../../src/ledger/accounts/keys.ts"
import { addMonths } from "../../src/ledger/archive/months.ts"
import type { End, Hold, Labels } from "../../src/ledger/entries.ts"
import { forgetMembers } from "../../src/ledger/money/budgets.ts"
import { type EndOfHold, endBatch } from "../../src/ledger/money/end.ts"
import { expireBatch } from "../../src/ledger/money/expire.ts"
import { holdBatch } from "../../src/ledger/money/hold.ts"
import { budgetSelectors } from "../../src/wire/budget.ts"
import { makeClock, WoundSession } from "./budget-clock.ts"
import { Model, type ModelBudget, type ModelCall } from "./budget-model.ts"
import { step } from "./steps.ts"
import {
  type Account,
  FIRST,
  holdOf,
  keyOf,
  OTHER_MODEL,
  openTestDatabase,
  released,
  settled,
  type TestDatabase,
  violations,
} from "./test-database.ts"

/** D97: every verdict of the statement that holds is that of a model which knows only a list of calls. */

const HISTORIES = Number(process.env.BUDGET_HISTORIES ?? 120)
const SEED = Number(process.env.BUDGET_SEED ?? 1)
const PARALLEL = 3
const HOUR_MS = 3_600_000
const GROUPS = ["org", "org/team", "org/team/user", "org/team2", "orgs"] as const
/** The group that the last key always has, so that no hold is lean: those do not record the tokens. */
const GROUP = "orgs"
/** What calls are labelled with, besides those without: the number of the end user, and tags. */
const LABELS = [
  { user: 0, tags: {} },
  { user: 1, tags: { team: "search" } },
  { user: 0, tags: { team: "chat", feature: "rag" } },
  { user: null, tags: { team: "search", feature: "0" } },
  { user: 2, tags: { team: "1" } },
] as const
const TAGS = ["team", "team=search", "feature", "team=chat", "feature=0"] as const
const MODELS = [
  [FIRST, "model"],
  [OTHER_MODEL, "other"],
] as const

/** A database with a clock of its own, which no other worker's clock leaves behind. */
interface Worker {
  readonly db: TestDatabase
  readonly session: WoundSession
  readonly gateway_id: string
}

const workers: readonly Worker[] = await Promise.all(
  Array.from({ length: PARALLEL }, async () => {
    const db = await openTestDatabase()
    await makeClock(db)
    await addMonths(db.database.operators)
    return { db, session: new WoundSession(db.address), gateway_id: await db.gateway() }
  }),
)
afterAll(() =>
  Promise.all(
    workers.map(async ({ db, session }) => {
      await session.close()
      await db.close()
    }),
  ),
)

const amount = fc.integer({ min: 0, max: 30 })
const anyStep = fc.oneof(
  step(6, ["hold"], {
    is_limited: fc.boolean(),
    calls: fc.array(
      fc.record({
        key: fc.nat(2),
        model: fc.nat(1),
        labels: fc.nat(LABELS.length),
        nano: amount,
        tokens: amount,
      }),
      { minLength: 1, maxLength: 6 },
    ),
  }),
  step(5, ["settle", "settle", "release", "expire"], {
    which: fc.nat(20),
    charge: fc.integer({ min: 0, max: 40 }),
    tokens: fc.integer({ min: 0, max: 40 }),
    is_known: fc.boolean(),
  }),
  step(2, ["create"], {
    selector: fc.constantFrom(...budgetSelectors),
    which: fc.nat(4),
    unit: fc.constantFrom("usd", "usd", "tokens", "requests"),
    period: fc.constantFrom("hour", "day", "week", "month", "total"),
    amount: fc.integer({ min: 0, max: 80 }),
    is_hard: fc.constantFrom(true, true, true, true, false),
  }),
  step(2, ["raise", "change", "reset", "delete"], {
    which: fc.nat(5),
    amount: fc.integer({ min: 0, max: 120 }),
    hours: fc.integer({ min: 1, max: 30 }),
  }),
  step(1, ["regroup"], { key: fc.nat(1), group: fc.nat(5) }),
  step(2, ["wait"], { hours: fc.integer({ min: 0, max: 60 }) }),
)
type Step = typeof anyStep extends fc.Arbitrary<infer Value> ? Value : never

const history = fc.record({
  balance: fc.integer({ min: 0, max: 400 }),
  begin: fc.array(
    anyStep.filter(({ act }) => act === "create" || act === "regroup"),
    { minLength: 1, maxLength: 4 },
  ),
  steps: fc.array(anyStep, { minLength: 1, maxLength: 12 }),
})

class Player {
  readonly #session: WoundSession
  readonly #gateway_id: string
  readonly #model: Model
  readonly #keys: readonly Account[]
  readonly #groups: (string | null)[] = [null, null, GROUP]
  readonly #labels: readonly Labels[]
  readonly #holds = new Map<string, Hold>()

  constructor(
    { session, gateway_id }: Worker,
    balance: bigint,
    keys: readonly Account[],
    labels: readonly Labels[],
  ) {
    this.#labels = labels
    this.#session = session
    this.#gateway_id = gateway_id
    this.#model = new Model(balance)
    this.#keys = keys
  }

  get #now(): number {
    return Date.now() + this.#session.ahead_ms
  }

  async play(step: Step): Promise<void> {
    switch (step.act) {
      case "hold":
        return this.#hold(step)
      case "settle":
      case "release":
      case "expire":
        return this.#end(step)
      case "create":
        return this.#create(step)
      case "regroup":
        return this.#regroup(step.key, GROUPS[step.group] ?? null)
      case "wait":
        await this.#session.wind(this.#session.ahead_ms + step.hours * HOUR_MS)
        await forgetMembers(this.#session.connection)
        return
      default:
        return this.#change(step)
    }
  }

  async #hold({ calls, is_limited }: Extract<Step, { act: "hold" }>): Promise<void> {
    const asked = calls.map(({ key, model, labels: label, nano, tokens }): [Hold, ModelCall] => {
      const [terms_id, name] = MODELS[model] ?? MODELS[0]
      const account = this.#keys[key]
      if (account === undefined) throw new Error("there is no such key")
      const labels = this.#labels[label] ?? null
      const hold = holdOf(account, BigInt(nano), {
        id: this.#session.nextId(),
        terms_id,
        tokens,
        is_limited,
        ...(labels !== null && { labels }),
      })
      const group = this.#groups[key] ?? null
      return [
        hold,
        {
          id: hold.id,
          key: account.key_id,
          group,
          model: name,
          end_user: labels?.end_user_id ?? null,
          tags: labels?.tags ?? {},
          nano: BigInt(nano),
          tokens,
          at: 0,
          end: null,
        },
      ]
    })
    const results = await holdBatch(
      this.#session.connection,
      this.#gateway_id,
      asked.map(([hold]) => hold),
      300,
    )
    const now = this.#now
    const taken = this.#model.hold(
      asked.map(([, call]) => call),
      now,
    )
    for (const [at, [hold, call]] of asked.entries()) {
      const result = results[at]
      if (taken.has(hold.id)) {
        expect(result?.outcome).toBe("held")
        this.#holds.set(hold.id, { ...hold, ...(result?.outcome === "held" && result) })
        continue
      }
      const exceeded = this.#model.exceeded(call, now)
      if (exceeded.length === 0) {
        expect(result).toEqual({ outcome: "insufficient_balance", available_nano: this.#model.available() })
        continue
      }
      if (result?.outcome !== "budget_reached")
        throw new Error(`${result?.outcome} instead of budget_reached`)
      const budget = exceeded.find(({ id }) => id === result.budget.id)
      if (budget === undefined) throw new Error("another budget was named")
      expect(result.budget).toMatchObject({
        ...this.#model.useOf(budget, now, call),
        amount: this.#model.amountOf(budget, now),
      })
    }
  }

  async #end({
    act,
    which,
    charge,
    tokens,
    is_known,
  }: Extract<Step, { act: "settle" | "release" | "expire" }>): Promise<void> {
    const call = this.#model.calls[which % Math.max(this.#model.calls.length, 1)]
    const hold = call && this.#holds.get(call.id)
    if (call === undefined || hold === undefined) return
    const { connection } = this.#session
    const is_expired = call.end !== null && this.#expired.has(call.id)
    if (act === "expire") {
      expect(await expireBatch(connection, [hold], 300)).toEqual([call.end === null])
      if (call.end !== null) return
      call.end = { nano: 0n, tokens: 0, requests: 1 }
      this.#expired.add(call.id)
      return
    }
    const end: End =
      act === "release"
        ? released(call.id)
        : settled(call.id, BigInt(charge), {
            usage: { prompt_tokens: tokens, cached_tokens: 0, completion_tokens: 1 },
          })
    const item: EndOfHold = { end, hold: is_known ? hold : null }
    const counts = call.end === null || (is_expired && act === "settle")
    expect(await endBatch(connection, [item], 300)).toEqual([counts ? "applied" : "closed"])
    if (!counts) return
    this.#expired.delete(call.id)
    call.end =
      act === "release"
        ? { nano: 0n, tokens: 0, requests: 0 }
        : { nano: BigInt(charge), tokens: tokens + 1, requests: 1 }
  }
  readonly #expired = new Set<string>()

  async #create(step: Extract<Step, { act: "create" }>): Promise<void> {
    const { selector, which, unit, period, is_hard } = step
    const key = this.#keys[which % 3]
    if (key === undefined) throw new Error("there is no such key")
    const selected = {
      all: null,
      key: key.key_id,
      group: GROUPS[which] ?? null,
      model: MODELS[which % 2]?.[1] ?? null,
      end_user: which < 3 ? (this.#labels[which]?.end_user_id ?? null) : null,
      tag: TAGS[which] ?? null,
    }[selector]
    const asked = { id: nextId(), selector, selected, unit, period, is_hard, amount: BigInt(step.amount) }
    const made = await createBudget(this.#session.database, {
      ...asked,
      account_id: key.account_id,
      name: "a budget",
      timezone: "UTC",
      thresholds: [50, 100],
      actor: "test",
      reason: null,
    })
    expect(made.outcome).toBe("created")
    this.#model.budgets.set(asked.id, { ...asked, from: period === "total" ? this.#now : 0, raise: null })
  }

  async #change({
    act,
    which,
    amount,
    hours,
  }: Extract<Step, { act: "raise" | "change" | "reset" | "delete" }>) {
    const all = [...this.#model.budgets.values()]
    const budget = all[which % Math.max(all.length, 1)]
    if (budget === undefined) return
    const author = { actor: "test", reason: "because" }
    const { database } = this.#session
    const raise = { amount: BigInt(amount), until: new Date(this.#now + hours * HOUR_MS + 60_000) }
    if (act === "delete") {
      await changeBudget(database, budget.id, { change: "deleted", ...author })
      this.#model.budgets.delete(budget.id)
    } else if (act === "raise") {
      await changeBudget(database, budget.id, { change: "raised", raise, ...author })
      budget.raise = { amount: raise.amount, until: raise.until.getTime() }
    } else if (act === "change") {
      await changeBudget(database, budget.id, { change: "changed", amount: raise.amount, ...author })
      budget.amount = raise.amount
    } else {
      await changeBudget(database, budget.id, { change: "reset", ...author })
      budget.from = this.#now
      // A call that the ledger has held in the same millisecond is older.
      for (const call of this.#model.calls) if (call.at >= budget.from) call.at = budget.from - 1
    }
  }

  async #regroup(key: number, group_path: string | null): Promise<void> {
    const owner = this.#keys[key]
    if (owner === undefined) throw new Error("there is no such key")
    await changeKey(this.#session.database, owner.key_id, { group_path })
    this.#groups[key] = group_path
  }

  async check(): Promise<void> {
    const now = this.#now
    const [key] = this.#keys
    const page = { limit: 100, after: null }
    const found = await listBudgets(this.#session.database, key?.account_id ?? "", page)
    const counted = (budget: ModelBudget) => ({ id: budget.id, ...this.#model.useOf(budget, now) })
    expect(found.data.map(({ id, spent, held }) => ({ id, spent, held }))).toEqual(
      [...this.#model.budgets.values()].map(counted).toSorted((one, other) => (one.id < other.id ? 1 : -1)),
    )
  }
}

async function labelsOf({ db }: Worker, { account_id }: Account): Promise<Labels[]> {
  const users = [nextId(), nextId(), nextId()]
  const made = LABELS.map(({ user, tags }): Labels => {
    const end_user_id = user === null ? null : (users[user] ?? null)
    return {
      id: crypto.getRandomValues(new Int32Array(1)).reduce((_, id) => Math.abs(id)),
      end_user_id,
      tags,
    }
  })
  for (const [at, id] of users.entries())
    await db.sql`INSERT INTO tollgate.end_users (id, account_id, subject) VALUES (${id}, ${account_id}, ${`user ${at}`})`
  await db.sql`INSERT INTO tollgate.labels (id, account_id, end_user_id, tags)
    SELECT x.id, ${account_id}, x.end_user_id, x.tags
    FROM json_to_recordset(${JSON.stringify(made)}::text::json) AS x (id int, end_user_id uuid, tags jsonb)`
  return made
}

async function run(
  { balance, begin, steps }: typeof history extends fc.Arbitrary<infer Value> ? Value : never,
  worker: Worker,
) {
  const { db, session } = worker
  await session.wind(0)
  const account = await db.account(BigInt(balance))
  const keys = [
    account,
    await keyOf(db.sql, account, "name = 'b'"),
    await keyOf(db.sql, account, "name = 'c'"),
  ]
  await changeKey(session.database, keys[2]?.key_id ?? "", { group_path: GROUP })
  const player = new Player(worker, BigInt(balance), keys, await labelsOf(worker, account))
  for (const step of [...begin, ...steps]) await player.play(step)
  await player.check()
}

test("D97 budgets: every verdict and every counter is that of the model", async () => {
  const playing = workers.map(async (worker, at) => {
    const property = fc.asyncProperty(history, (asked) => run(asked, worker))
    await fc.assert(property, { numRuns: Math.ceil(HISTORIES / PARALLEL), seed: SEED + at })
    expect(await violations(worker.db.sql, { overdrawn: true })).toEqual([])
  })
  await Promise.all(playing)
}, 86_400_000)
