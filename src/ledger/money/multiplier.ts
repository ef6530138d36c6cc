import { type SQL, sql } from "drizzle-orm"
import { PAR_BP } from "../../money.ts"
import type { Row } from "../database/statement.ts"
import type { Multiplied } from "../entries.ts"

/** A price multiplier of 1 (D69). Entries have null instead. */
export const par = sql.raw(String(PAR_BP))

/** A pico-USD at one basis point, in nano-USD. A product of numerics is exact, a quotient is not. */
const pico_basis_point = sql.raw("0.0000001")

/** The hold for a cost in pico-USD at a price multiplier, rounded up. Balances are far below the largest value of a column. */
export function heldFor(cost_pico: SQL, price_multiplier_bp: SQL): SQL {
  return sql`least(ceil(${cost_pico} * ${price_multiplier_bp} * ${pico_basis_point}), 9223372036854775807)::bigint`
}

/** The column `price_multiplier_bp`: null, or not there, for a price multiplier of 1. */
export function multiplierOf({ price_multiplier_bp }: Row): Multiplied {
  if (price_multiplier_bp === null || price_multiplier_bp === undefined || price_multiplier_bp === PAR_BP)
    return {}
  if (typeof price_multiplier_bp !== "number") throw new Error("price_multiplier_bp is not an int4")
  return { price_multiplier_bp }
}
