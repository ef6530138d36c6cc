import { and, desc, eq, inArray, isNull, lt, type SQL, sql } from "drizzle-orm"
import { DrizzleQueryError } from "drizzle-orm/errors"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { errorCode } from "../database/database-errors.ts"
import { type Page, type PageOf, paged } from "../database/page.ts"
import { arrayOf } from "../database/statement.ts"
import { AccountMoving } from "../entries.ts"
import { accounts, type keys } from "../schema/tables.ts"

const UNIQUE = "23505"

export type Account = typeof accounts.$inferSelect & {
  /** The name of its shard; absent where there is one (D74). */
  readonly shard?: string
}

export interface NewAccount {
  readonly id: string
  readonly name: string
  /** The operator's own id, which no other account has (D94). */
  readonly external_id?: string | undefined
  readonly price_multiplier_bp?: number | undefined
  /** The allowed overdraft (D95); null for none. */
  readonly credit_limit_nano?: bigint | null | undefined
  readonly low_balance_nano?: bigint | null | undefined
}

export type AccountResult =
  | { readonly outcome: "created" | "known"; readonly account: Account }
  /** Another account has the external id. */
  | { readonly outcome: "conflict" }
  /** No shard takes new accounts (D74). */
  | { readonly outcome: "none_open" }

/** Opens an account with a balance of 0. The same `id` again changes nothing and returns what stands there. */
export async function createAccount(
  database: PostgresJsDatabase,
  account: NewAccount,
): Promise<Exclude<AccountResult, { outcome: "none_open" }>> {
  const [created] = await database.insert(accounts).values(account).onConflictDoNothing().returning()
  if (created !== undefined) return { outcome: "created", account: created }
  const known = await getAccountRow(database, account.id)
  if (known !== null) return { outcome: "known", account: known }
  if (account.external_id === undefined) throw new Error("an account was neither inserted nor found")
  return { outcome: "conflict" }
}

/** Changes of an account; an absent field stays. */
export interface AccountChange {
  readonly name?: string | undefined
  /** Null removes it. */
  readonly external_id?: string | null | undefined
  readonly suspended?: boolean | undefined
  /** Of calls that are held from now on (D69). */
  readonly price_multiplier_bp?: number | undefined
  /** For calls that are held from now on; null for none. */
  readonly credit_limit_nano?: bigint | null | undefined
  readonly low_balance_nano?: bigint | null | undefined
}

/**
 * Changes an account for every request that arrives from now on (D42); null when there is no such account, `conflict` if another
 * one has the external id. Rejects with `AccountMoving` during a move (D76).
 */
export async function changeAccount(
  database: PostgresJsDatabase,
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
export async function getAccount(database: PostgresJsDatabase, id: string): Promise<Account | null> {
  const account = await getAccountRow(database, id)
  return account?.moved_to === null ? upToDate(database, account) : null
}

/** The account with this external id; null if none is in this shard (D94). */
export async function findAccount(
  database: PostgresJsDatabase,
  external_id: string,
): Promise<Account | null> {
  const [account] = await database
    .select()
    .from(accounts)
    .where(and(eq(accounts.external_id, external_id), isNull(accounts.moved_to)))
  return account ?? null
}

/** Also of an account that has moved to another shard. */
export async function getAccountRow(database: PostgresJsDatabase, id: string): Promise<Account | null> {
  const [account] = await database.select().from(accounts).where(eq(accounts.id, id))
  return account ?? null
}

/** All accounts that are in this shard, newest first, or the one with this external id. */
export async function listAccounts(
  database: PostgresJsDatabase,
  page: Page,
  external_id?: string,
): Promise<PageOf<Account>> {
  const rows = await database
    .select()
    .from(accounts)
    .where(
      and(
        isNull(accounts.moved_to),
        external_id === undefined ? undefined : eq(accounts.external_id, external_id),
        page.after === null ? undefined : lt(accounts.id, page.after),
      ),
    )
    .orderBy(desc(accounts.id))
    .limit(page.limit + 1)
  const changing = rows.filter(mayChange)
  if (changing.length === 0) return paged(rows, page)
  await applyChanges(
    database,
    changing.map(({ id }) => id),
  )
  const ids = rows.map(({ id }) => id)
  return paged(
    await database.select().from(accounts).where(inArray(accounts.id, ids)).orderBy(desc(accounts.id)),
    page,
  )
}

/** True if a change of the account's grants may be due (D95). */
const mayChange = ({ next_change_at }: Account) => next_change_at !== null && next_change_at !== "infinity"

async function upToDate(database: PostgresJsDatabase, account: Account): Promise<Account> {
  if (!mayChange(account)) return account
  await applyChanges(database, [account.id])
  return (await getAccountRow(database, account.id)) ?? account
}

/** Applies the due changes of grants, so that a balance that is read next is right (D95). */
export async function applyChanges(database: PostgresJsDatabase, ids: readonly string[]): Promise<void> {
  await database.execute(sql`SELECT tollgate.change_grants(a.id) FROM ${accounts} a
    WHERE a.id = ANY (${arrayOf(ids, (id) => id)}::uuid[]) AND a.next_change_at <= now() AND a.moved_to IS NULL ORDER BY a.id`)
}
