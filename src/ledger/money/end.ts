import { sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import type { Runner } from "../database/connection.ts"
import { Uncertain } from "../database/database-errors.ts"
import {
  allOf,
  arrayOf,
  atStart,
  Batch,
  firstAndLast,
  hidden,
  isItem,
  lockTimeout,
  names,
  of,
  statement,
} from "../database/statement.ts"
import type { End, Hold } from "../entries.ts"
import { a, h, k } from "../schema/aliases.ts"
import { accounts, ends, holds, keys } from "../schema/tables.ts"
import {
  amountAt,
  inUnit,
  lockWindows,
  member,
  needed,
  windowStart,
  withBudgets,
  writeWindows,
} from "./budgets.ts"
import {
  bucketArray,
  bucketField,
  detailsField,
  detailsText,
  type EndResult,
  endExactly,
  endFields,
  holdOfEnd,
  insertEnds,
  plainColumns,
  soldAt,
} from "./end-exact.ts"
import { hasNoChange } from "./grants.ts"
import { type DoneAccounts, runLean } from "./lean.ts"
import { countedWhole, writeSpending } from "./spending.ts"

/** Deadline of one ending statement. It is then retried with the same ids. */
const STATEMENT_MS = 5_000

/**
 * An end and its hold. The exact statement writes the end if the hold is unknown, has the amount 0 or an
 * `Idempotency-Key`, or counts in budgets per minute.
 */
export interface EndOfHold {
  readonly end: End
  readonly hold:
    | (Pick<Hold, "account_id" | "amount_nano" | "is_limited" | "is_rated"> &
        Partial<Pick<Hold, "idempotency">>)
    | null
}

/** Columns that come through `withHold`. */
const known = [
  ends.notes,
  ends.buckets,
  ends.details,
  ends.terms_id,
  ends.account_id,
  ends.key_id,
  ends.freed_nano,
  ends.price_multiplier_bp,
] as const

const batch = new Batch<End>(7, [...endFields, bucketField, detailsField])

const payers = hidden("$2::uuid[]")

const freed = sql.raw(`($3::bigint[])[array_position($2::uuid[], a."id")]`)
const charged = sql.raw(`($4::bigint[])[array_position($2::uuid[], a."id")]`)

/** The ends of a batch with their holds. A plain `id = item.id` would cost more with each month of the journal. */
const withHold = sql`${batch.kept} CROSS JOIN LATERAL (
    SELECT ${h.account_id}, ${h.key_id}, ${h.amount_nano}, ${h.terms_id}, ${h.price_multiplier_bp} FROM ${holds} ${h}
    WHERE ${isItem(h.id, of("x", ends.id), 5)} OFFSET 0) hold`

/**
 * Ends all holds of an account, or none. The gateway has computed the sums of freed amounts and charges. `endLimited`
 * ends the calls of limited accounts, and the exact statement those of accounts with a due change of grants. The freed
 * amount comes from the hold itself, so a missing hold makes the sums differ, and an ended hold violates the primary
 * key; either rolls everything back. Accounts are locked as in `holdLean`, before anything is written about their
 * calls.
 */
export const endLean = statement(
  "end",
  sql`
WITH locked AS MATERIALIZED (
  SELECT ${a.id} FROM ${accounts} ${a} WHERE ${a.id} = ANY (${payers}::uuid[]) AND ${lockTimeout}
  ORDER BY ${a.id} FOR NO KEY UPDATE
), moved AS (
  UPDATE ${accounts} ${a} SET (${names(accounts.balance_nano, accounts.held_nano)})
    = (${a.balance_nano} - ${charged}, ${a.held_nano} - ${freed})
  WHERE ${a.id} = ANY (${payers}::uuid[]) AND (SELECT count(*) FROM locked) > 0 AND NOT ${a.is_limited} AND ${hasNoChange}
  RETURNING ${a.id}, ${freed} AS freed_nano, ${charged} AS charge_nano
), ended AS (
  INSERT INTO ${ends} (${names(...plainColumns, ...known)})
  SELECT ${allOf("x", ...plainColumns)}, ${of("x", ends.notes)}::text[], ${of("x", ends.buckets)}::int[],
    ${of("x", ends.details)}::jsonb,
    coalesce(${of("x", ends.terms_id)}, hold.terms_id),
    hold.account_id, hold.key_id, hold.amount_nano, hold.margin_bp
  FROM ${withHold}
  WHERE (hold.account_id IN (SELECT id FROM moved)) IS TRUE
  RETURNING ${names(ends.freed_nano, ends.charge_nano)}
)
SELECT count(*)::int AS accounts, CASE WHEN count(*) < cardinality($2::uuid[]) THEN array_agg(id)::text END AS only,
  1 / (coalesce(sum(freed_nano), 0) = (SELECT coalesce(sum(freed_nano), 0) FROM ended)
    AND coalesce(sum(charge_nano), 0) = (SELECT coalesce(sum(charge_nano), 0) FROM ended))::int AS whole
FROM moved`,
  true,
)

/**
 * The same for one call. This and `holdOneKey` save CPU when few calls are in flight (docs/performance.md). The hold is
 * read first, and the account found by its id, because a join's kept plan would later scan every account. `atStart`
 * lets the kept plan open one month only.
 */
export const endOne = statement(
  "end",
  sql`
WITH hold AS MATERIALIZED (
  SELECT ${h.account_id}, ${h.key_id}, ${h.amount_nano}, ${h.terms_id}, ${h.price_multiplier_bp} FROM ${holds} ${h}
  WHERE ${h.id} = ${atStart("$2::uuid")}
), moved AS (
  UPDATE ${accounts} ${a} SET (${names(accounts.balance_nano, accounts.held_nano)})
    = (${a.balance_nano} - $3::bigint, ${a.held_nano} - (SELECT amount_nano FROM hold))
  WHERE ${a.id} = (SELECT account_id FROM hold) AND NOT ${a.is_limited} AND ${hasNoChange} AND ${lockTimeout}
  RETURNING ${a.id}
), inserted AS (
  INSERT INTO ${ends} (${names(...plainColumns, ...known)})
  SELECT $2::uuid, $3::bigint, $5::int, $6::int, $7::int, $8::int, $9::int, $10::tollgate.end_outcome, $11::tollgate.basis,
    $12::tollgate.ending, $13::tollgate.failure, $14::text[], $15::int[], $16::text::jsonb, coalesce($4::int, hold.terms_id), hold.account_id,
    hold.key_id, hold.amount_nano, hold.margin_bp
  FROM hold CROSS JOIN moved
  RETURNING ${names(ends.id)}
)
SELECT 1 / (SELECT count(*) FROM inserted)::int AS whole FROM moved`,
  true,
)

const v = alias(accounts, "v")

const limited_batch = new Batch<End>(4, [...endFields, bucketField, detailsField])

/**
 * `endLean` for accounts with spending limits, budgets or customer prices: ends all holds of an account, or none. It leaves an
 * account to the exact statement if a call was held in an earlier window or period, if a threshold is reached, or if a budget per minute
 * (D99) counts. `holdLimited` explains the locks and `budgets_version`.
 */
export const endLimited = statement(
  "end",
  sql`
WITH requested AS MATERIALIZED (
  SELECT x.*, hold.*, ${soldAt} FROM ${limited_batch.kept} CROSS JOIN ${holdOfEnd}
), locked AS MATERIALIZED (
  SELECT ${a.id}, ${a.budgets_version}, ${a.is_limited} AND ${hasNoChange} AS is_open FROM ${accounts} ${a}
  WHERE ${a.id} = ANY (ARRAY(SELECT account_id FROM requested)) AND ${lockTimeout} ORDER BY ${a.id} FOR NO KEY UPDATE
), due AS MATERIALIZED (
  SELECT q.* FROM requested q JOIN locked l ON l.id = q.account_id
  WHERE l.is_open AND l.budgets_version = (SELECT ${v.budgets_version} FROM ${accounts} ${v} WHERE ${v.id} = l.id)
), matched AS MATERIALIZED (
  SELECT b.id, ${member} AS member, b.account_id, b.period, b.thresholds, ${amountAt(sql`now()`)} AS amount, ${windowStart(sql`max(s.held_at)`)} AS since,
    min(s.held_at) AS held_at,
    sum(${inUnit(sql`s.charge_nano`, sql`s.prompt_tokens + s.completion_tokens`, sql`(s.outcome <> 'released')::int`)})::bigint AS paid,
    sum(${needed})::bigint AS freed
  FROM ${withBudgets(sql`due s`, sql`s.held_terms_id`)} GROUP BY b.id, 2
), ${lockWindows(
    sql`x.since <= m.held_at AND NOT EXISTS (
    SELECT FROM unnest(m.thresholds) t WHERE t > x.crossed_percent AND (x.spent + m.paid)::numeric * 100 >= m.amount::numeric * t)`,
    sql`x.spent + m.paid`,
    sql`x.held - m.freed`,
  )}, limits AS MATERIALIZED (
  SELECT ${k.id}, ${k.account_id}, ${k.spend_limit_nano}, ${k.spent_since} FROM ${keys} ${k}
  WHERE ${k.id} = ANY (ARRAY(SELECT key_id FROM due)) AND (SELECT count(*) FROM counters) >= 0
  ORDER BY ${k.id} FOR NO KEY UPDATE
), spending AS MATERIALIZED (
  SELECT r.id, r.account_id, sum(d.charge_nano - d.amount_nano)::bigint AS spent_nano, r.spent_since <= min(d.held_at) AS is_current
  FROM limits r JOIN due d ON d.key_id = r.id WHERE r.spend_limit_nano IS NOT NULL GROUP BY r.id, r.account_id, r.spent_since
), fitting AS MATERIALIZED (
  SELECT d.account_id AS id, sum(d.charge_nano)::bigint AS charge_nano, sum(d.amount_nano)::bigint AS freed_nano, count(*) AS calls
  FROM due d WHERE d.account_id NOT IN (
    SELECT account_id FROM windows WHERE fits IS NOT TRUE UNION ALL SELECT account_id FROM spending WHERE is_current IS NOT TRUE)
  GROUP BY d.account_id
), ended AS (
  ${insertEnds} WHERE (d.account_id IN (SELECT id FROM fitting)) IS TRUE ORDER BY d.id RETURNING ${names(ends.id)}
), moved AS (
  UPDATE ${accounts} ${a} SET (${names(accounts.balance_nano, accounts.held_nano)})
    = (${a.balance_nano} - f.charge_nano, ${a.held_nano} - f.freed_nano)
  FROM fitting f WHERE ${a.id} = f.id AND ${a.id} = ANY (ARRAY(SELECT id FROM fitting)) RETURNING ${a.id}, f.calls
), ${writeWindows}, ${writeSpending}
SELECT count(*)::int AS accounts,
  CASE WHEN count(*) < (SELECT count(DISTINCT account_id) FROM requested) THEN array_agg(id)::text END AS only,
  1 / ((SELECT count(*) FROM requested) = cardinality($4::uuid[]) AND count(*) = (SELECT count(*) FROM fitting)
    AND coalesce(sum(calls), 0) = (SELECT count(*) FROM ended))::int AS whole,
  ${countedWhole}
FROM moved`,
  true,
)

export function limitedValues(limited: readonly End[], lock_ms: number): string[] {
  return [String(lock_ms), ...firstAndLast(limited), ...limited_batch.values(limited)]
}

/** Ends a batch, with results in its order. Waits at most `lock_ms` for each lock. The exact statement ends the rest. */
export async function endBatch(
  connection: Runner,
  batch: readonly EndOfHold[],
  lock_ms: number,
): Promise<readonly EndResult[]> {
  const until = performance.now() + STATEMENT_MS
  const withinMs = () => Math.max(until - performance.now(), STATEMENT_MS / 2)
  const ended = new Map<EndOfHold, EndResult>()
  const end = async (are_limited: boolean, run: (lean: readonly LeanEnd[]) => Promise<DoneAccounts>) => {
    const lean = batch.filter(isLean).filter(({ hold }) => (hold.is_limited === true) === are_limited)
    if (lean.length === 0) return
    const done = await run(lean)
    for (const one of lean) if (done.has(one.hold.account_id)) ended.set(one, "applied")
  }
  try {
    await end(false, (lean) => endedAccounts(connection, lean, lock_ms))
    await end(true, (limited) => {
      const ends = limited.map(({ end }) => end)
      const whole = () => ({ statement: endLimited, values: limitedValues(ends, lock_ms) })
      return runLean(connection, limited.length, withinMs(), null, whole)
    })
    const rest = batch.filter((one) => !ended.has(one))
    if (rest.length > 0) {
      const exact = rest.map(({ end, hold }) => ({ ...end, idempotency: hold?.idempotency ?? null }))
      const results = await endExactly(connection, exact, lock_ms, withinMs())
      for (const [at, one] of rest.entries()) ended.set(one, results[at] ?? "conflict")
    }
  } catch (error) {
    throw ended.size > 0 ? new Uncertain(error) : error
  }
  return batch.map((one) => ended.get(one) ?? "conflict")
}

type LeanEnd = EndOfHold & { readonly hold: NonNullable<EndOfHold["hold"]> }

/** True if `endLean` may end it. For an amount of 0 it would not notice a missing hold. */
function isLean(one: EndOfHold): one is LeanEnd {
  const { hold, end } = one
  return hold !== null && hold.amount_nano > 0n && hold.is_rated !== true && end.freed_key_hash === null
}

function endedAccounts(connection: Runner, lean: readonly LeanEnd[], lock_ms: number): Promise<DoneAccounts> {
  const [only, ...others] = lean
  const short =
    only !== undefined && others.length === 0
      ? { statement: endOne, values: oneValues(only.end, lock_ms) }
      : null
  const whole = () => ({ statement: endLean, values: leanValues(lean, lock_ms) })
  return runLean(connection, lean.length, STATEMENT_MS, short, whole)
}

export function oneValues(end: End, lock_ms: number): (string | null)[] {
  const [id, charge, terms, ...rest] = endFields.map(([, read]) => read(end))
  const notes = end.notes.length === 0 ? null : `{${end.notes.join(",")}}`
  const plain = [id, charge, terms, ...rest.slice(0, -1)].map(textOrNull)
  return [String(lock_ms), ...plain, notes, bucketArray(end.usage), detailsText(end)]
}

function textOrNull(value: string | number | bigint | boolean | null | undefined): string | null {
  return value === null || value === undefined ? null : String(value)
}

export function leanValues(lean: readonly LeanEnd[], lock_ms: number): string[] {
  const totals = new Map<string, { freed_nano: bigint; charge_nano: bigint }>()
  for (const { end, hold } of lean) {
    const total = totals.get(hold.account_id)
    if (total === undefined) {
      totals.set(hold.account_id, { freed_nano: hold.amount_nano, charge_nano: end.charge_nano })
    } else {
      total.freed_nano += hold.amount_nano
      total.charge_nano += end.charge_nano
    }
  }
  const sums = [...totals.values()]
  const items = lean.map(({ end }) => end)
  return [
    String(lock_ms),
    arrayOf([...totals.keys()], (id) => id),
    arrayOf(sums, ({ freed_nano }) => freed_nano),
    arrayOf(sums, ({ charge_nano }) => charge_nano),
    // The parameters of `withHold`, in order.
    ...firstAndLast(items),
    ...batch.values(items),
  ]
}
