import { parseUsd, printUsd } from "../money.ts"
import type { BudgetLogBody } from "./events.ts"

/** The words of budgets (D97), for the ledger's schema, the routes and the command line. */

export const budgetSelectors = ["all", "key", "group", "model", "end_user", "tag"] as const
export type BudgetSelector = (typeof budgetSelectors)[number]

export const budgetUnits = ["usd", "tokens", "requests"] as const
export type BudgetUnit = (typeof budgetUnits)[number]

/** A `minute` refills evenly (D99), and `total` never begins anew. */
export const budgetPeriods = ["minute", "hour", "day", "week", "month", "total"] as const
export type BudgetPeriod = (typeof budgetPeriods)[number]

export const budgetChanges = ["created", "changed", "raised", "reset", "deleted"] as const
export type BudgetChange = (typeof budgetChanges)[number]

export const BUDGET_EVENT = "tollgate.budget."

export function printSelected({
  selector,
  selected,
  each,
}: {
  readonly selector: BudgetSelector
  readonly selected: string | null
  readonly each: boolean
}): string {
  if (selector === "all") return "all calls"
  const name = selector === "end_user" ? "end user" : selector
  return [...(each ? ["each"] : []), name, ...(selected === null ? [] : [selected])].join(" ")
}

/** The settings after a change, or the spending at a threshold, in words. */
export function printLogged({ data }: BudgetLogBody): string {
  const { unit, per } = data
  if ("percent" in data) return `${data.percent} % reached: ${data.spent} of ${data.limit} ${unit}`
  const { name, amount, mode, thresholds, raise } = data
  return [
    `${name}: ${amount} ${unit} per ${per}`,
    mode,
    ...(thresholds.length === 0 ? [] : [`thresholds ${thresholds.join(", ")} %`]),
    ...(raise === null ? [] : [`raised to ${raise.amount} until ${raise.until}`]),
  ].join("; ")
}

/** An amount of a unit: USD with at most nine decimals, or a whole number. Null for another text. */
export function parseAmount(unit: BudgetUnit, text: string): bigint | null {
  if (unit === "usd") return parseUsd(text)
  return /^\d{1,15}$/.test(text) ? BigInt(text) : null
}

export function printAmount(unit: BudgetUnit, amount: bigint): string {
  return unit === "usd" ? printUsd(amount) : String(amount)
}

/** A budget as its journal entries record it; amounts are integers in its unit (nano-USD, tokens or requests), as texts. */
export interface BudgetSettings {
  readonly name: string
  readonly selector: BudgetSelector
  readonly selected: string | null
  readonly unit: BudgetUnit
  readonly amount: string
  readonly period: BudgetPeriod
  readonly timezone: string
  readonly is_hard: boolean
  readonly thresholds: readonly number[]
  readonly raised_amount: string | null
  readonly raised_until: string | null
}

/** The rest of a limit per minute, in its unit (D85, D99). */
export interface RateLeft {
  readonly unit: string
  readonly limit: bigint
  readonly remaining: bigint
  /** The time until everything is left. */
  readonly reset_ms: number
}
