import { sql } from "drizzle-orm"
import { check, index, integer, jsonb, text, uuid } from "drizzle-orm/pg-core"
import type { CustomerPriceTexts } from "../entries.ts"
import { ledger, moment } from "./tables.ts"

/**
 * Customer prices (D100): journal entries by operators. A row sets a price of an account, or ends an earlier one. Each row
 * increments `budgets_version` of the account, under the account's lock.
 */
export const customer_prices = ledger.table(
  "customer_prices",
  {
    id: uuid("id").primaryKey(),
    account_id: uuid("account_id").notNull(),
    /** The price that the row ends at `from_at`; null for a row that sets one. */
    ended_id: uuid("ended_id"),
    /** Null for all models, and for an end. */
    model: text("model"),
    /** In basis points; null for prices by kind, and for an end. */
    price_multiplier_bp: integer("price_multiplier_bp"),
    /** Prices of some kinds, as the configuration writes them; null for a multiplier, and for an end. */
    prices: jsonb("prices").$type<CustomerPriceTexts>(),
    /** The first moment at which it holds, by the ledger's clock. */
    from_at: moment("from_at").notNull(),
    /** The first moment at which it no longer holds; null for none. */
    until_at: moment("until_at"),
    actor: text("actor").notNull(),
    reason: text("reason"),
    /** Read after the account was locked: of two prices of an account, the later one was made later. */
    made_at: moment("made_at").notNull(),
  },
  (price) => [
    index("customer_prices_of_account").on(price.account_id, price.id),
    index("ends_of_customer_price").on(price.ended_id).where(sql`${price.ended_id} IS NOT NULL`),
    check(
      "customer_price_is_one",
      sql`(${price.ended_id} IS NOT NULL)::int + (${price.price_multiplier_bp} IS NOT NULL)::int + (${price.prices} IS NOT NULL)::int = 1`,
    ),
    check("customer_price_of_model", sql`${price.prices} IS NULL OR ${price.model} IS NOT NULL`),
    check("customer_price_positive", sql`${price.price_multiplier_bp} > 0`),
    check("customer_price_ends_later", sql`${price.until_at} > ${price.from_at}`),
  ],
)
