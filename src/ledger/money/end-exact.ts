import { sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import { buckets, FIRST_RUN, toolNames } from "../../kinds.ts"
import type { Usage } from "../../wire/usage.ts"
import type { Runner } from "../database/connection.ts"
import {
  type ArrayColumn,
  allOf,
  Batch,
  firstAndLast,
  isItem,
  lockTimeout,
  names,
  of,
  type Row,
  statement,
  textOf,
} from "../database/statement.ts"
import type { End, Idempotency } from "../entries.ts"
import { a, e, h } from "../schema/aliases.ts"
import { idempotency } from "../schema/claims.ts"
import { accounts, corrections, ends, holds } from "../schema/tables.ts"
import { countBudgets } from "./budgets.ts"
import { changeAfterEnd, changeDue, hasPin, isDelayed, isDue } from "./grants.ts"
import { countSpending } from "./spending.ts"

/**
 * The result of an end. `closed`: the hold had ended before. `none`: there is no hold. `conflict`: try again, because
 * another statement ended the hold or changed the account's budgets meanwhile, or the account's grants had to be
 * changed first (D95). `delayed`: try again later, because the grants could not be changed.
 */
export type EndResult = "applied" | "closed" | "none" | "conflict" | "delayed"

/** Columns of an end. `notes` are read as text, and cast when they are written. */
export const endFields: readonly ArrayColumn<End>[] = [
  [ends.id, (end) => end.id],
  [ends.charge_nano, (end) => end.charge_nano],
  [ends.terms_id, (end) => end.terms_id],
  [ends.prompt_tokens, (end) => end.usage?.prompt_tokens ?? null],
  [ends.cached_tokens, (end) => end.usage?.cached_tokens ?? null],
  [ends.completion_tokens, (end) => end.usage?.completion_tokens ?? null],
  [ends.ttft_ms, (end) => end.ttft_ms],
  [ends.duration_ms, (end) => end.duration_ms],
  [ends.outcome, (end) => end.outcome],
  [ends.basis, (end) => end.basis],
  [ends.ending, (end) => end.ending],
  [ends.failure, (end) => end.failure],
  [ends.notes, (end) => (end.notes.length === 0 ? null : `"{${end.notes.join(",")}}"`), "text"],
]

const c = alias(idempotency, "c")

/** Counts of buckets, and of tool runs after them, as an array; null for none. */
export function bucketArray(usage: Usage | null): string | null {
  const { buckets: of = {}, tool_runs } = usage ?? {}
  if (usage?.buckets === undefined && tool_runs === undefined) return null
  const counts = buckets.map((bucket) => of[bucket] ?? 0)
  if (tool_runs !== undefined) {
    while (counts.length < FIRST_RUN) counts.push(0)
    counts.push(...toolNames(tool_runs).map((tool) => tool_runs[tool] ?? 0))
  }
  return `{${counts.join(",")}}`
}

/** The same as one array of an array of texts. */
export function bucketsOf(usage: Usage | null): string | null {
  const counts = bucketArray(usage)
  return counts === null ? null : `"${counts}"`
}

/** Read as text, like `notes`. */
export const bucketField: ArrayColumn<End> = [ends.buckets, (end) => bucketsOf(end.usage), "text"]

export const detailsText = ({ details }: End): string | null =>
  details === undefined ? null : JSON.stringify(details)

/** Read as text, like `notes`. */
export const detailsField: ArrayColumn<End> = [
  ends.details,
  (end) => {
    const text = detailsText(end)
    return text && `"${text.replace(/["\\]/g, "\\$&")}"`
  },
  "text",
]

/** An end, and the `Idempotency-Key` of its call if that is known. */
interface ExactEnd extends End {
  readonly idempotency?: Idempotency | null
}

const batch = new Batch<ExactEnd>(4, [
  ...endFields,
  bucketField,
  detailsField,
  [idempotency.key_hash, (end) => end.freed_key_hash ?? end.idempotency?.key_hash ?? null],
  // Null for a key that the end frees.
  [idempotency.body_hash, (end) => (end.freed_key_hash === null && end.idempotency?.body_hash) || null],
])

/** The columns of `endFields` that are written as they are read. */
export const plainColumns = endFields
  .map(([column]) => column)
  .filter((column) => column !== ends.terms_id && column !== ends.notes)

/** Of ends and corrections. */
const reported_columns = [
  ...plainColumns.filter((column) => column !== ends.outcome),
  ends.account_id,
  ends.key_id,
  ends.price_multiplier_bp,
]

/** The hold of the end `x`, whose batch begins with `firstAndLast` at `$2`. */
export const holdOfEnd = sql`LATERAL (
    SELECT ${h.account_id}, ${h.key_id}, ${h.amount_nano}, ${h.price_multiplier_bp}, ${h.held_at}, ${h.terms_id} AS held_terms_id,
      ${h.group_path}, ${h.labels_id}, ${h.held_tokens} FROM ${holds} ${h}
    WHERE ${isItem(h.id, of("x", ends.id), 2)} OFFSET 0) hold`

/** The terms of the upstream that answered, or those of the hold. */
export const soldAt = sql`coalesce(${of("x", ends.terms_id)}, hold.held_terms_id) AS sold_at`

/** Follows `due`. */
export const insertEnds = sql`INSERT INTO ${ends} (${names(...reported_columns, ends.outcome, ends.freed_nano, ends.terms_id, ends.notes, ends.buckets, ends.details)})
  SELECT ${allOf("d", ...reported_columns, ends.outcome)}, d.amount_nano, d.sold_at, d.notes::text[], d.buckets::int[], d.details::jsonb FROM due d`

/**
 * `payers`: the accounts of `requested`, locked in the order of their ids, before anything is written about their calls. `is_stale`: the
 * account's budgets were changed after the statement's snapshot, so it must not write about that account's calls (D97).
 */
export const lockPayers = sql`locked AS MATERIALIZED (
  SELECT ${a.id}, ${a.is_limited}, ${a.budgets_version}, ${isDue} AS grants_due FROM ${accounts} ${a}
  WHERE ${a.id} = ANY (ARRAY(SELECT q.account_id FROM requested q WHERE q.account_id IS NOT NULL)) AND ${lockTimeout}
  ORDER BY ${a.id} FOR NO KEY UPDATE
), payers AS MATERIALIZED (
  SELECT l.id, l.is_limited, l.grants_due, l.is_limited AND l.budgets_version IS DISTINCT FROM (
    SELECT ${a.budgets_version} FROM ${accounts} ${a} WHERE ${a.id} = l.id) AS is_stale
  FROM locked l
)`

/**
 * Updates the accounts by `changed`, which has `id`, `account_id`, `paid_nano` and `freed_nano`, and then the spending limits and budgets.
 * A restored hold may add a counter of a budget (D97).
 * `holdExact` explains `ANY (ARRAY(…))`.
 */
export const moveSums = sql`moved AS (
  UPDATE ${accounts} ${a} SET (${names(accounts.balance_nano, accounts.held_nano, accounts.next_change_at, accounts.budgets_version)})
    = (${a.balance_nano} - s.paid_nano, ${a.held_nano} - s.freed_nano, ${changeAfterEnd},
      ${a.budgets_version} + s.is_restored::int)
  FROM (
    SELECT s.account_id, sum(s.paid_nano)::bigint AS paid_nano, sum(s.freed_nano)::bigint AS freed_nano,
      bool_or(s.freed_requests < 0) AS is_restored,
      bool_or(${hasPin}) AS is_pinned
    FROM changed s JOIN payers p ON p.id = s.account_id GROUP BY s.account_id) s
  WHERE ${a.id} = s.account_id AND ${a.id} = ANY (ARRAY(SELECT account_id FROM changed)) RETURNING ${a.id}
), ${countSpending}, ${countBudgets}`

/**
 * Settles and releases, each hold once (D13). An end of a hold that has ended changes nothing, except that a settlement after
 * expiry is added as a correction. The correction frees nothing, takes back the `Idempotency-Key` that the expiry has freed,
 * and changes nothing if another call has it (D43). Of several ends of one hold in a batch, the first that is due counts.
 * The statement locks the accounts first, as every statement that ends their calls does, so an end that this snapshot lacks
 * violates the primary key, and the call is retried. The divisions fail if an account was not found or not updated, because its
 * ends would be reported as `closed`.
 */
export const endExact = statement(
  "end",
  sql`
WITH requested AS MATERIALIZED (
  SELECT x.*, hold.*, ${soldAt}, past.outcome AS past_outcome, past.charge_nano AS past_nano, past.tokens AS past_tokens
  FROM ${batch.ordered} LEFT JOIN ${holdOfEnd} ON true
  LEFT JOIN LATERAL (
    SELECT ${e.outcome}, ${e.charge_nano}, ${e.prompt_tokens} + ${e.completion_tokens} AS tokens FROM ${ends} ${e} WHERE ${isItem(e.id, of("x", ends.id), 2)} OFFSET 0) past ON true
), ${lockPayers}, fitting AS MATERIALIZED (
  SELECT DISTINCT ON (q.id) q.* FROM requested q JOIN payers p ON p.id = q.account_id AND NOT p.is_stale AND NOT p.grants_due
  WHERE q.past_outcome IS NULL OR (q.past_outcome = 'expired' AND q.outcome = 'settled')
  ORDER BY q.id, q.ordinal
), claimed AS (
  INSERT INTO ${idempotency} (${names(idempotency.account_id, idempotency.key_hash, idempotency.body_hash, idempotency.call_id, idempotency.claimed_at)})
  SELECT f.account_id, f.key_hash, f.body_hash, f.id, f.held_at FROM fitting f
  WHERE f.past_outcome IS NOT NULL AND f.body_hash IS NOT NULL ORDER BY f.account_id, f.key_hash
  ON CONFLICT ON CONSTRAINT idempotency_pkey DO NOTHING RETURNING ${names(idempotency.call_id)}
), due AS MATERIALIZED (
  SELECT f.* FROM fitting f
  WHERE f.past_outcome IS NULL OR f.body_hash IS NULL OR f.id IN (SELECT call_id FROM claimed)
    OR f.id = (SELECT ${c.call_id} FROM ${idempotency} ${c} WHERE ${c.account_id} = f.account_id AND ${c.key_hash} = f.key_hash)
), ended AS (
  ${insertEnds} WHERE d.past_outcome IS NULL ORDER BY d.id
  ON CONFLICT (id) DO NOTHING RETURNING ${names(ends.id)}
), corrected AS (
  INSERT INTO ${corrections} (${names(...reported_columns, corrections.difference_nano, corrections.terms_id, corrections.notes, corrections.buckets, corrections.details)})
  SELECT ${allOf("d", ...reported_columns)}, d.charge_nano - d.past_nano, d.sold_at, coalesce(d.notes::text[], '{}') || 'settled_late'::text,
    d.buckets::int[], d.details::jsonb
  FROM due d WHERE d.past_outcome IS NOT NULL ORDER BY d.id
  ON CONFLICT (id) DO NOTHING RETURNING ${names(corrections.id)}
), changed AS MATERIALIZED (
  SELECT d.ordinal, d.id, d.account_id, d.key_id, d.held_at, n.paid_nano, n.freed_nano, n.paid_nano - n.freed_nano AS spent_nano, d.group_path, d.labels_id,
    d.held_terms_id, coalesce(d.prompt_tokens + d.completion_tokens, 0) - coalesce(d.past_tokens, 0) AS paid_tokens,
    CASE WHEN d.past_outcome IS NULL THEN d.held_tokens END AS freed_tokens,
    (d.past_outcome IS NULL AND d.outcome <> 'released')::int AS paid_requests, (d.past_outcome IS NULL)::int AS freed_requests
  FROM due d CROSS JOIN LATERAL (
    SELECT d.charge_nano - coalesce(d.past_nano, 0) AS paid_nano,
      CASE WHEN d.past_outcome IS NULL THEN d.amount_nano ELSE 0 END AS freed_nano) n
  WHERE d.id IN (SELECT id FROM ended UNION ALL SELECT id FROM corrected)
), ${moveSums}, freed_keys AS (
  DELETE FROM ${idempotency} ${c} USING due d
  WHERE d.key_hash IS NOT NULL AND d.body_hash IS NULL AND d.id IN (SELECT id FROM ended)
    AND ${c.account_id} = d.account_id AND ${c.key_hash} = d.key_hash AND ${c.call_id} = d.id
)
SELECT
  CASE
    WHEN q.ordinal IN (SELECT ordinal FROM changed) THEN 'applied'
    WHEN changing.id IS NOT NULL THEN 'grants_due'
    WHEN q.account_id IS NULL THEN 'none'
    WHEN (SELECT p.is_stale FROM payers p WHERE p.id = q.account_id) THEN 'conflict'
    WHEN q.past_outcome IS NULL AND q.id IN (SELECT id FROM due) AND q.id NOT IN (SELECT id FROM ended) THEN 'conflict'
    ELSE 'closed'
  END AS ended, changing.id AS due_account_id,
  1 / ((SELECT count(*) FROM payers) = (SELECT count(DISTINCT account_id) FROM requested))::int AS found,
  1 / ((SELECT count(*) FROM moved) = (SELECT count(DISTINCT account_id) FROM changed))::int AS whole
FROM requested q LEFT JOIN payers changing ON changing.id = q.account_id AND changing.grants_due ORDER BY q.ordinal`,
)

/** Runs the exact statement. Of several ends of one hold, the first due is `applied`, others are `closed`. */
export async function endExactly(
  connection: Runner,
  requested: readonly ExactEnd[],
  lock_ms: number,
  within_ms: number,
): Promise<readonly EndResult[]> {
  const values = [String(lock_ms), ...firstAndLast(requested), ...batch.values(requested)]
  const rows = await connection.run(endExact, values, within_ms, requested.length)
  if (rows.length !== requested.length) throw new Error("the ending statement returned too few rows")
  const errors = await changeDue(connection, rows, lock_ms, within_ms)
  return rows.map((row) => (isDelayed(row, errors) ? "delayed" : endedOf(row)))
}

function endedOf(row: Row): EndResult {
  const ended = textOf(row, "ended")
  if (ended === "grants_due") return "conflict"
  if (ended === "applied" || ended === "closed" || ended === "none" || ended === "conflict") return ended
  throw new Error("the ending statement returned an unknown outcome")
}
