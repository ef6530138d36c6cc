import { type SQL, sql } from "drizzle-orm"
import { alias, type PgColumn } from "drizzle-orm/pg-core"
import { type Period, periods } from "../../wire/call.ts"
import { names, type Row } from "../database/statement.ts"
import { carried_spending, corrections, ends, holds, keys } from "../schema/tables.ts"

/** The columns of a key, of the table or an alias of it. */
type Key = Readonly<Record<"spend_period" | "spend_limit_nano" | "spent_since" | "spent_nano", PgColumn>>

const NOW = sql.raw("now()")

/** When the key's period began, in UTC. It never goes back, not even with the database's clock; null without a limit. */
export function periodStart(key: Key, at: SQL = NOW): SQL {
  return sql`greatest(${key.spent_since}, date_trunc(${key.spend_period}, ${at}, 'UTC'))`
}

/** What the key has spent in the period that `periodStart` begins. */
export function spentIn(key: Key, at: SQL = NOW): SQL {
  return sql`CASE WHEN ${key.spent_since} >= date_trunc(${key.spend_period}, ${at}, 'UTC') THEN ${key.spent_nano} ELSE 0 END`
}

/** What the key may still spend in this period; less than nothing after an overage, null when it has no limit. */
export function remainingOf(key: Key): SQL {
  return sql`${key.spend_limit_nano} - ${spentIn(key)}`
}

const k = alias(keys, "k")
const h = alias(holds, "h")
const e = alias(ends, "e")
const c = alias(corrections, "c")
const m = alias(carried_spending, "carried")

/**
 * What a statement that ends calls says of spending limits (D42): a call that was counted at what it held is counted at
 * what it cost. The fragment follows a CTE `changed` with `key_id`, `held_at` and `spent_nano`, by how much more or less
 * the call counts, and the CTE `payers`, which holds the locks of the accounts: so nobody is met at a key. The keys are
 * judged by their locked, newest versions: a limit may have been set while the account was waited for.
 */
export const countSpending = sql`limits AS MATERIALIZED (
  SELECT ${k.id}, ${k.spent_since}, ${k.spend_limit_nano} FROM ${keys} ${k}
  WHERE ${k.id} = ANY (ARRAY(SELECT s.key_id FROM changed s JOIN payers p ON p.id = s.account_id WHERE p.is_limited))
  ORDER BY ${k.id} FOR NO KEY UPDATE
), counted AS (
  UPDATE ${keys} ${k} SET ${names(keys.spent_nano)} = ${k.spent_nano} + s.spent_nano
  FROM (
    SELECT m.id, sum(s.spent_nano)::bigint AS spent_nano FROM changed s
      JOIN limits m ON m.id = s.key_id AND m.spend_limit_nano IS NOT NULL AND m.spent_since <= s.held_at
    GROUP BY m.id) s
  WHERE ${k.id} = s.id AND ${k.id} = ANY (ARRAY(SELECT id FROM limits))
)`

/** A key's period: its beginning and its name. */
interface KeyPeriod {
  readonly id: SQL
  readonly account_id: SQL
  readonly since: SQL
  readonly period: SQL
}

/** What `spent_nano` must be for a key with a limit: what its calls in this shard come to, and what it came with (D76). */
export function spentSince(key: KeyPeriod): SQL {
  return sql`(${spentHere(key)} + ${carriedOf(key)})`
}

/** What a key came with in this period, from the shard where its account was (D76). */
export function carriedOf({ id, since, period }: Pick<KeyPeriod, "id" | "since" | "period">): SQL {
  return sql`coalesce((SELECT ${m.spent_nano} FROM ${carried_spending} ${m}
    WHERE ${m.key_id} = ${id} AND ${m.period} = ${period} AND ${m.since} = ${since}), 0)`
}

/**
 * What the calls of a key that were held here since `since` hold while they are open, and cost afterwards. An account index finds the calls of the last month and a day: ids follow the
 * ledger's clock (D58), so a day is more than any difference between a call's id and the time of its hold.
 */
export function spentHere(key: Omit<KeyPeriod, "period">): SQL {
  return sql`(SELECT coalesce(sum(coalesce(${c.charge_nano}, ${e.charge_nano}, ${h.amount_nano})), 0)::bigint
    FROM ${holds} ${h} LEFT JOIN ${ends} ${e} ON ${e.id} = ${h.id} LEFT JOIN ${corrections} ${c} ON ${c.id} = ${h.id}
    WHERE ${h.account_id} = ${key.account_id} AND ${h.key_id} = ${key.id} AND ${h.held_at} >= ${key.since}
      AND ${h.id} >= ${idsSince(key.since)})`
}

/** Below every id of a call that was held since then. */
export function idsSince(since: SQL): SQL {
  return sql`(lpad(to_hex((extract(epoch FROM ${since}) * 1000)::bigint - 86400000), 12, '0')
    || '00000000000000000000')::uuid`
}

/** A column with the period of a spending limit. */
export function periodOf(row: Row, column: string): Period {
  const value = row[column]
  if (!isPeriod(value)) throw new Error(`${column} is not a period`)
  return value
}

export function isPeriod(value: unknown): value is Period {
  return periods.some((period) => period === value)
}
