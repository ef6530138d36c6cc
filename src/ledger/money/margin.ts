import { type SQL, sql } from "drizzle-orm"
import { PAR_BP } from "../../money.ts"
import type { Row } from "../database/statement.ts"
import type { Margined } from "../entries.ts"

/** A margin of 1 (D69). Entries have null instead. */
export const par = sql.raw(String(PAR_BP))

/** A pico-USD at one basis point, in nano-USD. A product of numerics is exact, a quotient is not. */
const pico_basis_point = sql.raw("0.0000001")

/** What is held for a cost in pico-USD at a margin, rounded up. No balance comes near the largest value of a column. */
export function heldFor(cost_pico: SQL, margin_bp: SQL): SQL {
  return sql`least(ceil(${cost_pico} * ${margin_bp} * ${pico_basis_point}), 9223372036854775807)::bigint`
}

/** The column `margin_bp`: null, or not there, for a margin of 1. */
export function marginOf({ margin_bp }: Row): Margined {
  if (margin_bp === null || margin_bp === undefined || margin_bp === PAR_BP) return {}
  if (typeof margin_bp !== "number") throw new Error("margin_bp is not an int4")
  return { margin_bp }
}
