import { sql } from "drizzle-orm"
import { amount, count, type RowOf, RowShape } from "../database/row-shape.ts"

/** Calls with their tokens and charges, as reports count them. */
export const countedColumns = {
  calls: count,
  prompt_tokens: count,
  cached_tokens: count,
  completion_tokens: count,
  charge_nano: amount,
}

export const counted = new RowShape(countedColumns)
export type CountedCalls = RowOf<typeof counted>

export const NOTHING_COUNTED: CountedCalls = {
  calls: 0,
  prompt_tokens: 0,
  cached_tokens: 0,
  completion_tokens: 0,
  charge_nano: 0n,
}

const sums = (type: string) =>
  sql.raw(
    Object.keys(countedColumns)
      .map((name) => `sum(x.${name})${type} AS ${name}`)
      .join(", "),
  )

/** Selects the sums of the changes `x` (`changesOf`); `sumsToAdd` of some that a query adds. */
export const countedSums = sums("::text")
export const sumsToAdd = sums("")
