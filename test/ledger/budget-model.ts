import type { BudgetPeriod, BudgetSelector, BudgetUnit } from "../../src/wire/budget.ts"

/**
 * An independent model of budgets (D97): a list of calls. It keeps no counters, so everything that counts follows from the times,
 * holds and charges of the calls. Times are milliseconds.
 */

export interface ModelCall {
  readonly id: string
  readonly key: string
  readonly group: string | null
  readonly model: string
  readonly end_user: string | null
  readonly tags: Readonly<Record<string, string>>
  readonly nano: bigint
  readonly tokens: number
  at: number
  end: { readonly nano: bigint; readonly tokens: number; readonly requests: number } | null
}

export interface ModelBudget {
  readonly id: string
  readonly selector: BudgetSelector
  readonly selected: string | null
  readonly unit: BudgetUnit
  readonly period: Exclude<BudgetPeriod, "minute">
  amount: bigint
  is_hard: boolean
  /** No call before this counts: the creation of a total, or the last reset. */
  from: number
  raise: { readonly amount: bigint; readonly until: number } | null
}

const DAY_MS = 86_400_000

/** The beginning of the period in UTC. */
function begins(period: ModelBudget["period"], at: number): number {
  const time = new Date(at)
  const day = Date.UTC(time.getUTCFullYear(), time.getUTCMonth(), time.getUTCDate())
  switch (period) {
    case "hour":
      return at - (at % 3_600_000)
    case "day":
      return day
    case "week":
      return day - ((time.getUTCDay() + 6) % 7) * DAY_MS
    case "month":
      return Date.UTC(time.getUTCFullYear(), time.getUTCMonth(), 1)
    case "total":
      return 0
  }
}

/** The end user or the value of the tag by which a budget of each counts the call; empty for other budgets. */
function memberOf({ selector, selected }: ModelBudget, { end_user, tags }: ModelCall): string {
  if (selector === "end_user") return selected === null ? (end_user ?? "") : ""
  return selector === "tag" && !selected?.includes("=") ? (tags[selected ?? ""] ?? "") : ""
}

function counts({ selector, selected }: ModelBudget, call: ModelCall): boolean {
  switch (selector) {
    case "all":
      return true
    case "key":
      return call.key === selected
    case "model":
      return call.model === selected
    case "group":
      return call.group !== null && isBelow(call.group, selected ?? "")
    case "end_user":
      return call.end_user !== null && (selected === null || call.end_user === selected)
    case "tag": {
      const [name = "", value] = selected?.split("=") ?? []
      return call.tags[name] !== undefined && (value === undefined || call.tags[name] === value)
    }
  }
}

function isBelow(group: string, path: string): boolean {
  const [inside, outside] = [group.split("/"), path.split("/")]
  return outside.every((part, at) => inside[at] === part)
}

function amountsOf({ unit }: ModelBudget, call: ModelCall): { held: bigint; spent: bigint } {
  const held = unit === "usd" ? call.nano : unit === "tokens" ? BigInt(call.tokens) : 1n
  const { end } = call
  if (end === null) return { held, spent: 0n }
  return {
    held: 0n,
    spent: unit === "usd" ? end.nano : BigInt(unit === "tokens" ? end.tokens : end.requests),
  }
}

export class Model {
  readonly budgets = new Map<string, ModelBudget>()
  readonly calls: ModelCall[] = []
  balance: bigint

  constructor(balance: bigint) {
    this.balance = balance
  }

  /** By all calls, or by those that count together with `like`. */
  useOf(budget: ModelBudget, now: number, like?: ModelCall): { spent: bigint; held: bigint } {
    const since = Math.max(budget.from, begins(budget.period, now))
    const use = { spent: 0n, held: 0n }
    for (const call of this.calls) {
      if (call.at < since || !counts(budget, call)) continue
      if (like !== undefined && memberOf(budget, call) !== memberOf(budget, like)) continue
      const { held, spent } = amountsOf(budget, call)
      use.held += held
      use.spent += spent
    }
    return use
  }

  amountOf({ amount, raise }: ModelBudget, now: number): bigint {
    return raise !== null && raise.until > now ? raise.amount : amount
  }

  available(): bigint {
    return this.calls.reduce((left, { nano, end }) => left - (end === null ? nano : end.nano), this.balance)
  }

  exceeded(call: ModelCall, now: number): ModelBudget[] {
    return [...this.budgets.values()].filter((budget) => {
      if (!budget.is_hard || !counts(budget, call)) return false
      const { spent, held } = this.useOf(budget, now, call)
      return spent + held + amountsOf(budget, { ...call, end: null }).held > this.amountOf(budget, now)
    })
  }

  /** Holds what fits, in ascending order of the amounts. Returns the ids of the calls that were held. */
  hold(asked: readonly ModelCall[], now: number): ReadonlySet<string> {
    const taken = new Set<string>()
    const order = asked.toSorted((one, other) =>
      one.nano === other.nano ? (one.id < other.id ? -1 : 1) : one.nano < other.nano ? -1 : 1,
    )
    for (const call of order) {
      if (call.nano > this.available() || this.exceeded(call, now).length > 0) continue
      this.calls.push({ ...call, at: now })
      taken.add(call.id)
    }
    return taken
  }

  find(id: string): ModelCall | undefined {
    return this.calls.find((call) => call.id === id)
  }
}
