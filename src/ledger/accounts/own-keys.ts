import { and, eq, isNull, ne, or, type SQL, sql } from "drizzle-orm"
import type { Db } from "../database/db.ts"
import type { Owner } from "../entries.ts"
import { budgets } from "../schema/budgets.ts"
import { accounts, keys } from "../schema/tables.ts"
import {
  getKey,
  insertKey,
  type Key,
  lockAccount,
  type NewKey,
  replaceSecret,
  type SecretChange,
} from "./keys.ts"

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

/** The rights of a new key: those of the key that makes it, where the order has none of its own. */
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
