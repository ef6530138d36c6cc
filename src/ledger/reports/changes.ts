import { type SQL, sql } from "drizzle-orm"
import { alias, type PgColumn } from "drizzle-orm/pg-core"
import { NIL_ID } from "../../id.ts"
import { buckets, countedKinds } from "../../kinds.ts"
import { MAX_PROVIDER_COST_NANO } from "../../wire/usage.ts"
import type { Piece, Span } from "../database/span.ts"
import { arrayOf, instant, of } from "../database/statement.ts"
import { areCustomerTerms, costOf, hasRuns, listTermsOf, runsOf } from "../money/charge.ts"
import { c, e, h, t } from "../schema/aliases.ts"
import { day_latencies, days, hour_latencies, hours, label_days } from "../schema/sums.ts"
import { corrections, ends, holds, keys, terms } from "../schema/tables.ts"

/** The id under which the totals of all accounts and keys are stored. */
export const EVERYBODY = NIL_ID

const s = alias(hours, "s")
const l = alias(hour_latencies, "l")

/** Filters for entries and sums. `is_total`: only sums over all accounts and keys are needed. */
interface ChangeFilter extends Omit<Span, "from" | "to"> {
  readonly is_total: boolean
}

/**
 * Options for more than the calls and their charges. `with_holds`: also the holds, as rows without an outcome. `of_hold`: also
 * these columns of the hold of each call (D65, D94). `with_upstream_key`: also the name of the upstream's key (D86), null for a single
 * one. Sums of days have labels, no sums have the session or the key.
 */
export interface ChangeOptions {
  readonly with_holds: boolean
  readonly of_hold?: readonly ("session_id" | "labels_id")[]
  readonly with_upstream_key?: boolean
}

type SpanBounds = Readonly<Record<"from" | "to", SQL>>

/**
 * The changes by the entries of a span, one row each: `at`, `account_id`, `key_id`, `terms_id`, `outcome`, `basis`, `failure`,
 * `calls`, `charge_nano`, `overage_nano`, `held_nano`, the tokens, `profit_nano`, `provider_cost_nano`, and the count charged
 * of each bucket. A correction is no call; it adds its difference, which may be negative.
 */
export function changesOfEntries(
  { from, to }: SpanBounds,
  { with_holds, of_hold = [], with_upstream_key = false }: ChangeOptions,
  wanted?: ChangeFilter,
): SQL {
  const more = ({ id, details }: typeof e | typeof c) =>
    sql.join([
      ...of_hold.map(
        (name) => sql`, (SELECT ${h[name]} FROM ${holds} ${h} WHERE ${h.id} = ${id}) AS ${sql.raw(name)}`,
      ),
      ...(with_upstream_key ? [sql`, ${details} ->> 'key' AS upstream_key`] : []),
    ])
  const within = (name: string, own: EntryColumns, at: SQL) =>
    sql.join([sql`${at} >= ${from} AND ${at} < ${to}`, ...narrowed(name, own, wanted)], sql` AND `)
  const difference = (column: "prompt_tokens" | "cached_tokens" | "completion_tokens") =>
    sql`coalesce(${c[column]}, 0) - coalesce(${e[column]}, 0)`
  const held = sql`
    UNION ALL
    SELECT ${h.held_at}, ${h.account_id}, ${h.key_id}, ${h.terms_id}, NULL, NULL, NULL, 0, 0, 0, ${h.amount_nano}, 0, 0, 0,
      NULL, NULL, ${sql.raw(countedKinds.map(() => "NULL").join(", "))}
    FROM ${holds} ${h} WHERE ${within("h", holds, sql`${h.held_at}`)}`
  return sql`
    SELECT ${e.ended_at} AS at, ${e.account_id}, ${e.key_id}, ${e.terms_id}, ${e.outcome}, ${e.basis}, ${e.failure}, 1 AS calls,
      ${e.charge_nano}, greatest(${e.charge_nano} - ${e.freed_nano}, 0) AS overage_nano, -${e.freed_nano} AS held_nano,
      coalesce(${e.prompt_tokens}, 0) AS prompt_tokens, coalesce(${e.cached_tokens}, 0) AS cached_tokens,
      coalesce(${e.completion_tokens}, 0) AS completion_tokens, ${profitNano(e, sql`${e.charge_nano}`)} AS profit_nano,
      ${providerCost(e)} AS provider_cost_nano, ${bucketsOfEnd}${more(e)}
    FROM ${ends} ${e} WHERE ${within("e", ends, sql`${e.ended_at}`)}
    UNION ALL
    SELECT ${c.corrected_at}, ${c.account_id}, ${c.key_id}, ${c.terms_id}, 'settled', ${c.basis}, ${c.failure}, 0,
      ${c.difference_nano}, greatest(${c.charge_nano} - ${e.freed_nano}, 0) - greatest(${e.charge_nano} - ${e.freed_nano}, 0), 0,
      ${difference("prompt_tokens")}, ${difference("cached_tokens")}, ${difference("completion_tokens")},
      ${profitNano(c, sql`${c.charge_nano}`)} - ${profitNano(e, sql`${e.charge_nano}`)},
      coalesce(${providerCost(c)}, 0) - coalesce(${providerCost(e)}, 0), ${bucketsOfCorrection}${more(c)}
    FROM ${corrections} ${c} JOIN ${ends} ${e} ON ${e.id} = ${c.id}
    WHERE ${within("c", corrections, sql`${c.corrected_at}`)}${with_holds ? held : sql``}`
}

export const counts = [
  "calls",
  "charge_nano",
  "overage_nano",
  "held_nano",
  "prompt_tokens",
  "cached_tokens",
  "completion_tokens",
  "profit_nano",
  "provider_cost_nano",
  ...countedKinds,
]

/** The columns of sums, besides their time, in the order of `changesOfEntries`. */
export const summedColumns = ["account_id", "key_id", "terms_id", "outcome", "basis", "failure", ...counts]

/** The columns of `changesOfEntries`, besides `at`. */
const changed = sql.raw(summedColumns.map((name) => `s.${name}`).join(", "))

/** The same less, to take sums away from others. */
const taken = sql.raw(
  summedColumns.map((name) => (counts.includes(name) ? `-s.${name}` : `s.${name}`)).join(", "),
)

/** The part by a price multiplier or customer price; null where there is none, so that most rows stay short. */
function profitNano(entry: typeof e | typeof c, charge_nano: SQL): SQL {
  return sql`CASE WHEN ${entry.price_multiplier_bp} IS NOT NULL OR ${areCustomerTerms(entry.terms_id)} THEN ${charge_nano} -
    (SELECT ${costOf(entry)} FROM ${terms} ${t} WHERE ${t.id} = ${listTermsOf(entry.terms_id)}) END`
}

const most_digits = sql.raw(String(String(MAX_PROVIDER_COST_NANO).length))

/** The provider's own cost (D90), or null. Version 1.0.0 kept any size; no bigint holds the sum of such costs. */
function providerCost({ details }: typeof e | typeof c): SQL {
  const cost = sql`(${details} ->> 'provider_cost_nano')`
  return sql`CASE WHEN length(${cost}) <= ${most_digits} THEN ${cost}::bigint END`
}

const countAt = (entry: typeof e | typeof c, at: number) =>
  sql`(${entry.buckets})[${sql.raw(String(at + 1))}]`
const runsIn = (entry: typeof e | typeof c) =>
  sql`CASE WHEN ${hasRuns(entry.buckets)} THEN (SELECT sum(r) FROM unnest(${runsOf(entry.buckets)}) r) END`
const countsOf = (entry: typeof e | typeof c) => [
  ...buckets.map((_, at) => countAt(entry, at)),
  runsIn(entry),
]
const bucketsOfEnd = sql.join(
  countsOf(e).map((count, at) => sql`${count} AS ${sql.raw(countedKinds[at] ?? "")}`),
  sql`, `,
)
const bucketsOfCorrection = sql.join(
  countsOf(c).map((count, at) => sql`coalesce(${count}, 0) - coalesce(${countsOf(e)[at]}, 0)`),
  sql`, `,
)

/** The same, from sums of hours and days where there are some, and otherwise from entries. */
export function changesOf(pieces: readonly Piece[], columns: ChangeOptions, wanted: ChangeFilter): SQL {
  const parts = pieces.map(({ source, ...times }) => {
    const bounds = boundsOf(times)
    if (source === "entries") return sql`(${changesOfEntries(bounds, columns, wanted)})`
    if (columns.of_hold?.includes("labels_id")) return labelDays(bounds, wanted)
    return sql`SELECT s.from_at AS at, ${changed} FROM ${source === "hours" ? hours : days} ${s}
      WHERE s.from_at >= ${bounds.from} AND s.from_at < ${bounds.to} AND ${summedFor("s", hours, wanted)}
        ${columns.with_holds ? sql`` : sql`AND s.outcome IS NOT NULL`}`
  })
  return sql`(${sql.join(parts, sql` UNION ALL `)})`
}

/** Sums of whole days with labels (D94). Calls without labels are all calls less those with labels. */
function labelDays({ from, to }: SpanBounds, wanted: ChangeFilter): SQL {
  const within = sql`s.from_at >= ${from} AND s.from_at < ${to}`
  const labelled = sql.join([within, ...narrowed("s", label_days, wanted)], sql` AND `)
  return sql`
    SELECT s.from_at AS at, ${changed}, s.labels_id FROM ${label_days} s WHERE ${labelled}
    UNION ALL
    SELECT s.from_at, ${taken}, NULL FROM ${label_days} s WHERE ${labelled}
    UNION ALL
    SELECT s.from_at, ${changed}, NULL FROM ${days} s
    WHERE ${within} AND ${summedFor("s", days, wanted)} AND s.outcome IS NOT NULL`
}

/** Durations of the calls that ended in a span, one row for each distinct one: `is_ttft`, `ms` and `calls`. */
export function latenciesOf(pieces: readonly Piece[], wanted: ChangeFilter): SQL {
  const parts = pieces.map(({ source, ...times }) => {
    const bounds = boundsOf(times)
    if (source === "entries") {
      return sql`SELECT v.is_ttft, v.ms, 1 AS calls FROM (${latenciesOfEntries(bounds, wanted)}) v`
    }
    return sql`SELECT l.is_ttft, u.ms, u.calls FROM ${source === "hours" ? hour_latencies : day_latencies} ${l}
      CROSS JOIN LATERAL unnest(l.ms, l.calls) AS u (ms, calls)
      WHERE l.from_at >= ${bounds.from} AND l.from_at < ${bounds.to} AND ${summedFor("l", hour_latencies, wanted)}`
  })
  return sql`(${sql.join(parts, sql` UNION ALL `)})`
}

/** One row for each time that a call took: `at`, `account_id`, `key_id`, `terms_id`, `is_ttft` and `ms`. */
export function latenciesOfEntries({ from, to }: SpanBounds, wanted?: ChangeFilter): SQL {
  const conditions = [
    sql`${e.ended_at} >= ${from} AND ${e.ended_at} < ${to} AND v.ms IS NOT NULL`,
    ...narrowed("e", ends, wanted),
  ]
  return sql`SELECT ${e.ended_at} AS at, ${e.account_id}, ${e.key_id}, ${e.terms_id}, v.is_ttft, v.ms
    FROM ${ends} ${e} CROSS JOIN LATERAL (
      VALUES (true, ${rounded(sql`${e.ttft_ms}`)}), (false, ${rounded(sql`${e.duration_ms}`)})) AS v (is_ttft, ms)
    WHERE ${sql.join(conditions, sql` AND `)}`
}

/** Rounded down to three digits: some thousand values at most, whatever the calls. */
function rounded(ms: SQL): SQL {
  return sql`CASE WHEN ${ms} < 1000 THEN ${ms} WHEN ${ms} < 10000 THEN ${ms} / 10 * 10
    WHEN ${ms} < 100000 THEN ${ms} / 100 * 100 ELSE ${ms} / 1000 * 1000 END`
}

export function termsOf(model: string): SQL {
  return sql`(SELECT ${t.id} FROM ${terms} ${t} WHERE ${t.model} = ${model}::text)`
}

type EntryColumns = Readonly<Record<"account_id" | "key_id" | "terms_id", PgColumn>>

function narrowed(name: string, { account_id, key_id, terms_id }: EntryColumns, wanted?: ChangeFilter) {
  const { account_ids, key_id: key, model } = wanted ?? {}
  return [
    ...(account_ids === undefined
      ? []
      : [sql`${of(name, account_id)} = ANY (${arrayOf(account_ids, (id) => id)}::uuid[])`]),
    ...(key === undefined ? [] : [sql`${of(name, key_id)} = ${key}::uuid`]),
    ...(model === undefined ? [] : [sql`${of(name, terms_id)} IN ${termsOf(model)}`]),
  ]
}

/** The condition on rows of sums: the total, or each key. `account_ids`: of a shard that no longer has the key (D74). */
function summedFor(name: string, columns: EntryColumns, wanted: ChangeFilter): SQL {
  const { account_ids, key_id, is_total } = wanted
  const account = of(name, columns.account_id)
  const whose =
    account_ids === undefined && key_id === undefined
      ? sql`${account} ${is_total ? sql`=` : sql`<>`} ${EVERYBODY}::uuid`
      : account_ids !== undefined
        ? sql`true`
        : sql`${account} = (SELECT ${keys.account_id} FROM ${keys} WHERE ${keys.id} = ${key_id}::uuid)`
  return sql.join([whose, ...narrowed(name, columns, wanted)], sql` AND `)
}

function boundsOf({ from, to }: { readonly from: Date; readonly to: Date | null }): SpanBounds {
  return {
    from: instant(from),
    to: to === null ? sql`'infinity'::timestamptz` : instant(to),
  }
}
