import { type SQL, sql } from "drizzle-orm"
import { partitionOf } from "./months.ts"
import { type Ids, within } from "./slices.ts"

/** The text of entries, for the hashes of seals (D71) and for dumps (D75). It needs the time zone UTC. */

/** Without null columns, which later versions add, and the transaction, which differs once restored (D96). */
export const textOf = (row: string): SQL => sql.raw(`(jsonb_strip_nulls(to_jsonb(${row})) - 'xid')::text`)

export const digestOf = (texts: SQL, order: SQL): SQL =>
  sql`encode(sha256(coalesce(string_agg(sha256(convert_to(${texts}, 'UTF8')), ''::bytea ORDER BY ${order}), ''::bytea)), 'hex')`

export const ENTRY_KINDS = ["hold", "end", "correction", "attempt"] as const

/** `id`, `kind` (the index in the list), `ordinal` and `entry` of a month's entries, attached or not. */
export function entriesIn(month: string, ids: Ids): SQL {
  const parts = ENTRY_KINDS.map((kind, at) => {
    const table = sql.raw(partitionOf(`${kind}s`, month))
    const ordinal = sql.raw(kind === "attempt" ? "x.ordinal" : "0")
    return sql`SELECT x.id, ${sql.raw(String(at))} AS kind, ${ordinal} AS ordinal, ${textOf("x")} AS entry
      FROM ${table} x WHERE ${within(sql`x.id`, ids)}`
  })
  return sql.join(parts, sql` UNION ALL `)
}

export const ENTRY_ORDER = sql`x.id, x.kind, x.ordinal`
