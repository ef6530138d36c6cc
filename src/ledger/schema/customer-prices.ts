import { sql } from "drizzle-orm"
import { check, index, integer, jsonb, text, uniqueIndex, uuid } from "drizzle-orm/pg-core"
import type { CustomerPriceTexts, PriceOfList } from "../entries.ts"
import { ledger, moment } from "./tables.ts"

/** Entries (D100): a row sets a price or ends one, and increments `budgets_version`, under the account's lock. */
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
    /** The price list (D110) that the price is of, and its assignment to the account; null for a price of the account itself, and for an end. */
    price_list_id: uuid("price_list_id"),
    assignment_id: uuid("assignment_id"),
    /** Read after the account was locked: of two prices of an account, the later one was made later. */
    made_at: moment("made_at").notNull(),
  },
  (price) => [
    index("customer_prices_of_account").on(price.account_id, price.id),
    index("ends_of_customer_price").on(price.ended_id).where(sql`${price.ended_id} IS NOT NULL`),
    index("customer_prices_of_list")
      .on(price.price_list_id, price.assignment_id)
      .where(sql`${price.price_list_id} IS NOT NULL`),
    index("customer_prices_of_assignment")
      .on(price.assignment_id)
      .where(sql`${price.assignment_id} IS NOT NULL`),
    check(
      "customer_price_is_one",
      sql`(${price.ended_id} IS NOT NULL)::int + (${price.price_multiplier_bp} IS NOT NULL)::int + (${price.prices} IS NOT NULL)::int = 1`,
    ),
    check("customer_price_of_model", sql`${price.prices} IS NULL OR ${price.model} IS NOT NULL`),
    check("customer_price_positive", sql`${price.price_multiplier_bp} > 0`),
    check(
      "customer_price_of_list",
      sql`(${price.price_list_id} IS NULL) = (${price.assignment_id} IS NULL) AND (${price.ended_id} IS NULL OR ${price.assignment_id} IS NULL)`,
    ),
    check("customer_price_ends_later", sql`${price.until_at} > ${price.from_at}`),
  ],
)

/** Entries (D110): versions of lists, those of a list in one shard. The highest number is what the list is now. */
export const price_lists = ledger.table(
  "price_lists",
  {
    /** The id of the request that made it. That of the first version is the id of the list. */
    id: uuid("id").primaryKey(),
    list_id: uuid("list_id").notNull(),
    version: integer("version").notNull(),
    name: text("name").notNull(),
    prices: jsonb("prices").$type<readonly PriceOfList[]>().notNull(),
    actor: text("actor").notNull(),
    reason: text("reason"),
    made_at: moment("made_at").notNull(),
  },
  (list) => [
    uniqueIndex("price_list_versions").on(list.list_id, list.version),
    uniqueIndex("price_list_names").on(list.name).where(sql`${list.version} = 1`),
    check("price_list_begins", sql`(${list.version} = 1) = (${list.id} = ${list.list_id})`),
  ],
)
