import { and, desc, eq, isNull, lt, sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import type { Period } from "../wire/call.ts"
import { type Listed, type Page, paged } from "./page.ts"
import { accounts, keys } from "./schema.ts"
import { countPast, spent } from "./spending.ts"
import { isPeriod } from "./statement.ts"
import { suspension } from "./suspension.ts"

/** A key as operators see it: never with its hash (D26). */
export interface Key
  extends Omit<
    typeof keys.$inferSelect,
    "hash" | "spend_limit_nano" | "spend_period" | "spend_epoch" | "spent_nano" | "spent_since"
  > {
  /** What its calls may cost in a period, and what they have cost and hold in this one (D42); null for no limit. */
  readonly spending: (SpendingLimit & { readonly spent_nano: bigint }) | null
}

/** How much a key's calls may cost in one day or month, in UTC (D42). */
export interface SpendingLimit {
  readonly limit_nano: bigint
  readonly period: Period
}

export interface NewKey {
  readonly id: string
  readonly account_id: string
  readonly name: string | null
  /** SHA-256 of the key (hex); the key itself never comes here. */
  readonly hash: string
  readonly prefix: string
  /** Null: every model. */
  readonly models: readonly string[] | null
  readonly expires_at: Date | null
  readonly spending: SpendingLimit | null
}

/** What of a key is to be otherwise; what is left out stays. */
export interface KeyChange {
  readonly name?: string | null
  readonly models?: readonly string[] | null
  readonly expires_at?: Date | null
  readonly suspended?: boolean
  readonly spending?: SpendingLimit | null
}

export type KeyResult =
  | { readonly outcome: "created" | "known"; readonly key: Key }
  | { readonly outcome: "no_account" }
  /** The id belongs to another account's key. */
  | { readonly outcome: "conflict" }

const k = alias(keys, "k")

const shown = {
  id: k.id,
  account_id: k.account_id,
  name: k.name,
  prefix: k.prefix,
  models: k.models,
  expires_at: k.expires_at,
  revoked_at: k.revoked_at,
  suspended_at: k.suspended_at,
  last_used_at: k.last_used_at,
  created_at: k.created_at,
  limit_nano: k.spend_limit_nano,
  period: k.spend_period,
  spent_nano: sql<string>`(${spent})::text`,
}

type Shown = Omit<Key, "spending"> & {
  readonly limit_nano: bigint | null
  readonly period: string | null
  readonly spent_nano: string
}

function keyOf({ limit_nano, period, spent_nano, ...key }: Shown): Key {
  if (limit_nano === null || !isPeriod(period)) return { ...key, spending: null }
  return { ...key, spending: { limit_nano, period, spent_nano: BigInt(spent_nano) } }
}

/** Adds a key to an account. The same `id` again makes no other key. */
export async function createKey(database: PostgresJsDatabase, key: NewKey): Promise<KeyResult> {
  const { spending, models, ...values } = key
  const [account] = await database
    .select({ id: accounts.id })
    .from(accounts)
    .where(eq(accounts.id, key.account_id))
  if (account === undefined) return { outcome: "no_account" }
  const inserted = await database
    .insert(keys)
    .values({ ...values, models: models && [...models], ...limitOf(spending), spend_epoch: 0 })
    .onConflictDoNothing({ target: keys.id })
    .returning({ id: keys.id })
  const found = await getKey(database, key.id)
  if (found === null) throw new Error("a key was neither created nor there")
  if (found.account_id !== key.account_id) return { outcome: "conflict" }
  return { outcome: inserted.length > 0 ? "created" : "known", key: found }
}

/** The key, or null when there is none. */
export async function getKey(database: PostgresJsDatabase, id: string): Promise<Key | null> {
  const [key] = await database.select(shown).from(k).where(eq(k.id, id))
  return key === undefined ? null : keyOf(key)
}

/**
 * Changes a key for every request that arrives from now on (D42); null when there is no such key. A limit that is set,
 * also to the amount that it has, counts anew what the calls of its period have cost and hold.
 */
export async function changeKey(
  database: PostgresJsDatabase,
  id: string,
  { name, models, expires_at, suspended, spending }: KeyChange,
): Promise<Key | null> {
  const changed = await database
    .update(keys)
    .set({
      id,
      name,
      models: models && [...models],
      expires_at,
      suspended_at: suspension(keys.suspended_at, suspended),
      ...(spending === undefined ? {} : limitOf(spending)),
      ...(spending ? { spent_nano: untilCounted(spending) } : {}),
    })
    .where(eq(keys.id, id))
    .returning({
      account_id: keys.account_id,
      since: keys.spent_since,
      epoch: keys.spend_epoch,
      until_nano: keys.spent_nano,
    })
  const [key] = changed
  if (key === undefined) return null
  if (spending !== undefined && key.since !== null) {
    await database.execute(countPast({ id, ...key, since: key.since }))
  }
  return getKey(database, id)
}

/**
 * What stands as spent until the past is counted: what was known of the same period, and all of the limit when the period
 * is another, so that a limit that there was is never open anew meanwhile.
 */
function untilCounted({ limit_nano, period }: SpendingLimit) {
  return sql`CASE WHEN ${keys.spend_limit_nano} IS NULL THEN 0
    WHEN ${keys.spend_period} <> ${period}::text THEN ${limit_nano.toString()}::bigint
    WHEN ${keys.spent_since} >= date_trunc(${period}::text, now(), 'UTC') THEN ${keys.spent_nano} ELSE 0 END`
}

/** The columns of a limit that begins to count now. */
function limitOf(spending: SpendingLimit | null) {
  return {
    spend_limit_nano: spending === null ? null : spending.limit_nano,
    spend_period: spending === null ? null : spending.period,
    spend_epoch: sql`${keys.spend_epoch} + 1`,
    spent_nano: 0n,
    spent_since: spending === null ? null : sql`date_trunc(${spending.period}::text, now(), 'UTC')`,
  }
}

/** The keys of an account, newest first, the revoked ones too. */
export async function listKeys(
  database: PostgresJsDatabase,
  account_id: string,
  page: Page,
): Promise<Listed<Key>> {
  const rows = await database
    .select(shown)
    .from(k)
    .where(and(eq(k.account_id, account_id), page.after === null ? undefined : lt(k.id, page.after)))
    .orderBy(desc(k.id))
    .limit(page.limit + 1)
  return paged(rows.map(keyOf), page)
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
