import { and, desc, eq, isNull, lt, type SQL, sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { type Page, type PageOf, paged } from "../database/page.ts"
import { AccountMoving } from "../entries.ts"
import { accounts, type keys } from "../schema/tables.ts"

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
  const known = await rowOf(database, account.id)
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
}

/**
 * Changes an account for every request that arrives from now on (D42); null when there is no such account, `conflict` if another
 * one has the external id. Rejects with `AccountMoving` during a move (D76).
 */
export async function changeAccount(
  database: PostgresJsDatabase,
  id: string,
  { name, external_id, suspended, price_multiplier_bp }: AccountChange,
): Promise<Account | "conflict" | null> {
  const same = external_id == null ? null : await findAccount(database, external_id)
  if (same !== null && same.id !== id) return "conflict"
  const [changed] = await database
    .update(accounts)
    .set({
      id,
      name,
      external_id,
      price_multiplier_bp,
      suspended_at: suspendedAt(accounts.suspended_at, suspended),
    })
    .where(and(eq(accounts.id, id), isNull(accounts.moving_to)))
    .returning()
  if (changed !== undefined) return changed
  if ((await rowOf(database, id)) !== null) throw new AccountMoving()
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
  const account = await rowOf(database, id)
  return account?.moved_to === null ? account : null
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

async function rowOf(database: PostgresJsDatabase, id: string): Promise<Account | null> {
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
  return paged(rows, page)
}
