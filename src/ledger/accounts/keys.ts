import { and, desc, eq, getTableColumns, isNull, lte, ne, or, type SQL, sql } from "drizzle-orm"
import type { Period } from "../../wire/call.ts"
import { isAfter, type Page, type PageOf, pageOf } from "../database/page.ts"
import type { Db } from "../database/statement.ts"
import { AccountMoving, type Owner } from "../entries.ts"
import { isPeriod, spentIn, spentSince } from "../money/spending.ts"
import { k } from "../schema/aliases.ts"
import { budgets } from "../schema/budgets.ts"
import { customer_prices } from "../schema/customer-prices.ts"
import { accounts, keys } from "../schema/tables.ts"
import { suspendedAt } from "./accounts.ts"
import type { Made } from "./made.ts"

const {
  hash: _hash,
  spent_nano: _spent,
  spent_since: _since,
  labels_version: _version,
  previous_hash: _previous,
  ...columns
} = getTableColumns(k)

type SelectedKey = Awaited<ReturnType<typeof read>>[number]

/** A key as operators see it: never with its hash (D26). */
export interface Key extends Omit<SelectedKey, "spend_limit_nano" | "spend_period" | "spent_nano"> {
  /** Limit of its calls' cost in a period, and the current spending and holds in it (D42); null for no limit. */
  readonly spending: (SpendingLimit & { readonly spent_nano: bigint }) | null
}

/** The keys whose account is in this shard (D76), newest first. */
function read(database: Db, condition: SQL | undefined) {
  return database
    .select({ ...columns, spent_nano: sql`${spentIn(k)}`.mapWith(BigInt) })
    .from(k)
    .innerJoin(accounts, eq(accounts.id, k.account_id))
    .where(and(condition, isNull(accounts.moved_to)))
    .orderBy(desc(k.id))
}

function keyOf({ spend_limit_nano, spend_period, spent_nano, ...key }: SelectedKey): Key {
  if (spend_limit_nano === null || !isPeriod(spend_period)) return { ...key, spending: null }
  return { ...key, spending: { limit_nano: spend_limit_nano, period: spend_period, spent_nano } }
}

/** Limit of a key's calls in one UTC day or month (D42). */
export interface SpendingLimit {
  readonly limit_nano: bigint
  readonly period: Period
}

type NewKeyColumns = typeof keys.$inferInsert

/** `hash`: SHA-256 of the key in hex. The ledger never gets the key itself. */
export interface NewKey
  extends Pick<NewKeyColumns, "id" | "account_id" | "hash" | "prefix" | "labels" | "required_tags">,
    Pick<NewKeyColumns, "ignores_client_tags" | "group_path">,
    Pick<typeof keys.$inferSelect, "name" | "models" | "expires_at"> {
  readonly spending: SpendingLimit | null
}

/** Changes of a key; an absent field stays. */
export interface KeyChange extends Partial<Omit<NewKey, "id" | "account_id" | "hash" | "prefix">> {
  readonly suspended?: boolean
}

/** A new secret of a key. */
export interface SecretChange extends Pick<NewKey, "id" | "hash" | "prefix"> {
  /** Time for which the secret before it also works. */
  readonly keep_hours: number
}

export type RotationResult =
  | { readonly outcome: "done"; readonly key: Key }
  /** `rotating`: the secret before an earlier rotation still works. `no_key`: also of one that is revoked. */
  | { readonly outcome: "rotating" | "no_key" }

type KeyResult = Made<"key", Key, "no_account" | "conflict">

/** Longest wait for an account's lock. If it is not free, nothing changes. */
const LOCK_MS = 5_000

/** Adds a key to an account. The same `id` again makes no other key. */
export async function createKey(database: Db, key: NewKey): Promise<KeyResult> {
  return database.transaction(async (transaction) =>
    (await lockAccount(transaction, key.account_id))
      ? insertKey(transaction, key)
      : { outcome: "no_account" as const },
  )
}

/** Needs the account's lock. */
async function insertKey(
  transaction: Db,
  key: NewKey,
): Promise<Exclude<KeyResult, { outcome: "no_account" }>> {
  const { spending, ...values } = key
  const inserted = await transaction
    .insert(keys)
    .values({ ...values, ...limitOf(spending), spent_nano: 0n })
    .onConflictDoNothing({ target: keys.id })
    .returning({ id: keys.id })
  if (spending !== null || values.group_path) await noteLimits(transaction, key.account_id)
  const made = await getKey(transaction, key.id)
  if (made === null) throw new Error("a key was neither inserted nor found")
  if (made.account_id !== key.account_id) return { outcome: "conflict" }
  return { outcome: inserted.length > 0 ? "created" : "known", key: made }
}

/** Takes the lock of all statements about the account's calls. False without the account. Throws `AccountMoving` (D76). */
export async function lockAccount(transaction: Db, id: string): Promise<boolean> {
  await transaction.execute(sql`SELECT set_config('lock_timeout', ${String(LOCK_MS)}, true)`)
  const [account] = await transaction
    .select({ moving_to: accounts.moving_to })
    .from(accounts)
    .where(eq(accounts.id, id))
    .for("no key update")
  if (account !== undefined && account.moving_to !== null) throw new AccountMoving()
  return account !== undefined
}

async function lockOwner(transaction: Db, key_id: string): Promise<string | null> {
  const [key] = await transaction
    .select({ account_id: keys.account_id })
    .from(keys)
    .where(eq(keys.id, key_id))
  return key !== undefined && (await lockAccount(transaction, key.account_id)) ? key.account_id : null
}

/** Needs the account's lock, like every change of limits, groups, budgets and customer prices. */
export async function noteLimits(transaction: Db, account_id: string): Promise<void> {
  await transaction
    .update(accounts)
    .set({
      is_limited: sql`EXISTS (SELECT FROM ${keys} ${k} WHERE ${k.account_id} = ${account_id}
          AND (${k.spend_limit_nano} IS NOT NULL OR ${k.group_path} IS NOT NULL))
        OR EXISTS (SELECT FROM ${budgets} WHERE ${budgets.account_id} = ${account_id})
        OR EXISTS (SELECT FROM ${customer_prices} WHERE ${customer_prices.account_id} = ${account_id})`,
    })
    .where(eq(accounts.id, account_id))
}

/** Tells the statements that hold that budgets or customer prices have changed. Needs the account's lock. */
export async function noteVersion(transaction: Db, account_id: string): Promise<void> {
  await transaction
    .update(accounts)
    .set({ budgets_version: sql`${accounts.budgets_version} + 1` })
    .where(eq(accounts.id, account_id))
  await noteLimits(transaction, account_id)
}

/** Null also for a key whose account is in another shard (D76). */
export async function getKey(database: Db, id: string): Promise<Key | null> {
  const [key] = await read(database, eq(k.id, id))
  return key === undefined ? null : keyOf(key)
}

/** Changes a key (D42); null without it. A limit that is set counts its period's calls anew. Throws `AccountMoving` (D76). */
export async function changeKey(
  database: Db,
  id: string,
  { suspended, spending, ...values }: KeyChange,
): Promise<Key | null> {
  const { labels, required_tags, ignores_client_tags, group_path } = values
  const has_rules = [labels, required_tags, ignores_client_tags].some((rule) => rule !== undefined)
  return database.transaction(async (transaction) => {
    const account_id = await lockOwner(transaction, id)
    if (account_id === null) return null
    if (spending !== undefined) await limitKey(transaction, id, account_id, spending)
    await transaction
      .update(keys)
      .set({
        id,
        ...values,
        suspended_at: suspendedAt(keys.suspended_at, suspended),
        // No call that obeys the older labels and rules is held from now on (D94).
        ...(has_rules && { labels_version: sql`${keys.labels_version} + 1` }),
      })
      .where(eq(keys.id, id))
    if (group_path !== undefined) await noteLimits(transaction, account_id)
    return getKey(transaction, id)
  })
}

/** Sets or removes a limit, and counts what it must count, under the account's lock. */
async function limitKey(
  transaction: Db,
  id: string,
  account_id: string,
  spending: SpendingLimit | null,
): Promise<void> {
  const limit = limitOf(spending)
  const spent =
    spending === null
      ? 0n
      : spentSince({
          id: sql`${id}::uuid`,
          account_id: sql`${account_id}::uuid`,
          since: startOf(spending.period),
          period: sql`${spending.period}::text`,
        })
  await transaction
    .update(keys)
    .set({ ...limit, spent_nano: spent })
    .where(eq(keys.id, id))
  await noteLimits(transaction, account_id)
}

/** The columns of a limit that counts from now on. */
function limitOf(spending: SpendingLimit | null) {
  return {
    spend_limit_nano: spending === null ? null : spending.limit_nano,
    spend_period: spending === null ? null : spending.period,
    spent_since: spending === null ? null : startOf(spending.period),
  }
}

/** By the statement's time, not the transaction's, which may have waited for the account past the end of a period. */
function startOf(period: Period): SQL {
  return sql`date_trunc(${period}::text, statement_timestamp(), 'UTC')`
}

/** The keys of an account, newest first, the revoked ones too. */
export async function listKeys(database: Db, account_id: string, page: Page): Promise<PageOf<Key>> {
  const own = and(eq(k.account_id, account_id), isAfter(page, k.id))
  const { data, next } = await pageOf(page, read(database, own))
  return { data: data.map(keyOf), next }
}

/** Replaces the secret of a key that is not revoked. Rejects with `AccountMoving` during a move (D76). */
export function rotateKey(database: Db, change: SecretChange): Promise<RotationResult> {
  return database.transaction(async (transaction) =>
    (await lockOwner(transaction, change.id)) === null
      ? { outcome: "no_key" }
      : replaceSecret(transaction, change),
  )
}

/** Replaces a key's secret (D104); the one before works for `keep_hours`. Needs the account's lock. */
async function replaceSecret(
  transaction: Db,
  { id, hash, prefix, keep_hours }: SecretChange,
): Promise<RotationResult> {
  const now = sql.raw("statement_timestamp()")
  const has_one = or(isNull(keys.previous_until), lte(keys.previous_until, now))
  const replaced = await transaction
    .update(keys)
    .set({
      hash,
      prefix,
      labels_version: sql`${keys.labels_version} + 1`,
      previous_hash: keep_hours > 0 ? sql`${keys.hash}` : null,
      previous_until: keep_hours > 0 ? sql`${now} + make_interval(hours => ${keep_hours}::int)` : null,
    })
    .where(and(eq(keys.id, id), isNull(keys.revoked_at), keep_hours > 0 ? has_one : undefined))
    .returning({ id: keys.id })
  const key = await getKey(transaction, id)
  if (key === null || key.revoked_at !== null) return { outcome: "no_key" }
  return replaced.length > 0 ? { outcome: "done", key } : { outcome: "rotating" }
}

/** Revokes a key for every request that arrives from now on (D26); a second time changes nothing. False when there is no such key. Rejects with `AccountMoving` during a move (D76). */
export async function revokeKey(database: Db, id: string): Promise<boolean> {
  return database.transaction(async (transaction) => {
    if ((await lockOwner(transaction, id)) === null) return false
    await transaction
      .update(keys)
      .set({ revoked_at: sql`statement_timestamp()` })
      .where(and(eq(keys.id, id), isNull(keys.revoked_at)))
    return true
  })
}

/** The key that asks for a change of keys. */
export type KeyHolder = Pick<Owner, "account_id" | "key_id">

/** Reasons for which a holder may not change a key (D104). Then nothing is changed. */
type OwnKeyRefusal =
  | "invalid_api_key"
  | "key_suspended"
  | "account_suspended"
  /** The operator does not allow it. */
  | "not_allowed"
  /** The key that asks has a spending limit or a budget, which other keys would not count in. */
  | "limited"
  /** The other key may do what the key that asks may not. */
  | "more_rights"
  | "no_key"
  /** No other key of the account could call. */
  | "last_key"
  | "too_many"
  /** The secret before an earlier rotation still works. */
  | "rotating"
  /** The id belongs to a key of another account. */
  | "conflict"

export type OwnKeyResult =
  | { readonly outcome: "done" | "known"; readonly key: Key }
  | { readonly outcome: OwnKeyRefusal }

export type OwnKeyOrder = Omit<NewKey, "account_id">

/** Maximum number of an account's keys that are neither revoked nor expired, or not older than a day, if its holders make them. */
export const MAX_OWN_KEYS = 100

const NOW = sql.raw("statement_timestamp()")
const isUsable = and(isNull(keys.revoked_at), or(isNull(keys.expires_at), sql`${keys.expires_at} > ${NOW}`))

/** Makes a key with the rights of the holder's, or fewer. The same `id` again makes no other key. */
export function makeOwnKey(database: Db, holder: KeyHolder, order: OwnKeyOrder): Promise<OwnKeyResult> {
  return changing(database, holder, async (transaction, actor) => {
    const { account_id } = holder
    const key = { ...order, ...inherited(actor, order), account_id }
    const [known] = await transaction.select({ id: keys.id }).from(keys).where(eq(keys.id, order.id))
    if (known === undefined) {
      if (await isLimited(transaction, actor)) return "limited"
      if (!covers(actor, key)) return "more_rights"
      const counted = or(isUsable, sql`${keys.created_at} > ${NOW} - interval '1 day'`)
      if ((await count(transaction, account_id, counted)) >= MAX_OWN_KEYS) return "too_many"
    }
    const made = await insertKey(transaction, key)
    if (made.outcome === "conflict") return "conflict"
    return { outcome: made.outcome === "created" ? "done" : "known", key: made.key }
  })
}

/** Replaces the secret of a key by another one, as an operator can too. */
export function rotateOwnKey(database: Db, holder: KeyHolder, change: SecretChange): Promise<OwnKeyResult> {
  return changing(database, holder, async (transaction, actor) => {
    const key = await otherKey(transaction, actor, change.id)
    return typeof key === "string" ? key : replaceSecret(transaction, change)
  })
}

/** Revokes a key, but not the last one that can call. A second time changes nothing. */
export function revokeOwnKey(database: Db, holder: KeyHolder, id: string): Promise<OwnKeyResult> {
  return changing(database, holder, async (transaction, actor) => {
    const { account_id } = holder
    const past = await getKey(transaction, id)
    if (past?.account_id === account_id && past.revoked_at !== null) return { outcome: "known", key: past }
    const key = await otherKey(transaction, actor, id)
    if (typeof key === "string") return key
    const other = and(isUsable, isNull(keys.suspended_at), ne(keys.id, id))
    if ((await count(transaction, account_id, other)) === 0) return "last_key"
    await transaction.update(keys).set({ revoked_at: NOW }).where(eq(keys.id, id))
    return { outcome: "done", key }
  })
}

/** Runs a change under the account's lock, which every change of its keys takes, with the key that asks for it. */
async function changing(
  database: Db,
  { account_id, key_id }: KeyHolder,
  change: (transaction: Db, actor: Key) => Promise<OwnKeyResult | OwnKeyRefusal>,
): Promise<OwnKeyResult> {
  return database.transaction(async (transaction) => {
    if (!(await lockAccount(transaction, account_id))) return { outcome: "invalid_api_key" }
    const [account] = await transaction
      .select({ may_manage_keys: accounts.may_manage_keys, suspended_at: accounts.suspended_at })
      .from(accounts)
      .where(eq(accounts.id, account_id))
    const actor = await usableKey(transaction, account_id, key_id)
    if (actor === null) return { outcome: "invalid_api_key" }
    if (actor.suspended_at !== null) return { outcome: "key_suspended" }
    if (account?.suspended_at !== null) return { outcome: "account_suspended" }
    if (!account.may_manage_keys) return { outcome: "not_allowed" }
    const result = await change(transaction, actor)
    return typeof result === "string" ? { outcome: result } : result
  })
}

const count = (transaction: Db, account_id: string, condition: SQL | undefined) =>
  transaction.$count(keys, and(eq(keys.account_id, account_id), condition))

/** The key with this id if it is the account's, and neither revoked nor expired. */
async function usableKey(transaction: Db, account_id: string, id: string): Promise<Key | null> {
  const is_usable = (await count(transaction, account_id, and(isUsable, eq(keys.id, id)))) > 0
  return is_usable ? getKey(transaction, id) : null
}

/** The key with this id, which may be the one that asks, if that one may change it. */
async function otherKey(
  transaction: Db,
  actor: Key,
  id: string,
): Promise<Key | "no_key" | "limited" | "more_rights"> {
  const key = await usableKey(transaction, actor.account_id, id)
  if (key === null) return "no_key"
  if (id === actor.id) return key
  if (await isLimited(transaction, actor)) return "limited"
  return covers(actor, key) ? key : "more_rights"
}

/** True if the key's own calls have a limit, of which another key would have another one. */
async function isLimited(transaction: Db, { id, account_id, spending }: Key): Promise<boolean> {
  if (spending !== null) return true
  const its_own = and(
    eq(budgets.account_id, account_id),
    eq(budgets.selector, "key"),
    eq(budgets.selected, id),
  )
  return (await transaction.$count(budgets, its_own)) > 0
}

type KeyRights = Pick<
  NewKey,
  "models" | "expires_at" | "labels" | "required_tags" | "ignores_client_tags" | "group_path"
>

/** The rights of a new key: the requested ones, otherwise those of the key that makes it. */
function inherited(actor: Key, order: OwnKeyOrder): KeyRights {
  return {
    models: order.models ?? actor.models,
    expires_at: order.expires_at ?? actor.expires_at,
    labels: actor.labels === null ? (order.labels ?? null) : { ...actor.labels, ...order.labels },
    required_tags:
      actor.required_tags === null
        ? (order.required_tags ?? null)
        : [...new Set([...actor.required_tags, ...(order.required_tags ?? [])])],
    ignores_client_tags: actor.ignores_client_tags || order.ignores_client_tags === true,
    group_path: order.group_path ?? actor.group_path,
  }
}

/** True if a key with the rights `other` may do nothing that the actor's may not, and its calls are counted at least as narrowly. */
function covers(actor: Key, other: KeyRights): boolean {
  const { models, expires_at, group_path } = actor
  const labels = Object.entries(actor.labels ?? {})
  return (
    (models === null || other.models?.every((model) => models.includes(model)) === true) &&
    (expires_at === null || (other.expires_at !== null && other.expires_at <= expires_at)) &&
    (group_path === null ||
      other.group_path === group_path ||
      other.group_path?.startsWith(`${group_path}/`) === true) &&
    labels.every(([name, value]) => other.labels?.[name] === value) &&
    (actor.required_tags ?? []).every((name) => other.required_tags?.includes(name) === true) &&
    (!actor.ignores_client_tags || other.ignores_client_tags === true)
  )
}
