import { and, asc, desc, eq, inArray, isNull, type SQL, sql } from "drizzle-orm"
import { DrizzleQueryError } from "drizzle-orm/errors"
import type { AccountSort } from "../../wire/admin-query.ts"
import { errorCode } from "../database/database-errors.ts"
import { compared, type Page, type PageOf, paged } from "../database/page.ts"
import { arrayOf, type Db, firstRow } from "../database/statement.ts"
import { AccountMoving, type OfShard } from "../entries.ts"
import { accounts, type keys } from "../schema/tables.ts"
import type { Made } from "./made.ts"

const UNIQUE = "23505"
const CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

export type Account = typeof accounts.$inferSelect & OfShard

type AccountColumns = Omit<typeof accounts.$inferInsert, "id">

/** Settings of a new or changed account, for calls that are held from then on. In a change, an absent field stays. */
type AccountSettings = Pick<
  AccountColumns,
  "external_id" | "price_multiplier_bp" | "credit_limit_nano" | "low_balance_nano" | "may_manage_keys"
>

export interface NewAccount extends AccountSettings, Pick<AccountColumns, "name"> {
  readonly id: string
}

/** `none_open`: no shard takes new accounts (D74). */
export type AccountResult = Made<"account", Account, "conflict" | "none_open">

/** Opens an account with a balance of 0. The same `id` again changes nothing and returns the existing account. */
export async function createAccount(
  database: Db,
  account: NewAccount,
): Promise<Exclude<AccountResult, { outcome: "none_open" }>> {
  const [created] = await database.insert(accounts).values(account).onConflictDoNothing().returning()
  if (created !== undefined) return { outcome: "created", account: created }
  const known = await getAccountRow(database, account.id)
  if (known !== null) return { outcome: "known", account: known }
  if (account.external_id == null) throw new Error("an account was neither inserted nor found")
  return { outcome: "conflict" }
}

export interface AccountChange extends AccountSettings, Partial<Pick<AccountColumns, "name">> {
  readonly suspended?: boolean | undefined
}

/** Null without such an account, `conflict` if another has the external id. Throws `AccountMoving` (D76). */
export async function changeAccount(
  database: Db,
  id: string,
  { suspended, ...columns }: AccountChange,
): Promise<Account | "conflict" | null> {
  const [changed] = await database
    .update(accounts)
    .set({ id, ...columns, suspended_at: suspendedAt(accounts.suspended_at, suspended) })
    .where(and(eq(accounts.id, id), isNull(accounts.moving_to)))
    .returning()
    .catch((error: unknown) => {
      const cause = error instanceof DrizzleQueryError ? error.cause : error
      // The only value of these that is unique.
      if (errorCode(cause) === UNIQUE) return ["conflict"] as const
      throw error
    })
  if (changed === "conflict") return changed
  if (changed !== undefined) return upToDate(database, changed)
  if ((await getAccountRow(database, id)) !== null) throw new AccountMoving()
  return null
}

/** The new value of `suspended_at`: the time of the first suspension stays, null ends it, undefined changes nothing. */
export function suspendedAt(
  column: typeof keys.suspended_at | typeof accounts.suspended_at,
  suspended: boolean | undefined,
): SQL | null | undefined {
  if (suspended === undefined) return undefined
  // The smaller of the two that is not null.
  return suspended ? sql`least(${column}, now())` : null
}

/** Null also for an account in another shard (D76). */
export async function getAccount(database: Db, id: string): Promise<Account | null> {
  const account = await getAccountRow(database, id)
  return account?.moved_to === null ? upToDate(database, account) : null
}

/** The account with this external id; null if none is in this shard (D94). */
export function findAccount(database: Db, external_id: string): Promise<Account | null> {
  const is_here = and(eq(accounts.external_id, external_id), isNull(accounts.moved_to))
  return firstRow(database.select().from(accounts).where(is_here))
}

/** Also of an account that has moved to another shard. */
export function getAccountRow(database: Db, id: string): Promise<Account | null> {
  return firstRow(database.select().from(accounts).where(eq(accounts.id, id)))
}

export interface AccountFilter {
  readonly external_id?: string | undefined
  /** A part of the name or the external id, or the id. */
  readonly search?: string | undefined
  /** Newest first by default. */
  readonly sort?: AccountSort | undefined
  /** The account with the id `after` of the page, which may be in another shard; looked up if it is absent. */
  readonly last?: Account | null
}

/** The accounts in this shard. One whose sorted value changes between two pages may be missed or come twice. */
export async function listAccounts(
  database: Db,
  page: Page,
  { external_id, search, sort, last }: AccountFilter = {},
): Promise<PageOf<Account>> {
  const { key, type, sortedBy, is_descending } = orderOf(sort)
  const found = page.after === null ? null : (last ?? (await getAccountRow(database, page.after)))
  if (page.after !== null && found === null) return { data: [], next: null }
  const [than, direction] = is_descending ? [sql`<`, desc] : [sql`>`, asc]
  const rows = await database
    .select()
    .from(accounts)
    .where(
      and(
        isNull(accounts.moved_to),
        external_id === undefined ? undefined : eq(accounts.external_id, external_id),
        search === undefined ? undefined : matches(search),
        found === null
          ? undefined
          : sql`(${key}, ${accounts.id}) ${than} (${String(sortedBy(found))}::${type}, ${found.id}::uuid)`,
      ),
    )
    .orderBy(direction(key), direction(accounts.id))
    .limit(page.limit + 1)
  const changing = rows.filter(mayChange).map(({ id }) => id)
  if (changing.length === 0) return paged(rows, page)
  await applyChanges(database, changing)
  const now = await database.select().from(accounts).where(inArray(accounts.id, changing))
  return paged(
    rows.map((row) => now.find(({ id }) => id === row.id) ?? row),
    page,
  )
}

interface AccountOrder {
  readonly key: SQL
  readonly type: SQL
  sortedBy(account: Account): string | bigint
}

const amount = (key: SQL, sortedBy: (account: Account) => bigint) => ({ key, type: sql`bigint`, sortedBy })
const { id, name, balance_nano, held_nano, credit_limit_nano } = accounts

const ORDERS: Readonly<Record<string, AccountOrder>> = {
  // Ids have the time of the creation.
  created: { key: sql`${id}`, type: sql`uuid`, sortedBy: (account) => account.id },
  // Only ASCII letters ignore case, so that every shard and this process have the same order.
  name: {
    key: sql`translate(${name}, ${CAPITALS}, ${CAPITALS.toLowerCase()}) COLLATE "C"`,
    type: sql`text`,
    sortedBy: (account) => account.name.replace(/[A-Z]/g, (letter) => letter.toLowerCase()),
  },
  balance: amount(sql`${balance_nano}`, (account) => account.balance_nano),
  held: amount(sql`${held_nano}`, (account) => account.held_nano),
  available: amount(
    sql`(${balance_nano} + coalesce(${credit_limit_nano}, 0) - ${held_nano})`,
    (account) => account.balance_nano + (account.credit_limit_nano ?? 0n) - account.held_nano,
  ),
}

function orderOf(sort: AccountSort = "-created"): AccountOrder & { readonly is_descending: boolean } {
  const order = ORDERS[sort.replace("-", "")]
  if (order === undefined) throw new Error(`there is no order ${sort}`)
  return { ...order, is_descending: sort.startsWith("-") }
}

const matches = (search: string) => sql`(position(lower(${search}) in lower(${accounts.name})) > 0
  OR position(lower(${search}) in lower(${accounts.external_id})) > 0 OR ${accounts.id}::text = lower(${search}))`

/** The pages of several shards as one. */
export function mergeAccounts(
  pages: readonly PageOf<Account>[],
  { limit }: Page,
  sort?: AccountSort,
): PageOf<Account> {
  const { sortedBy, is_descending } = orderOf(sort)
  const rows = pages
    .flatMap(({ data }) => data)
    .map((account) => ({ account, value: sortedBy(account) }))
    .sort((one, other) => {
      const [left, right] = is_descending ? [other, one] : [one, other]
      return compared(left.value, right.value) || compared(left.account.id, right.account.id)
    })
  const data = rows.slice(0, limit).map(({ account }) => account)
  const has_more = rows.length > limit || pages.some(({ next }) => next !== null)
  return { data, next: has_more ? (data.at(-1)?.id ?? null) : null }
}

/** True if a change of the account's grants may be due (D95). */
const mayChange = ({ next_change_at }: Account) => next_change_at !== null && next_change_at !== "infinity"

async function upToDate(database: Db, account: Account): Promise<Account> {
  if (!mayChange(account)) return account
  await applyChanges(database, [account.id])
  return (await getAccountRow(database, account.id)) ?? account
}

/** Applies the due changes of grants, so that a balance that is read next is right (D95). */
export async function applyChanges(database: Db, ids: readonly string[]): Promise<void> {
  await database.execute(sql`SELECT tollgate.change_grants(a.id) FROM ${accounts} a
    WHERE a.id = ANY (${arrayOf(ids, (id) => id)}::uuid[]) AND a.next_change_at <= now() AND a.moved_to IS NULL ORDER BY a.id`)
}

/** The same for all accounts, so that a sum of balances that is read next is right. */
export async function applyDueChanges(database: Db): Promise<void> {
  const due = await database
    .select({ id: accounts.id })
    .from(accounts)
    .where(sql`${accounts.next_change_at} <= now()`)
  if (due.length > 0)
    await applyChanges(
      database,
      due.map(({ id }) => id),
    )
}
