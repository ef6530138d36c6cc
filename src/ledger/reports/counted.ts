import { sql } from "drizzle-orm"
import { recordOf } from "../../kinds.ts"

/** Calls with their tokens and charges, as reports count them. */

const names = ["calls", "prompt_tokens", "cached_tokens", "completion_tokens"] as const
type CallCount = (typeof names)[number]

export interface CountedCalls extends Readonly<Record<CallCount, number>> {
  readonly charge_nano: bigint
}

export const NOTHING_COUNTED: CountedCalls = { ...recordOf(names, () => 0), charge_nano: 0n }

/** Selects a `CountedRow` from the changes `x` (`changesOf`). */
export const countedSums = sql.raw(
  [...names.map((name) => `sum(x.${name})::text AS ${name}`), "sum(x.charge_nano)::text AS charge"].join(
    ", ",
  ),
)

export type CountedRow = Readonly<Record<CallCount | "charge", string>>

export function countedIn(row: CountedRow): CountedCalls {
  return { ...recordOf(names, (name) => Number(row[name])), charge_nano: BigInt(row.charge) }
}

export function addCounted(one: CountedCalls, other: CountedCalls): CountedCalls {
  return {
    ...recordOf(names, (name) => one[name] + other[name]),
    charge_nano: one.charge_nano + other.charge_nano,
  }
}
