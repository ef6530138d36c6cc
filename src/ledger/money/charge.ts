import { type SQL, sql } from "drizzle-orm"
import { alias, type PgColumn } from "drizzle-orm/pg-core"
import { buckets, FIRST_RUN, parentOf } from "../../kinds.ts"
import { PAR_BP, PICO_PER_NANO } from "../../money.ts"
import type { Row } from "../database/statement.ts"
import type { Multiplied } from "../entries.ts"
import { type c, type e, t } from "../schema/aliases.ts"
import { terms } from "../schema/tables.ts"

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

const listed = alias(terms, "listed")

/** The id of configured terms: these terms, or the ones that they replace (D100). */
export function listTermsOf(terms_id: SQL | PgColumn): SQL {
  return sql`(SELECT coalesce(${listed.list_terms_id}, ${listed.id}) FROM ${terms} ${listed} WHERE ${listed.id} = ${terms_id})`
}

export function areCustomerTerms(terms_id: SQL | PgColumn): SQL {
  return sql`EXISTS (SELECT FROM ${terms} ${listed} WHERE ${listed.id} = ${terms_id} AND ${listed.customer_price_id} IS NOT NULL)`
}

/** An end or a correction, whose charge follows from its columns and those of its terms `t`. */
export type ChargedEntry = typeof e | typeof c

const pico_per_nano = sql.raw(String(PICO_PER_NANO))

/** Tokens at their terms and price multiplier, rounded up once (D55, D69). */
export function chargeOf(entry: ChargedEntry): SQL {
  return priced(entry, sql`coalesce(${entry.price_multiplier_bp}, ${par})`)
}

/** The provider's cost: the charge at a price multiplier of 1, at terms of the configuration. */
export function costOf(entry: ChargedEntry): SQL {
  return priced(entry, par)
}

/** The cost of usage; usage of 0 costs nothing (D2, D44). `div` is exact; a quotient of numerics is rounded. */
function priced(entry: ChargedEntry, price_multiplier_bp: SQL): SQL {
  return sql`CASE WHEN coalesce(${entry.prompt_tokens} + ${entry.completion_tokens}, 0) = 0 THEN 0 ELSE
    div((${t.input_pico}::numeric * (${entry.prompt_tokens} - ${entry.cached_tokens})
      + ${t.cached_input_pico}::numeric * ${entry.cached_tokens}
      + ${t.output_pico}::numeric * ${entry.completion_tokens} + ${bucketsPico(entry)} + ${runsPico(entry)}
      + ${t.per_call_nano}::numeric * ${pico_per_nano}) * ${price_multiplier_bp}
      + ${pico_per_nano} * ${par} - 1, ${pico_per_nano} * ${par}) END`
}

/** The buckets' surcharge over their tokens' price as a part of the prompt or the completion (D60). */
function bucketsPico(entry: ChargedEntry): SQL {
  const differences = buckets.map((bucket, at) => {
    const parent = parentOf(bucket)
    const parent_pico = parent === null ? sql`0` : sql`${t[`${parent}_pico`]}`
    const price_pico = t[`${bucket}_pico`]
    return sql`(${entry.buckets})[${sql.raw(String(at + 1))}] * (coalesce(${price_pico}, ${parent_pico}) - ${parent_pico})::numeric`
  })
  return sql.join(
    differences.map((difference) => sql`coalesce(${difference}, 0)`),
    sql.raw(" + "),
  )
}

const first_run = sql.raw(String(FIRST_RUN))

/** The runs of each of the provider's tools, in the order of the terms' prices. */
export function runsOf(buckets: PgColumn | SQL): SQL {
  return sql`(${buckets})[${first_run} + 1 :]`
}

export function hasRuns(buckets: PgColumn | SQL): SQL {
  return sql`cardinality(${buckets}) > ${first_run}`
}

function runsPico(entry: ChargedEntry): SQL {
  return sql`CASE WHEN ${hasRuns(sql`${entry.buckets}`)} THEN (
    SELECT coalesce(sum(r.count * r.price_pico::numeric), 0)
    FROM unnest(${runsOf(sql`${entry.buckets}`)}, ${t.tool_run_pico}) AS r (count, price_pico)) ELSE 0 END`
}
