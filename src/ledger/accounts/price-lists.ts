import { and, desc, eq, getTableColumns, isNotNull, isNull, type SQL, sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import { nextId } from "../../id.ts"
import { recordOf } from "../../kinds.ts"
import { isAfter, type Page, type PageOf, pageOf } from "../database/page.ts"
import { type Db, firstRow, instant } from "../database/statement.ts"
import { AccountMoving, type PriceOfList } from "../entries.ts"
import { customer_prices, price_lists } from "../schema/customer-prices.ts"
import { accounts } from "../schema/tables.ts"
import type { Author } from "./budgets.ts"
import {
  type CustomerPriceOrder,
  endPrices,
  endsAt,
  hasRoom,
  isNotOver,
  isPast,
  NOW,
  p,
} from "./customer-prices.ts"
import { lockAccount, noteVersion } from "./keys.ts"
import type { Made } from "./made.ts"

/** A price list (D110) as it is now: its newest version. */
export type PriceListRecord = Omit<typeof price_lists.$inferSelect, "list_id">

/** `id`: of the request. `list_id`: of the list that it changes. */
export interface PriceListUpdate extends Author {
  readonly id: string
  readonly list_id: string
  readonly prices: readonly PriceOfList[]
}

export type PriceListOrder = Omit<PriceListUpdate, "list_id"> & { readonly name: string }

export type PriceListResult = Made<"list", PriceListRecord, "no_list" | "conflict" | "name_taken">

/** A list that an account has for some time, as it stands now. */
export interface AssignedList extends Omit<Awaited<ReturnType<typeof assignments>>[number], "until_at"> {
  readonly until_at: Date | null
}

type AssignmentState = "scheduled" | "current" | "over"

export type AssignmentOrder = Author & Pick<CustomerPriceOrder, "id" | "account_id" | "from_at" | "until_at">

type AssignmentResult = Made<"assignment", AssignedList, "no_account" | "conflict" | "past" | "too_many">

const l = alias(price_lists, "l")
const { list_id, ...columns } = getTableColumns(l)
const shown = { ...columns, id: list_id }

/** The same `id` again makes no other list. */
export async function createPriceList(database: Db, list: PriceListOrder): Promise<PriceListResult> {
  const first = { ...list, list_id: list.id, version: 1, made_at: NOW }
  const made = await database
    .insert(price_lists)
    .values(first)
    .onConflictDoNothing()
    .returning({ id: price_lists.id })
  const [found] = await findPriceLists(database, list)
  if (found === undefined) return { outcome: "conflict" }
  if (found.id !== list.id) return { outcome: "name_taken" }
  return { outcome: made.length > 0 ? "created" : "known", list: found }
}

/** Adds a version of a list. The same `id` again adds no other one. The accounts have it after `updateAssignments`. */
export async function changePriceList(database: Db, change: PriceListUpdate): Promise<PriceListResult> {
  return database.transaction(async (transaction) => {
    const [first] = await transaction
      .select({ name: price_lists.name })
      .from(price_lists)
      .where(eq(price_lists.id, change.list_id))
      .for("no key update")
    const list = await getPriceList(transaction, change.list_id)
    if (first === undefined || list === null) return { outcome: "no_list" }
    const [known] = await transaction.select({ list_id: l.list_id }).from(l).where(eq(l.id, change.id))
    if (known !== undefined)
      return known.list_id === list.id ? { outcome: "known", list } : { outcome: "conflict" }
    await transaction
      .insert(price_lists)
      .values({ ...change, name: list.name, version: list.version + 1, made_at: NOW })
    const changed = await getPriceList(transaction, list.id)
    return changed === null ? { outcome: "no_list" } : { outcome: "created", list: changed }
  })
}

export function getPriceList(database: Db, id: string): Promise<PriceListRecord | null> {
  return firstRow(newest(database, eq(l.list_id, id)))
}

/** The list with this id, and the one with this name. */
export function findPriceLists(
  database: Db,
  { id, name }: { readonly id: string; readonly name: string },
): Promise<PriceListRecord[]> {
  const is_either = sql`${l.list_id} = ${id} OR ${l.version} = 1 AND ${l.name} = ${name}`
  return newest(database, is_either).orderBy(desc(eq(l.list_id, id)))
}

/** Newest first. */
export async function listPriceLists(database: Db, page: Page): Promise<PageOf<PriceListRecord>> {
  const after = isAfter(page, l.list_id) ?? sql`true`
  return pageOf(page, newest(database, after).orderBy(desc(l.list_id)))
}

function newest(database: Db, condition: SQL) {
  return database
    .select(shown)
    .from(l)
    .where(
      and(
        sql`(${condition})`,
        sql`${l.version} = (SELECT max(x.version) FROM ${price_lists} x WHERE x.list_id = ${l.list_id})`,
      ),
    )
}

/** Gives an account the prices of a list for some time. The same `id` again gives it no others. */
export async function assignPriceList(
  database: Db,
  list: PriceListRecord,
  { from_at, until_at, id, account_id, ...author }: AssignmentOrder,
): Promise<AssignmentResult> {
  return database.transaction(async (transaction) => {
    if (!(await lockAccount(transaction, account_id))) return { outcome: "no_account" }
    const known = await getAssignment(transaction, id)
    if (known !== null)
      return known.account_id === account_id && known.price_list_id === list.id
        ? { outcome: "known", assignment: known }
        : { outcome: "conflict" }
    if (!(await hasRoom(transaction, account_id, list.prices.length))) return { outcome: "too_many" }
    if (await isPast(transaction, from_at, until_at)) return { outcome: "past" }
    const rest = { account_id, price_list_id: list.id, assignment_id: id, until_at, ...author, made_at: NOW }
    await transaction
      .insert(customer_prices)
      .values(list.prices.map((price) => ({ id: nextId(), ...price, ...rest, from_at: from_at ?? NOW })))
    await noteVersion(transaction, account_id)
    const assignment = await getAssignment(transaction, id)
    return assignment === null ? { outcome: "conflict" } : { outcome: "created", assignment }
  })
}

/** Ends an assignment from a moment on; null: from now on. Changes nothing if it is over by then. */
export async function endAssignment(
  database: Db,
  id: string,
  end: Author & { readonly at: Date | null },
): Promise<AssignedList | "past" | null> {
  const found = await getAssignment(database, id)
  if (found === null) return null
  const ended = await endPrices(database, found.account_id, eq(p.assignment_id, id), end)
  return ended === "past" ? ended : getAssignment(database, id)
}

/** Null also for one whose account is in another shard (D76). */
export function getAssignment(database: Db, id: string): Promise<AssignedList | null> {
  return firstRow(assignments(database, eq(p.assignment_id, id), []))
}

/** The assignments of a list, also those that are over, newest first. */
export async function listAssignments(
  database: Db,
  list: PriceListRecord,
  page: Page,
): Promise<PageOf<AssignedList>> {
  const of_list = and(eq(p.price_list_id, list.id), isAfter(page, p.assignment_id))
  return pageOf(page, assignments(database, of_list, list.prices))
}

const PAGE = 50

/** `left`: how many could not be changed, because they move to another shard. `next`: after which assignment to go on. */
interface UpdatedPart {
  readonly left: number
  readonly next: string | null
}

/** Continues at the position of the shard with most assignments. A repetition in the others changes nothing. */
export function addUpdates(parts: readonly UpdatedPart[]): UpdatedPart {
  const next = parts
    .flatMap(({ next }) => next ?? [])
    .sort()
    .at(-1)
  return { left: parts.reduce((sum, { left }) => sum + left, 0), next: next ?? null }
}

/** Gives accounts the list as it is now, each in its own transaction. A repetition changes nothing. */
export async function updateAssignments(
  database: Db,
  list: PriceListRecord,
  after: string | null,
): Promise<UpdatedPart> {
  const { data, next } = await listAssignments(database, list, { limit: PAGE, after })
  let left = 0
  for (const assignment of data)
    if (assignment.is_pending && !(await update(database, assignment, list))) left += 1
  return { left, next }
}

async function update(
  database: Db,
  { id, account_id }: AssignedList,
  list: PriceListRecord,
): Promise<boolean> {
  try {
    await database.transaction(async (transaction) => {
      if (await lockAccount(transaction, account_id)) await replace(transaction, id, account_id, list)
    })
    return true
  } catch (error) {
    if (error instanceof AccountMoving) return false
    throw error
  }
}

/** Needs the account's lock. All prices of an assignment that are not over end at the same time. */
async function replace(
  transaction: Db,
  assignment_id: string,
  account_id: string,
  { id: price_list_id, prices, actor, reason }: PriceListRecord,
): Promise<void> {
  const open = await transaction
    .select({
      id: p.id,
      model: p.model,
      price_multiplier_bp: p.price_multiplier_bp,
      prices: p.prices,
      from_at: p.from_at,
      until_at: endsAt,
    })
    .from(p)
    // Drizzle names columns without their table in a SELECT of one table, and `endsAt` has two.
    .innerJoin(accounts, eq(accounts.id, p.account_id))
    .where(and(eq(p.assignment_id, assignment_id), isNotOver))
  const [one] = open
  if (one === undefined) return
  const rest = { account_id, actor, reason, made_at: NOW }
  const gone = open
    .filter((price) => !prices.some((other) => isSame(price, other)))
    .map(({ id }) => ({ id: nextId(), ended_id: id, from_at: NOW, ...rest }))
  const from_at = sql`greatest(${instant(one.from_at)}, ${NOW})`
  const added = prices
    .filter((price) => !open.some((other) => isSame(price, other)))
    .map((price) => ({
      id: nextId(),
      ...price,
      price_list_id,
      assignment_id,
      from_at,
      until_at: one.until_at,
      ...rest,
    }))
  if (gone.length + added.length === 0) return
  await transaction.insert(customer_prices).values([...gone, ...added])
  await noteVersion(transaction, account_id)
}

function isSame(one: PriceOfList, other: PriceOfList): boolean {
  return (
    one.model === other.model &&
    one.price_multiplier_bp === other.price_multiplier_bp &&
    Bun.deepEquals(one.prices, other.prices)
  )
}

/** The number of assignments of a list that are not over, and of those that do not have it as it is now. */
type AssignmentCounts = Readonly<Record<"assigned" | "pending", number>>

export async function countAssignments(
  database: Db,
  { id, prices }: PriceListRecord,
): Promise<AssignmentCounts> {
  const x = assignments(database, eq(p.price_list_id, id), prices).as("x")
  const [counts] = await database
    .select({
      assigned: sql<number>`(count(*) FILTER (WHERE ${x.state} <> 'over'))::int`,
      pending: sql<number>`(count(*) FILTER (WHERE ${x.is_pending}))::int`,
    })
    .from(x)
  return counts ?? { assigned: 0, pending: 0 }
}

/** Adds the numbers of several shards (D74). */
export function addAssignments(parts: readonly AssignmentCounts[]): AssignmentCounts {
  return recordOf(["assigned", "pending"], (name) => parts.reduce((sum, part) => sum + part[name], 0))
}

const first = <T>(column: SQL) => sql<T>`(array_agg(${column} ORDER BY ${p.made_at}, ${p.id}))[1]`
const is_open = sql`bool_or(${isNotOver})`
const from_at = sql<Date>`min(${p.from_at})`

function assignments(database: Db, condition: SQL | undefined, prices: readonly PriceOfList[]) {
  const wanted = sql`(SELECT jsonb_agg(x ORDER BY x->>'model') FROM jsonb_array_elements(${JSON.stringify(prices)}::text::jsonb) x)`
  const given = sql`jsonb_agg(jsonb_build_object('model', ${p.model}, 'price_multiplier_bp', ${p.price_multiplier_bp}, 'prices', ${p.prices})
    ORDER BY ${p.model}) FILTER (WHERE ${isNotOver})`
  return database
    .select({
      id: sql<string>`${p.assignment_id}`.as("id"),
      account_id: p.account_id,
      price_list_id: sql<string>`${p.price_list_id}`.as("price_list_id"),
      from_at: from_at.mapWith(p.from_at).as("from_at"),
      until_at: sql<Date | null>`CASE WHEN bool_and(${endsAt} IS NOT NULL) THEN max(${endsAt}) END`
        .mapWith(p.from_at)
        .as("until_at"),
      state:
        sql<AssignmentState>`CASE WHEN NOT ${is_open} THEN 'over' WHEN ${from_at} > ${NOW} THEN 'scheduled' ELSE 'current' END`.as(
          "state",
        ),
      /** True if the account does not have the list with these `prices`. */
      is_pending: sql<boolean>`coalesce(${given} <> ${wanted}, false)`.as("is_pending"),
      actor: first<string>(sql`${p.actor}`).as("actor"),
      reason: first<string | null>(sql`${p.reason}`).as("reason"),
      made_at: sql<Date>`min(${p.made_at})`.mapWith(p.made_at).as("made_at"),
    })
    .from(p)
    .innerJoin(accounts, eq(accounts.id, p.account_id))
    .where(and(condition, isNotNull(p.assignment_id), isNull(accounts.moved_to)))
    .groupBy(p.assignment_id, p.account_id, p.price_list_id)
    .orderBy(desc(p.assignment_id))
}
