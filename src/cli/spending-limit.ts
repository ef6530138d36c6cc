import { UsageError } from "./cli-error.ts"

/** A spending limit in the form of the API. */
export interface SpendingLimit {
  readonly amount: string
  readonly per: "day" | "month"
}

export const LIMIT_FORM = "AMOUNT/day, AMOUNT/month or none"

/** Reads `25/month`, `5.50/day` or `none`. */
export function parseSpendingLimit(text: string): SpendingLimit | null {
  if (text === "none") return null
  const [, amount, per] = /^(\d+(?:\.\d+)?)\/(day|month)$/.exec(text) ?? []
  if (amount === undefined || (per !== "day" && per !== "month")) {
    throw new UsageError(`spending limit: expected ${LIMIT_FORM}, such as 25/month`)
  }
  return { amount, per }
}
