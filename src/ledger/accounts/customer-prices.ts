import { and, desc, eq, getTableColumns, isNull, type SQL, sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import { nextId } from "../../id.ts"
import type { CustomerPriceState } from "../../wire/customer-prices.ts"
import { isAfter, type Page, type PageOf, pageOf } from "../database/page.ts"
import { type Db, instant } from "../database/statement.ts"
import { holdsAt, isOpenAt } from "../money/customer-prices.ts"
import { customer_prices } from "../schema/customer-prices.ts"
import { accounts } from "../schema/tables.ts"
import type { Author } from "./budgets.ts"
import { lockAccount, noteVersion } from "./keys.ts"
import type { Made } from "./made.ts"

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

/** `past`: it would hold for calls that are over. */
type CustomerPriceResult = Made<"price", CustomerPriceRecord, "no_account" | "conflict" | "past" | "too_many">

export const p = alias(customer_prices, "p")
const q = alias(customer_prices, "q")
const n = alias(customer_prices, "n")

export const MAX_CUSTOMER_PRICES = 1_000

export const NOW = sql`statement_timestamp()`
/** True for a price that calls have now or can have later. */
export const isNotOver = sql`${p.ended_id} IS NULL AND coalesce(${p.until_at} > ${NOW}, true) AND ${isOpenAt(p, sql`greatest(${p.from_at}, ${NOW})`)}`

/** Sets a price for calls that are held from a moment on. The same `id` again sets no other price. */
export async function setCustomerPrice(
  database: Db,
  { from_at, until_at, ...order }: CustomerPriceOrder,
): Promise<CustomerPriceResult> {
  const { id, account_id } = order
  return database.transaction(async (transaction) => {
    if (!(await lockAccount(transaction, account_id))) return { outcome: "no_account" }
    const known = await getCustomerPrice(transaction, id)
    if (known !== null)
      return known.account_id === account_id ? { outcome: "known", price: known } : { outcome: "conflict" }
    if (!(await hasRoom(transaction, account_id, 1))) return { outcome: "too_many" }
    if (await isPast(transaction, from_at, until_at)) return { outcome: "past" }
    const made = { ...order, from_at: from_at ?? NOW, until_at, made_at: NOW }
    await transaction.insert(customer_prices).values(made).onConflictDoNothing()
    const price = await getCustomerPrice(transaction, id)
    if (price?.account_id !== account_id) return { outcome: "conflict" }
    await noteVersion(transaction, account_id)
    return { outcome: "created", price }
  })
}

/** Ends a price of the account itself. Null when there is no such price. */
export async function endCustomerPrice(
  database: Db,
  id: string,
  end: Author & { readonly at: Date | null },
): Promise<CustomerPriceRecord | "past" | "of_list" | null> {
  const found = await getCustomerPrice(database, id)
  if (found === null) return null
  if (found.price_list_id !== null) return "of_list"
  const ended = await endPrices(database, found.account_id, eq(p.id, id), end)
  return ended === "past" ? ended : getCustomerPrice(database, id)
}

/** Ends prices of an account from a moment on; null: from now on. Changes nothing for those that are over by then. */
export async function endPrices(
  database: Db,
  account_id: string,
  prices: SQL,
  { at, actor, reason }: Author & { readonly at: Date | null },
): Promise<"past" | undefined> {
  return database.transaction(async (transaction) => {
    if (!(await lockAccount(transaction, account_id))) return undefined
    if (await isPast(transaction, at, null)) return "past"
    const from_at = at === null ? NOW : instant(at)
    const ends_later = sql`coalesce(${p.until_at} > ${from_at}, true) AND ${isOpenAt(p, from_at)}`
    const open = await transaction
      .select({ id: p.id })
      .from(p)
      .where(and(prices, isNull(p.ended_id), ends_later))
    if (open.length === 0) return undefined
    await transaction.insert(customer_prices).values(
      open.map(({ id }) => ({
        id: nextId(),
        account_id,
        ended_id: id,
        from_at,
        actor,
        reason,
        made_at: NOW,
      })),
    )
    await noteVersion(transaction, account_id)
    return undefined
  })
}

/** Null also for a price whose account is in another shard (D76). */
export async function getCustomerPrice(database: Db, id: string): Promise<CustomerPriceRecord | null> {
  const [price] = await read(database, eq(p.id, id))
  return price === undefined ? null : recordOf(price)
}

/** The prices of an account, also those that are over, newest first. */
export async function listCustomerPrices(
  database: Db,
  account_id: string,
  page: Page,
): Promise<PageOf<CustomerPriceRecord>> {
  const own = and(eq(p.account_id, account_id), isAfter(page, p.id))
  const { data, next } = await pageOf(page, read(database, own))
  return { data: data.map(recordOf), next }
}

/** True if the account can have as many more prices. Needs its lock. */
export async function hasRoom(transaction: Db, account_id: string, more: number): Promise<boolean> {
  const of_account = and(eq(p.account_id, account_id), isNotOver)
  return (await transaction.$count(sql`${customer_prices} ${p}`, of_account)) + more <= MAX_CUSTOMER_PRICES
}

/** True for a time before now, and for an end that is not after the beginning. */
export async function isPast(transaction: Db, from: Date | null, until: Date | null): Promise<boolean> {
  const begin = from === null ? NOW : instant(from)
  const rows = await transaction.execute<{ is_past: boolean }>(sql`
    SELECT coalesce(${begin} < ${NOW} OR ${until && instant(until)} <= ${begin}, false) AS is_past`)
  return rows[0]?.is_past === true
}

/** The time at which a price ends, by itself or by an operator; null for never. */
export const endsAt =
  sql<Date | null>`least(${p.until_at}, (SELECT min(${q.from_at}) FROM ${customer_prices} ${q} WHERE ${q.ended_id} = ${p.id}))`.mapWith(
    p.from_at,
  )

const { ended_id: _, ...columns } = getTableColumns(p)
const end = sql<
  string | null
>`(SELECT json_build_object('at', ${q.from_at}, 'actor', ${q.actor}, 'reason', ${q.reason}, 'made_at', ${q.made_at})::text
  FROM ${customer_prices} ${q} WHERE ${q.ended_id} = ${p.id} ORDER BY ${q.from_at}, ${q.id} LIMIT 1)`
const state = sql<CustomerPriceState>`CASE WHEN NOT (${isNotOver}) THEN 'over' WHEN ${p.from_at} > ${NOW} THEN 'scheduled'
  WHEN EXISTS (SELECT FROM ${customer_prices} ${n} WHERE ${n.account_id} = ${p.account_id} AND ${n.model} IS NOT DISTINCT FROM ${p.model}
    AND (${n.price_list_id} IS NULL, ${n.made_at}, ${n.id}) > (${p.price_list_id} IS NULL, ${p.made_at}, ${p.id}) AND ${holdsAt(n, NOW)}) THEN 'replaced' ELSE 'current' END`

function recordOf({ end, ...price }: Awaited<ReturnType<typeof read>>[number]): CustomerPriceRecord {
  if (end === null) return { ...price, end }
  const { at, made_at, ...author } = JSON.parse(end)
  return { ...price, end: { ...author, at: new Date(at), made_at: new Date(made_at) } }
}

function read(database: Db, condition: SQL | undefined) {
  return database
    .select({ ...columns, state, end })
    .from(p)
    .innerJoin(accounts, eq(accounts.id, p.account_id))
    .where(and(condition, isNull(p.ended_id), isNull(accounts.moved_to)))
    .orderBy(desc(p.id))
}
