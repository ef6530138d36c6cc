import { and, desc, eq, getTableColumns, isNull, lt, type SQL, sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { nextId } from "../../id.ts"
import type { CustomerPriceState } from "../../wire/customer-prices.ts"
import { type Page, type PageOf, paged } from "../database/page.ts"
import { holdsAt, isOpenAt } from "../money/customer-prices.ts"
import { customer_prices } from "../schema/customer-prices.ts"
import { accounts } from "../schema/tables.ts"
import type { Author } from "./budgets.ts"
import { type KeyStatements, lockAccount, noteLimits } from "./keys.ts"

type Columns = typeof customer_prices.$inferSelect

/** A customer price of an account (D100), as it stands now. */
export interface CustomerPriceRecord extends Omit<Columns, "ended_id"> {
  readonly state: CustomerPriceState
  readonly end: CustomerPriceEnd | null
}

interface CustomerPriceEnd extends Author {
  readonly at: Date
  readonly made_at: Date
}

/** `from_at` null: from now on. `until_at` null: without an end. */
export interface CustomerPriceOrder
  extends Author,
    Pick<Columns, "id" | "account_id" | "model" | "price_multiplier_bp" | "prices" | "until_at"> {
  readonly from_at: Date | null
}

export type CustomerPriceResult =
  | { readonly outcome: "created" | "known"; readonly price: CustomerPriceRecord }
  | { readonly outcome: "no_account" }
  /** The id belongs to another account's price, or to another entry. */
  | { readonly outcome: "conflict" }
  /** It would hold for calls that are over. */
  | { readonly outcome: "past" }
  | { readonly outcome: "too_many" }

const p = alias(customer_prices, "p")
const q = alias(customer_prices, "q")
const n = alias(customer_prices, "n")

export const MAX_CUSTOMER_PRICES = 1_000

const NOW = sql`statement_timestamp()`
const isNotOver = sql`${p.ended_id} IS NULL AND coalesce(${p.until_at} > ${NOW}, true) AND ${isOpenAt(p, sql`greatest(${p.from_at}, ${NOW})`)}`

/** Sets a price for calls that are held from a moment on. The same `id` again sets no other price. */
export async function setCustomerPrice(
  database: PostgresJsDatabase,
  { from_at, until_at, ...order }: CustomerPriceOrder,
): Promise<CustomerPriceResult> {
  const { id, account_id } = order
  return database.transaction(async (transaction) => {
    if (!(await lockAccount(transaction, account_id))) return { outcome: "no_account" }
    const known = await getCustomerPrice(transaction, id)
    if (known !== null)
      return known.account_id === account_id ? { outcome: "known", price: known } : { outcome: "conflict" }
    const open = await transaction.$count(
      sql`${customer_prices} ${p}`,
      and(eq(p.account_id, account_id), isNotOver),
    )
    if (open >= MAX_CUSTOMER_PRICES) return { outcome: "too_many" }
    if (await isPast(transaction, from_at, until_at)) return { outcome: "past" }
    const made = { ...order, from_at: from_at ?? NOW, until_at, made_at: NOW }
    await transaction.insert(customer_prices).values(made).onConflictDoNothing()
    const price = await getCustomerPrice(transaction, id)
    if (price?.account_id !== account_id) return { outcome: "conflict" }
    await note(transaction, account_id)
    return { outcome: "created", price }
  })
}

/** Ends a price from a moment on; null: from now on. Changes nothing if it is over by then. Null when there is no such price. */
export async function endCustomerPrice(
  database: PostgresJsDatabase,
  id: string,
  { at, actor, reason }: Author & { readonly at: Date | null },
): Promise<CustomerPriceRecord | "past" | null> {
  const found = await getCustomerPrice(database, id)
  if (found === null) return null
  const { account_id } = found
  return database.transaction(async (transaction) => {
    if (!(await lockAccount(transaction, account_id))) return null
    if (await isPast(transaction, at, null)) return "past"
    const from_at = moment(at) ?? NOW
    const ends_later = sql`coalesce(${p.until_at} > ${from_at}, true) AND ${isOpenAt(p, from_at)}`
    const open = await transaction
      .select({ id: p.id })
      .from(p)
      .where(and(eq(p.id, id), ends_later))
    if (open.length > 0) {
      await transaction.insert(customer_prices).values({
        id: nextId(),
        account_id,
        ended_id: id,
        from_at,
        actor,
        reason,
        made_at: NOW,
      })
      await note(transaction, account_id)
    }
    return getCustomerPrice(transaction, id)
  })
}

/** Null also for a price whose account is in another shard (D76). */
export async function getCustomerPrice(
  database: Pick<PostgresJsDatabase, "select">,
  id: string,
): Promise<CustomerPriceRecord | null> {
  const [price] = await read(database, eq(p.id, id))
  return price === undefined ? null : recordOf(price)
}

/** The prices of an account, also those that are over, newest first. */
export async function listCustomerPrices(
  database: PostgresJsDatabase,
  account_id: string,
  page: Page,
): Promise<PageOf<CustomerPriceRecord>> {
  const after = page.after === null ? undefined : lt(p.id, page.after)
  const rows = await read(database, and(eq(p.account_id, account_id), after)).limit(page.limit + 1)
  return paged(rows.map(recordOf), page)
}

const moment = (at: Date | null) => at && sql`${at.toISOString()}::timestamptz`

/** True for a time before now, and for an end that is not after the beginning. */
async function isPast(transaction: KeyStatements, from: Date | null, until: Date | null): Promise<boolean> {
  const rows = await transaction.execute<{ is_past: boolean }>(sql`
    SELECT coalesce(${moment(from) ?? NOW} < ${NOW} OR ${moment(until)} <= ${moment(from) ?? NOW}, false) AS is_past`)
  return rows[0]?.is_past === true
}

/** Tells the statements that hold. Needs the account's lock. */
async function note(transaction: KeyStatements, account_id: string): Promise<void> {
  await transaction
    .update(accounts)
    .set({ budgets_version: sql`${accounts.budgets_version} + 1` })
    .where(eq(accounts.id, account_id))
  await noteLimits(transaction, account_id)
}

const { ended_id: _, ...columns } = getTableColumns(p)
const end = sql<
  string | null
>`(SELECT json_build_object('at', ${q.from_at}, 'actor', ${q.actor}, 'reason', ${q.reason}, 'made_at', ${q.made_at})::text
  FROM ${customer_prices} ${q} WHERE ${q.ended_id} = ${p.id} ORDER BY ${q.from_at}, ${q.id} LIMIT 1)`
const state = sql<CustomerPriceState>`CASE WHEN NOT (${isNotOver}) THEN 'over' WHEN ${p.from_at} > ${NOW} THEN 'scheduled'
  WHEN EXISTS (SELECT FROM ${customer_prices} ${n} WHERE ${n.account_id} = ${p.account_id} AND ${n.model} IS NOT DISTINCT FROM ${p.model}
    AND (${n.made_at}, ${n.id}) > (${p.made_at}, ${p.id}) AND ${holdsAt(n, NOW)}) THEN 'replaced' ELSE 'current' END`

function recordOf({ end, ...price }: Awaited<ReturnType<typeof read>>[number]): CustomerPriceRecord {
  if (end === null) return { ...price, end }
  const { at, made_at, ...author } = JSON.parse(end)
  return { ...price, end: { ...author, at: new Date(at), made_at: new Date(made_at) } }
}

function read(database: Pick<PostgresJsDatabase, "select">, condition: SQL | undefined) {
  return database
    .select({ ...columns, state, end })
    .from(p)
    .innerJoin(accounts, eq(accounts.id, p.account_id))
    .where(and(condition, isNull(p.ended_id), isNull(accounts.moved_to)))
    .orderBy(desc(p.id))
}
