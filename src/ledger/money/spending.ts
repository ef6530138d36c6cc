import { type SQL, sql } from "drizzle-orm"
import { alias, type PgColumn } from "drizzle-orm/pg-core"
import { type Period, periods } from "../../wire/call.ts"
import { names, of, type Row } from "../database/statement.ts"
import { c, e, h, k } from "../schema/aliases.ts"
import { carried_spending, corrections, ends, holds, keys } from "../schema/tables.ts"

/** The columns of a key, of the table or an alias of it. */
type SpendingColumns = Readonly<
  Record<"spend_period" | "spend_limit_nano" | "spent_since" | "spent_nano", PgColumn | SQL>
>

const NOW = sql.raw("now()")

/** Start of the key's period, in UTC. It never goes back, even if the database's clock does; null without a limit. */
export function periodStart(key: SpendingColumns, at: SQL = NOW): SQL {
  return sql`greatest(${key.spent_since}, date_trunc(${key.spend_period}, ${at}, 'UTC'))`
}

/** The key's spending in the period that `periodStart` begins. */
export function spentIn(key: SpendingColumns, at: SQL = NOW): SQL {
  return sql`CASE WHEN ${key.spent_since} >= date_trunc(${key.spend_period}, ${at}, 'UTC') THEN ${key.spent_nano} ELSE 0 END`
}

/** The locked key of a spending limit, as a relation `r`. */
export const locked_key = {
  spend_period: of("r", keys.spend_period),
  spend_limit_nano: of("r", keys.spend_limit_nano),
  spent_since: of("r", keys.spent_since),
  spent_nano: of("r", keys.spent_nano),
}

const m = alias(carried_spending, "carried")

/** The time of a restored hold, which alone frees a negative amount. */
const restored_at = sql`coalesce(s.held_at, ${locked_key.spent_since})`

/**
 * Counts ended calls in spending limits (D42) at their charge instead of their hold. The fragment follows the CTE
 * `changed` with `key_id`, `held_at` and `spent_nano` (the difference), and the CTE `payers`, which holds the locks of
 * the accounts, so that no two statements wait for one key. The keys are checked by their locked, newest versions,
 * because a limit may have been set during the wait for the account. A restored hold (D73) may begin a period.
 */
export const countSpending = sql`limits AS MATERIALIZED (
  SELECT ${k.id}, ${k.spend_period}, ${k.spent_since}, ${k.spent_nano}, ${k.spend_limit_nano} FROM ${keys} ${k}
  WHERE ${k.id} = ANY (ARRAY(SELECT s.key_id FROM changed s JOIN payers p ON p.id = s.account_id WHERE p.is_limited))
  ORDER BY ${k.id} FOR NO KEY UPDATE
), periods AS MATERIALIZED (
  SELECT r.id, ${periodStart(locked_key, restored_at)} AS since, ${spentIn(locked_key, restored_at)} AS spent_nano
  FROM limits r JOIN (
    SELECT key_id, max(held_at) FILTER (WHERE freed_nano < 0) AS held_at FROM changed GROUP BY key_id) s ON s.key_id = r.id
  WHERE r.spend_limit_nano IS NOT NULL
), counted AS (
  UPDATE ${keys} ${k} SET (${names(keys.spent_since, keys.spent_nano)}) = (s.since, s.spent_nano)
  FROM (
    SELECT m.id, m.since, (m.spent_nano + sum(s.spent_nano))::bigint AS spent_nano FROM changed s
      JOIN periods m ON m.id = s.key_id AND m.since <= s.held_at
    GROUP BY m.id, m.since, m.spent_nano) s
  WHERE ${k.id} = s.id AND ${k.id} = ANY (ARRAY(SELECT id FROM limits))
)`

/** Adds the `spent_nano` of `spending` to the keys of `limits`, for the accounts in `fitting`. */
export const writeSpending = sql`spent AS (
  UPDATE ${keys} ${k} SET ${names(keys.spent_nano)} = ${k.spent_nano} + s.spent_nano FROM spending s
  WHERE ${k.id} = s.id AND ${k.id} = ANY (ARRAY(SELECT id FROM limits)) AND s.account_id IN (SELECT id FROM fitting) RETURNING 1
)`

/** Fails unless each window of `writeWindows` and each key of `writeSpending` was written. */
export const countedWhole = sql`1 / ((SELECT count(*) FROM counted) = (SELECT count(*) FROM windows WHERE (account_id IN (SELECT id FROM fitting)) IS TRUE)
    AND (SELECT count(*) FROM spent) = (SELECT count(*) FROM spending WHERE account_id IN (SELECT id FROM fitting)))::int AS counted_whole`

/** A key's period: its beginning and its name. */
interface KeyPeriod {
  readonly id: SQL
  readonly account_id: SQL
  readonly since: SQL
  readonly period: SQL
}

/** The correct `spent_nano` of a key with a limit: the sum of its calls in this shard, and its carried spending (D76). */
export function spentSince(key: KeyPeriod): SQL {
  return sql`(${spentHere(key)} + ${carriedOf(key)})`
}

/** The key's spending in this period on its account's former shard (D76). */
export function carriedOf({ id, since, period }: Pick<KeyPeriod, "id" | "since" | "period">): SQL {
  return sql`coalesce((SELECT ${m.spent_nano} FROM ${carried_spending} ${m}
    WHERE ${m.key_id} = ${id} AND ${m.period} = ${period} AND ${m.since} = ${since}), 0)`
}

/**
 * Sum over the key's calls that were held here since `since`: the hold while a call is open, then its charge. Ids are searched
 * from a day before `since` on, because they follow the ledger's clock (D58), so a day is more than any difference between a
 * call's id and the time of its hold.
 */
export function spentHere(key: Omit<KeyPeriod, "period">): SQL {
  return sql`(SELECT coalesce(sum(coalesce(${c.charge_nano}, ${e.charge_nano}, ${h.amount_nano})), 0)::bigint
    FROM ${holds} ${h} LEFT JOIN ${ends} ${e} ON ${e.id} = ${h.id} LEFT JOIN ${corrections} ${c} ON ${c.id} = ${h.id}
    WHERE ${h.account_id} = ${key.account_id} AND ${h.key_id} = ${key.id} AND ${h.held_at} >= ${key.since}
      AND ${h.id} >= ${idsSince(key.since)})`
}

/** A lower bound of the ids of calls that were held since then. */
export function idsSince(since: SQL): SQL {
  return sql`(lpad(to_hex((extract(epoch FROM ${since}) * 1000)::bigint - 86400000), 12, '0')
    || '00000000000000000000')::uuid`
}

export function periodOf(row: Row, column: string): Period {
  const value = row[column]
  if (!isPeriod(value)) throw new Error(`${column} is not a period`)
  return value
}

export function isPeriod(value: unknown): value is Period {
  return periods.some((period) => period === value)
}
