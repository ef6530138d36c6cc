import { type SQL, sql } from "drizzle-orm"
import type { PgColumn } from "drizzle-orm/pg-core"
import { g, t } from "../schema/aliases.ts"
import { gateways, type keys, terms } from "../schema/tables.ts"

type KeyColumns = Readonly<
  Record<
    Extract<
      keyof typeof keys.$inferSelect,
      "id" | "account_id" | "labels_version" | "revoked_at" | "suspended_at" | "expires_at" | "models"
    >,
    PgColumn
  >
>

/** A call's key, account, terms, and version of its key's labels. */
export interface KeyUse {
  readonly key_id: SQL
  readonly account_id: SQL
  readonly terms_id: SQL
  readonly labels_version: SQL
}

/** True for the row of the call's key if it may use the model, and its labels are of this version (D94). */
export function mayUse(key: KeyColumns, { key_id, account_id, terms_id, labels_version }: KeyUse): SQL {
  return sql`${key.id} = ${key_id} AND ${key.account_id} = ${account_id} AND ${key.labels_version} = ${labels_version}
    AND ${key.revoked_at} IS NULL AND ${key.suspended_at} IS NULL AND (${key.expires_at} IS NULL OR ${key.expires_at} > now())
    AND (${key.models} IS NULL OR (SELECT ${t.model} FROM ${terms} ${t} WHERE ${t.id} = ${terms_id}) = ANY (${key.models}))`
}

/** True unless the gateway was declared dead (D35). */
export const isAlive = sql`EXISTS (SELECT FROM ${gateways} ${g} WHERE ${g.id} = $2::uuid AND ${g.dead_at} IS NULL)`
