import { and, desc, eq, isNull, lt, sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { nextId } from "../id.ts"
import { type Listed, type Page, paged } from "./page.ts"
import { accounts, keys } from "./schema.ts"

/** A key as operators see it: never with its hash (D26). */
export type Key = Omit<typeof keys.$inferSelect, "hash">

export interface NewKey {
  readonly account_id: string
  readonly name: string | null
  /** SHA-256 of the key (hex); the key itself never comes here. */
  readonly hash: string
  readonly prefix: string
  /** Null: every model. */
  readonly models: readonly string[] | null
  readonly expires_at: Date | null
}

const shown = {
  id: keys.id,
  account_id: keys.account_id,
  name: keys.name,
  prefix: keys.prefix,
  models: keys.models,
  expires_at: keys.expires_at,
  revoked_at: keys.revoked_at,
  last_used_at: keys.last_used_at,
  created_at: keys.created_at,
}

/** Adds a key to an account; null when there is no such account. */
export async function createKey(database: PostgresJsDatabase, key: NewKey): Promise<Key | null> {
  const { account_id, models } = key
  const account = await database.select({ id: accounts.id }).from(accounts).where(eq(accounts.id, account_id))
  if (account.length === 0) return null
  const [created] = await database
    .insert(keys)
    .values({ ...key, id: nextId(), models: models === null ? null : [...models] })
    .returning(shown)
  if (created === undefined) throw new Error("a key was inserted and is not there")
  return created
}

/** The keys of an account, newest first, the revoked ones too. */
export async function listKeys(
  database: PostgresJsDatabase,
  account_id: string,
  page: Page,
): Promise<Listed<Key>> {
  const rows = await database
    .select(shown)
    .from(keys)
    .where(and(eq(keys.account_id, account_id), page.after === null ? undefined : lt(keys.id, page.after)))
    .orderBy(desc(keys.id))
    .limit(page.limit + 1)
  return paged(rows, page)
}

/** Revokes a key for every request that arrives from now on (D26); a second time changes nothing. False when there is no such key. */
export async function revokeKey(database: PostgresJsDatabase, id: string): Promise<boolean> {
  const revoked = await database
    .update(keys)
    .set({ revoked_at: sql`now()` })
    .where(and(eq(keys.id, id), isNull(keys.revoked_at)))
    .returning({ id: keys.id })
  if (revoked.length > 0) return true
  const known = await database.select({ id: keys.id }).from(keys).where(eq(keys.id, id))
  return known.length > 0
}
