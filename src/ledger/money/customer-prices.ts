import { type SQL, sql } from "drizzle-orm"
import { alias, type PgColumn } from "drizzle-orm/pg-core"
import { recordOf } from "../../kinds.ts"
import { PAR_BP } from "../../money.ts"
import { type PriceCounts, priceOrigins } from "../../wire/customer-prices.ts"
import type { Runner } from "../database/connection.ts"
import { intOf, statement } from "../database/statement.ts"
import type { CustomerPrice } from "../entries.ts"
import { customer_prices } from "../schema/customer-prices.ts"
import { accounts, terms } from "../schema/tables.ts"

const p = alias(customer_prices, "p")
const q = alias(customer_prices, "q")
const own = alias(terms, "own")
const a = alias(accounts, "a")

type TimedColumns = Readonly<Record<"id" | "ended_id" | "from_at" | "until_at", PgColumn>>

/** True for a price that holds at a moment: from `from_at` on, before `until_at`, and before an end of it. */
export function holdsAt(price: TimedColumns, moment: SQL): SQL {
  return sql`${price.ended_id} IS NULL AND ${price.from_at} <= ${moment} AND (${price.until_at} IS NULL OR ${price.until_at} > ${moment})
    AND ${isOpenAt(price, moment)}`
}

/**
 * True for a price that no operator has ended by then. `OFFSET 0` keeps the look-up by index, because a join could
 * compare each price with each end.
 */
export function isOpenAt(price: TimedColumns, moment: SQL): SQL {
  return sql`NOT EXISTS (SELECT FROM ${customer_prices} ${q} WHERE ${q.ended_id} = ${price.id} AND ${q.from_at} <= ${moment} OFFSET 0)`
}

/**
 * The customer price of a call that is held at `moment` (D100). A price of its model comes before one of all models,
 * the account's own before one of a price list (D110), and the one that was made last before others. `is_current`: true
 * if the call's terms are those of that price, or, for a multiplier or without a price, those of the configuration.
 */
export function priceOfCall(account_id: SQL, terms_id: SQL, moment = sql`now()`): SQL {
  return sql`
    SELECT best.price_multiplier_bp, own.customer_price_id IS NOT DISTINCT FROM best.own_id AS is_current
    FROM ${terms} ${own} LEFT JOIN LATERAL (
      SELECT CASE WHEN ${p.prices} IS NULL THEN ${p.price_multiplier_bp} ELSE ${sql.raw(String(PAR_BP))} END AS price_multiplier_bp,
        CASE WHEN ${p.prices} IS NOT NULL THEN ${p.id} END AS own_id
      FROM ${customer_prices} ${p} WHERE ${p.account_id} = ${account_id} AND coalesce(${p.model} = ${own.model}, true) AND ${holdsAt(p, moment)}
      ORDER BY ${p.model} IS NULL, ${p.price_list_id} IS NOT NULL, ${p.made_at} DESC, ${p.id} DESC LIMIT 1) best ON true
    WHERE ${own.id} = ${terms_id}`
}

/** The prices of an account that hold now, as a JSON array: for each model, and for all models, the one that `priceOfCall` takes. */
export function pricesOfAccount(account_id: SQL): SQL {
  return sql`(SELECT json_agg(json_build_object('id', x.id, 'model', x.model, 'price_multiplier_bp', x.price_multiplier_bp,
      'prices', x.prices))
    FROM (SELECT DISTINCT ON (${p.model}) ${p.id}, ${p.model}, ${p.price_multiplier_bp}, ${p.prices} FROM ${customer_prices} ${p}
      WHERE ${p.account_id} = ${account_id} AND ${holdsAt(p, sql`now()`)}
      ORDER BY ${p.model}, ${p.price_list_id} IS NOT NULL, ${p.made_at} DESC, ${p.id} DESC) x)`
}

const COUNT_MS = 5_000

const counted = statement(
  "prices",
  sql`SELECT count(DISTINCT ${p.account_id}) FILTER (WHERE ${p.price_list_id} IS NULL)::int AS account,
      count(DISTINCT ${p.account_id}) FILTER (WHERE ${p.price_list_id} IS NOT NULL)::int AS price_list
    FROM ${customer_prices} ${p} JOIN ${accounts} ${a} ON ${a.id} = ${p.account_id} AND ${a.moved_to} IS NULL
    WHERE ${holdsAt(p, sql`now()`)}`,
)

/** The accounts of this shard with prices that hold now. */
export async function countPrices(connection: Runner): Promise<PriceCounts> {
  const [row] = await connection.run(counted, [], COUNT_MS)
  if (row === undefined) throw new Error("the database did not count the prices")
  return recordOf(priceOrigins, (origin) => intOf(row, origin))
}

/** The prices in an answer of `pricesOfAccount`. */
export function customerPricesIn(text: string): readonly CustomerPrice[] {
  return JSON.parse(text)
}
