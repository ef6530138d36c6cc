import { type SQL, sql } from "drizzle-orm"
import { alias, type PgColumn } from "drizzle-orm/pg-core"
import { NIL_ID } from "../../id.ts"
import { amount, type RowOf, RowShape, text, word } from "../database/row-shape.ts"
import { arrayOf, type Db, type Row } from "../database/statement.ts"
import { countedIn, counts, inUnit, member, withScopes } from "../money/budgets.ts"
import { type ChargedEntry, chargeOf, par } from "../money/charge.ts"
import { priceOfCall } from "../money/customer-prices.ts"
import { effectOf, isImmediate } from "../money/grants.ts"
import { carriedOf, spentSince } from "../money/spending.ts"
import { a, b, c, e, g, h, k, n, t, w } from "../schema/aliases.ts"
import { attempts } from "../schema/attempts.ts"
import { budget_windows, budgets } from "../schema/budgets.ts"
import { customer_prices } from "../schema/customer-prices.ts"
import { grant_entries, grant_pins, grants } from "../schema/grants.ts"
import { labels } from "../schema/labels.ts"
import { months, seal_sums, seals } from "../schema/sums.ts"
import { accounts, corrections, credits, ends, gateways, holds, keys, terms } from "../schema/tables.ts"
import { type Ids, within } from "./slices.ts"

/** The audit's queries. Each query about entries names the range of ids that it reads (D71). */

const lost = alias(attempts, "lost")
const l = alias(labels, "l")
const paid = alias(credits, "paid")
const r = alias(grants, "r")
const p = alias(grant_pins, "p")
const q = alias(terms, "q")

const areOfAnotherModel = sql`(${t.model}, ${t.operation}) <> (${q.model}, ${q.operation})`

/** An end frees its hold once; a correction follows an expiry and is the difference. Both at terms of the same model. */
export const entriesWithoutHold = (ids: Ids) => sql`
  SELECT 'entry' AS kind, ${e.account_id}, ${e.id}, ${e.freed_nano}::text AS recorded, ${h.amount_nano}::text AS expected
  FROM ${ends} ${e} LEFT JOIN ${holds} ${h} ON ${h.id} = ${e.id} AND ${within(h.id, ids)}
    LEFT JOIN ${terms} ${t} ON ${t.id} = ${e.terms_id} LEFT JOIN ${terms} ${q} ON ${q.id} = ${h.terms_id}
  WHERE ${within(e.id, ids)} AND ((${h.account_id}, ${h.key_id}, ${h.amount_nano}, ${h.price_multiplier_bp})
    IS DISTINCT FROM (${e.account_id}, ${e.key_id}, ${e.freed_nano}, ${e.price_multiplier_bp})
    OR ${areOfAnotherModel})
  UNION ALL
  SELECT 'entry', ${c.account_id}, ${c.id}, ${c.difference_nano}::text, (${c.charge_nano} - ${e.charge_nano})::text
  FROM ${corrections} ${c} LEFT JOIN ${ends} ${e} ON ${e.id} = ${c.id} AND ${e.outcome} = 'expired' AND ${within(e.id, ids)}
    LEFT JOIN ${terms} ${t} ON ${t.id} = ${c.terms_id} LEFT JOIN ${terms} ${q} ON ${q.id} = ${e.terms_id}
  WHERE ${within(c.id, ids)} AND ((${e.account_id}, ${e.key_id}, ${e.price_multiplier_bp}, ${c.charge_nano} - ${e.charge_nano})
    IS DISTINCT FROM (${c.account_id}, ${c.key_id}, ${c.price_multiplier_bp}, ${c.difference_nano}) OR ${areOfAnotherModel})`

/** An attempt without a hold of its account (D93). It has no amount. */
export const attemptsWithoutHold = (ids: Ids) => sql`
  SELECT 'attempt' AS kind, ${lost.account_id}, ${lost.id}, '0' AS recorded, NULL AS expected
  FROM ${attempts} ${lost} LEFT JOIN ${holds} ${h} ON ${h.id} = ${lost.id} AND ${within(h.id, ids)}
  WHERE ${within(lost.id, ids)} AND ${h.account_id} IS DISTINCT FROM ${lost.account_id}`

/** Open, and below the floor of its gateway, or of a gateway that was swept or is unknown (D35). */
export const abandoned = (ids: Ids) => sql`
  SELECT 'abandoned' AS kind, ${h.account_id}, ${h.id}, ${h.amount_nano}::text AS recorded, '0' AS expected
  FROM ${holds} ${h} LEFT JOIN ${gateways} ${g} ON ${g.id} = ${h.gateway_id}
  WHERE ${within(h.id, ids)} AND (${g.id} IS NULL OR ${g.swept_at} IS NOT NULL OR ${h.id} < ${g.floor_id})
    AND NOT EXISTS (SELECT FROM ${ends} ${e} WHERE ${e.id} = ${h.id} AND ${within(e.id, ids)})`

/** Holds whose labels are missing, or another account's (D94); recorded is what they hold. */
export const withoutLabels = (ids: Ids) => sql`
  SELECT 'labels' AS kind, ${h.account_id}, ${h.id}, ${h.amount_nano}::text AS recorded, NULL AS expected
  FROM ${holds} ${h} WHERE ${within(h.id, ids)} AND ${h.labels_id} IS NOT NULL
    AND (SELECT ${l.account_id} FROM ${labels} ${l} WHERE ${l.id} = ${h.labels_id}) IS DISTINCT FROM ${h.account_id}`

/**
 * Calls that were held or ended at another price than the customer price of that moment (D100), for accounts that have any; recorded is what
 * they held. Released calls cost nothing at any price, and those whose hold came to nothing (D27) have none.
 */
export const atOtherPrices = (ids: Ids) => sql`
  SELECT 'price' AS kind, ${h.account_id}, ${h.id}, ${h.amount_nano}::text AS recorded, NULL AS expected
  FROM ${holds} ${h} LEFT JOIN ${terms} ${t} ON ${t.id} = ${h.terms_id}
    LEFT JOIN ${ends} ${e} ON ${e.id} = ${h.id} AND ${within(e.id, ids)} LEFT JOIN ${corrections} ${c} ON ${c.id} = ${h.id} AND ${within(c.id, ids)}
    LEFT JOIN LATERAL (${priceOfCall(sql`${h.account_id}`, sql`${h.terms_id}`, sql`${h.held_at}`)}) x ON true
  WHERE ${within(h.id, ids)} AND ${e.outcome} IS DISTINCT FROM 'released'
    AND (${t.customer_price_id} IS NOT NULL OR ${h.account_id} = ANY (ARRAY(SELECT account_id FROM ${customer_prices})))
    AND (x.is_current IS NOT TRUE OR x.price_multiplier_bp <> coalesce(${h.price_multiplier_bp}, ${par})
      OR ${t.customer_price_id} IS DISTINCT FROM (SELECT y.customer_price_id FROM ${terms} y
        WHERE y.id = coalesce(${c.terms_id}, ${e.terms_id}, ${h.terms_id})))`

/** The correct charge of an entry (D55); null where reported usage does not fit its terms (D62). */
function expectedOf(entry: ChargedEntry): SQL {
  return sql`CASE WHEN ${entry.basis} IN ('usage', 'partial') AND ${t.above_tokens} > 0
    AND coalesce(${entry.prompt_tokens}, 0) <= ${t.above_tokens} THEN NULL ELSE ${chargeOf(entry)} END`
}

export const charges = (ids: Ids) => sql`
  SELECT 'charge' AS kind, x.account_id, x.id, x.recorded::text, x.expected::text FROM (
    SELECT ${e.account_id}, ${e.id}, ${e.charge_nano} AS recorded, ${expectedOf(e)} AS expected
    FROM ${ends} ${e} LEFT JOIN ${terms} ${t} ON ${t.id} = ${e.terms_id} WHERE ${within(e.id, ids)}
    UNION ALL
    SELECT ${c.account_id}, ${c.id}, ${c.charge_nano}, ${expectedOf(c)}
    FROM ${corrections} ${c} LEFT JOIN ${terms} ${t} ON ${t.id} = ${c.terms_id} WHERE ${within(c.id, ids)}) x
  WHERE x.recorded IS DISTINCT FROM x.expected`

/** The moment before which no entry can be written: all transactions that began earlier have ended (D72). */
export const settledBefore = (settle_ms: number) => sql`
  SELECT least(now() - ${settle_ms}::float8 * interval '1 millisecond', (
    SELECT min(s.xact_start) FROM pg_stat_activity s WHERE s.datname = current_database() AND s.pid <> pg_backend_pid()
      AND s.backend_type = 'client backend'))::text AS moment`

/** The entries of calls, made at or after `moment` or before it. */
export interface EntriesBeside extends Ids {
  readonly moment: string
  readonly side: "before" | "after"
}

export function at(time: SQL | typeof h.held_at, { moment, side }: EntriesBeside): SQL {
  return sql`${time} ${side === "before" ? sql`<` : sql`>=`} ${moment}::timestamptz`
}

/** A row for each entry: `account_id`, `balance`, `held`, and `open`, the change of the number of open calls. */
const changesOf = (entries: EntriesBeside) => sql`
  SELECT ${h.account_id}, 0::bigint AS balance, ${h.amount_nano} AS held, 1 AS open FROM ${holds} ${h}
    WHERE ${within(h.id, entries)} AND ${at(h.held_at, entries)}
  UNION ALL SELECT ${e.account_id}, -${e.charge_nano}, -${e.freed_nano}, -1 FROM ${ends} ${e}
    WHERE ${within(e.id, entries)} AND ${at(sql`${e.ended_at}`, entries)}
  UNION ALL SELECT ${c.account_id}, -${c.difference_nano}, 0, 0 FROM ${corrections} ${c}
    WHERE ${within(c.id, entries)} AND ${at(sql`${c.corrected_at}`, entries)}`

/** The same per account. */
export const sumsOfEntries = (entries: EntriesBeside) => sql`
  SELECT x.account_id, sum(x.balance)::text AS balance, sum(x.held)::text AS held, sum(x.open)::int AS open,
    (count(*) FILTER (WHERE x.open = 1))::int AS calls
  FROM (${changesOf(entries)}) x GROUP BY x.account_id`

/** Sums of entries, by account, key or counter of a budget. */
export type FoundSums = ReadonlyMap<string, readonly [bigint, bigint]>

export const found = (name: string, sums: FoundSums, columns: string, type = "uuid") => {
  const list = [...sums]
  return sql`unnest(${arrayOf(list, ([id]) => id)}::${sql.raw(type)}[], ${arrayOf(list, ([, [one]]) => one)}::numeric[],
    ${arrayOf(list, ([, [, other]]) => other)}::numeric[]) AS ${sql.raw(`${name} (${columns})`)}`
}

/** A range of account ids; null for no bound. */
export interface AccountRange {
  readonly from: string | null
  readonly to: string | null
}

const inside = (id: SQL, { from, to }: AccountRange): SQL =>
  sql`${from === null ? sql`true` : sql`${id} >= ${from}::uuid`} AND ${to === null ? sql`true` : sql`${id} < ${to}::uuid`}`

/**
 * Accounts that differ from their entries: credits, the seals of months before `open_month`, the sums `found` in entries before
 * a moment, and the entries since. One snapshot. Entries without an account are a violation even if their sum is 0.
 */
export const accountsThatDiffer = (
  range: AccountRange,
  sums: FoundSums,
  open_month: string,
  since: EntriesBeside,
) => sql`
  WITH entry AS (
    SELECT account_id, amount_nano::numeric AS balance, 0::numeric AS held FROM ${credits}
      WHERE ${inside(sql`account_id`, range)} AND ${isImmediate(credits)}
    UNION ALL SELECT ${n.account_id}, ${effectOf(n)}, 0 FROM ${grant_entries} ${n} WHERE ${inside(sql`${n.account_id}`, range)}
    UNION ALL SELECT account_id, -charge_nano, 0 FROM ${seal_sums}
      WHERE month < ${open_month}::date AND ${inside(sql`account_id`, range)}
    UNION ALL SELECT * FROM ${found("f", sums, "account_id, balance, held")}
    UNION ALL SELECT x.account_id, x.balance, x.held FROM (${changesOf(since)}) x WHERE ${inside(sql`x.account_id`, range)}
  ), summed AS MATERIALIZED (
    SELECT account_id, sum(balance) AS balance, sum(held) AS held FROM entry GROUP BY account_id
  )
  SELECT pair.kind, coalesce(${a.id}, j.account_id) AS account_id, NULL AS id, pair.recorded::text, pair.expected::text
  FROM (SELECT * FROM ${accounts} WHERE ${inside(sql`id`, range)}) ${a} FULL JOIN summed j ON j.account_id = ${a.id}
  CROSS JOIN LATERAL (
    VALUES ('balance', ${a.balance_nano}, coalesce(j.balance, 0)), ('held', ${a.held_nano}, coalesce(j.held, 0))
  ) AS pair (kind, recorded, expected)
  WHERE pair.recorded IS DISTINCT FROM pair.expected
  ORDER BY 2, 1`

/**
 * Grants whose state differs from their entries (D95): what was credited is what was drawn, has expired, was voided or moved, and
 * what is left, of which open calls may pin a part. Accounts without grants have no such entries.
 */
export const grantsThatDiffer = (range: AccountRange) => sql`
  WITH found AS (
    SELECT ${paid.account_id}, ${paid.id} AS credit_id, ${paid.amount_nano} AS expected, 0::bigint AS recorded FROM ${credits} ${paid}
      JOIN ${accounts} ${a} ON ${a.id} = ${paid.account_id} AND ${a.next_change_at} IS NOT NULL
      WHERE ${paid.amount_nano} > 0 AND ${paid.kind} IS DISTINCT FROM 'moved' AND ${inside(sql`${paid.account_id}`, range)}
    UNION ALL SELECT ${n.account_id}, ${n.credit_id}, -${n.amount_nano}, 0 FROM ${grant_entries} ${n}
      WHERE ${n.change} <> 'started' AND ${inside(sql`${n.account_id}`, range)}
    UNION ALL SELECT ${r.account_id}, ${r.credit_id}, 0, ${r.left_nano} FROM ${grants} ${r} WHERE ${inside(sql`${r.account_id}`, range)}
    UNION ALL SELECT ${p.account_id}, ${p.credit_id}, 0, ${p.amount_nano} FROM ${grant_pins} ${p}
      WHERE ${inside(sql`${p.account_id}`, range)}
  )
  SELECT 'grant' AS kind, x.account_id, x.credit_id AS id, sum(x.recorded)::text AS recorded, sum(x.expected)::text AS expected
  FROM found x GROUP BY x.account_id, x.credit_id HAVING sum(x.recorded) <> sum(x.expected) ORDER BY 2, 3`

/** True if a period begins in the months that the audit reads: from `open_month` on, or all for null. */
const beginsIn = (since: PgColumn, open_month: string | null): SQL =>
  sql`${since} >= ${open_month === null ? sql`'-infinity'` : sql`${open_month}::timestamp AT TIME ZONE 'UTC'`}`

/** Keys with a limit whose period is not wholly in sealed months; the counters of other keys are out of date (D42). */
const isCounting = (open_month: string | null): SQL =>
  sql`${k.spend_limit_nano} IS NOT NULL AND ${beginsIn(k.spent_since, open_month)}`

const periodOfKey = { id: sql`${k.id}`, since: sql`${k.spent_since}`, period: sql`${k.spend_period}` }

/** Sums over the calls of keys with a limit, by entries before a moment: the hold, after the end the charge. */
export const spentBefore = (entries: EntriesBeside, open_month: string | null) => sql`
  SELECT ${k.id}, sum(coalesce(${c.charge_nano}, ${e.charge_nano}, ${h.amount_nano}))::text AS spent
  FROM ${keys} ${k} JOIN ${holds} ${h} ON ${h.key_id} = ${k.id} AND ${h.account_id} = ${k.account_id}
      AND ${h.held_at} >= ${k.spent_since}
    LEFT JOIN ${ends} ${e} ON ${e.id} = ${h.id} AND ${within(e.id, entries)} AND ${at(sql`${e.ended_at}`, entries)}
    LEFT JOIN ${corrections} ${c} ON ${c.id} = ${h.id} AND ${within(c.id, entries)} AND ${at(sql`${c.corrected_at}`, entries)}
  WHERE ${isCounting(open_month)} AND ${within(h.id, entries)} AND ${at(h.held_at, entries)} GROUP BY ${k.id}`

/** Keys that seem to differ from what was `found` before a moment and the entries since. */
export const keysThatMayDiffer = (sums: FoundSums, open_month: string | null, since: EntriesBeside) => sql`
  WITH later AS (
    SELECT x.key_id, sum(x.spent) AS spent FROM (
      SELECT ${h.account_id}, ${h.key_id}, ${h.held_at}, ${h.amount_nano} AS spent FROM ${holds} ${h}
        WHERE ${within(h.id, since)} AND ${at(h.held_at, since)}
      UNION ALL SELECT ${h.account_id}, ${h.key_id}, ${h.held_at}, ${e.charge_nano} - ${h.amount_nano}
        FROM ${ends} ${e} JOIN ${holds} ${h} ON ${h.id} = ${e.id} WHERE ${within(e.id, since)} AND ${at(sql`${e.ended_at}`, since)}
      UNION ALL SELECT ${h.account_id}, ${h.key_id}, ${h.held_at}, ${c.charge_nano} - ${e.charge_nano}
        FROM ${corrections} ${c} JOIN ${ends} ${e} ON ${e.id} = ${c.id} JOIN ${holds} ${h} ON ${h.id} = ${c.id}
        WHERE ${within(c.id, since)} AND ${at(sql`${c.corrected_at}`, since)}) x
      JOIN ${keys} ${k} ON ${k.id} = x.key_id AND ${k.account_id} = x.account_id AND ${isCounting(open_month)}
        AND x.held_at >= ${k.spent_since}
    GROUP BY x.key_id)
  SELECT ${k.id} FROM ${keys} ${k} LEFT JOIN later ON later.key_id = ${k.id}
    LEFT JOIN ${found("f", sums, "key_id, spent, none")} ON f.key_id = ${k.id}
  WHERE ${isCounting(open_month)} AND ${k.spent_nano} <> coalesce(f.spent, 0) + coalesce(later.spent, 0)
      + ${carriedOf(periodOfKey)}
  ORDER BY ${k.id}`

/** Those of these keys that differ from the calls of their period, each in one snapshot (D42). */
export const keysThatDiffer = (ids: readonly string[], open_month: string | null) => sql`
  SELECT 'spent' AS kind, k.account_id, k.id, k.recorded::text, k.expected::text
  FROM (
    SELECT ${k.account_id}, ${k.id}, ${k.spent_nano} AS recorded,
      ${spentSince({ account_id: sql`${k.account_id}`, ...periodOfKey })} AS expected
    FROM ${keys} ${k} WHERE ${k.id} = ANY (${arrayOf(ids, (id) => id)}::uuid[]) AND ${isCounting(open_month)}) k
  WHERE k.recorded <> k.expected ORDER BY k.id`

/** Number of accounts, and the change of the number of open calls since a moment. */
export const totals = (since: EntriesBeside) => sql`
  SELECT now() AS checked_at, (SELECT count(*)::int FROM ${accounts}) AS accounts,
    (SELECT coalesce(sum(x.open), 0)::int FROM (${changesOf(since)}) x) AS open`

/** The audit's queries about budgets (D97), but not about those per minute, whose steps refill (D99). */

const has_budgets = sql`${h.account_id} IN (SELECT ${budgets.account_id} FROM ${budgets})`
const call = sql`${h.account_id}, ${h.key_id}, ${h.group_path}, ${h.labels_id}, ${h.terms_id}, ${h.held_at}`

/** The changes by entries, one row each, of the calls of accounts with budgets: what is spent and held in USD, tokens and requests. */
const budgetChangesOf = (entries: EntriesBeside) => sql`
  SELECT ${call}, 0::bigint AS spent_nano, 0 AS spent_tokens, 0 AS spent_requests,
    ${h.amount_nano} AS held_nano, ${h.held_tokens} AS held_tokens, 1 AS held_requests FROM ${holds} ${h}
    WHERE ${within(h.id, entries)} AND ${at(h.held_at, entries)} AND ${has_budgets}
  UNION ALL SELECT ${call}, ${e.charge_nano}, coalesce(${e.prompt_tokens} + ${e.completion_tokens}, 0),
      (${e.outcome} <> 'released')::int, -${h.amount_nano}, -${h.held_tokens}, -1
    FROM ${ends} ${e} JOIN ${holds} ${h} ON ${h.id} = ${e.id} AND ${within(h.id, entries)}
    WHERE ${within(e.id, entries)} AND ${at(sql`${e.ended_at}`, entries)} AND ${has_budgets}
  UNION ALL SELECT ${call}, ${c.difference_nano}, coalesce(${c.prompt_tokens} + ${c.completion_tokens}, 0)
      - coalesce(${e.prompt_tokens} + ${e.completion_tokens}, 0), 0, 0, 0, 0
    FROM ${corrections} ${c} JOIN ${ends} ${e} ON ${e.id} = ${c.id} AND ${within(e.id, entries)}
      JOIN ${holds} ${h} ON ${h.id} = ${c.id} AND ${within(h.id, entries)}
    WHERE ${within(c.id, entries)} AND ${at(sql`${c.corrected_at}`, entries)} AND ${has_budgets}`

/** The name of a counter in lists: the budget's id and the member. */
const counter = sql`concat(${w.id}, encode(convert_to(${w.member}, 'UTF8'), 'hex'))`

/** Sums of the changes for each counter. By look-ups: a join can read all changes again for each counter. */
export const budgetsIn = (entries: EntriesBeside, open_month: string | null) => sql`
  SELECT counted.id, sum(counted.spent)::text AS spent, sum(counted.held)::text AS held
  FROM ${withScopes(sql`(${budgetChangesOf(entries)}) s`, sql`s.terms_id`)}
    CROSS JOIN LATERAL (SELECT ${b.id}, ${b.unit}, ${member} AS member FROM ${budgets} ${b} WHERE ${counts} OFFSET 0) b
    CROSS JOIN LATERAL (
      SELECT ${counter} AS id, ${inUnit(sql`s.spent_nano`, sql`s.spent_tokens`, sql`s.spent_requests`)} AS spent,
        ${inUnit(sql`s.held_nano`, sql`s.held_tokens`, sql`s.held_requests`)} AS held
      FROM ${budget_windows} ${w} WHERE ${w.id} = b.id AND ${w.member} = b.member AND ${w.since} <= s.held_at
        AND ${beginsIn(w.since, open_month)} AND ${w.steps} IS NULL OFFSET 0) counted
  GROUP BY counted.id`

export const budgetsThatMayDiffer = (sums: FoundSums, open_month: string | null, since: EntriesBeside) => sql`
  SELECT ${counter} AS id FROM ${budget_windows} ${w} LEFT JOIN (${budgetsIn(since, open_month)}) later ON later.id = ${counter}
    LEFT JOIN ${found("f", sums, "id, spent, held", "text")} ON f.id = ${counter}
  WHERE ${beginsIn(w.since, open_month)} AND ${w.steps} IS NULL AND (
    ${w.spent} <> ${w.carried} + coalesce(f.spent, 0) + coalesce(later.spent::numeric, 0)
    OR ${w.held} <> coalesce(f.held, 0) + coalesce(later.held::numeric, 0))
  ORDER BY 1`

/** Those of these counters that differ from the calls of their window, each in one snapshot. Tokens and requests count as if each were a USD. */
export const budgetsThatDiffer = (ids: readonly string[], open_month: string | null) => sql`
  SELECT pair.kind, ${w.account_id}, ${w.id}, (pair.recorded * s.unit)::text AS recorded, (pair.expected * s.unit)::text AS expected
  FROM ${budgets} ${b} CROSS JOIN LATERAL (SELECT CASE ${b.unit} WHEN 'usd' THEN 1 ELSE 1000000000 END AS unit OFFSET 0) s
    CROSS JOIN LATERAL ${countedIn(sql`${budget_windows}`)} counted
    JOIN ${budget_windows} ${w} ON ${w.id} = ${b.id} AND ${w.member} = counted.member
    CROSS JOIN LATERAL (VALUES ('budget_spent', ${w.spent}::numeric, ${w.carried}::numeric + counted.spent),
      ('budget_held', ${w.held}::numeric, counted.held::numeric)) AS pair (kind, recorded, expected)
  WHERE ${b.id} = ANY (${arrayOf([...new Set(ids.map((id) => id.slice(0, 36)))], (id) => id)}::uuid[])
    AND ${counter} = ANY (${arrayOf(ids, (id) => id)}::text[]) AND ${beginsIn(w.since, open_month)} AND ${w.steps} IS NULL AND pair.recorded <> pair.expected
  ORDER BY ${w.id}, pair.kind`

const m = alias(months, "m")
const s = alias(seals, "s")

const difference = new RowShape({
  kind: word(["balance", "held", "spent", "budget"]),
  /** The key for `spent`, the budget for `budget`, in its unit; otherwise the account. */
  id: text,
  recorded_nano: amount,
  expected_nano: amount,
})

export type Difference = RowOf<typeof difference>

/** The audit of one account, in one snapshot (D55): its entries, with the seals of sealed months, its spending limits and budgets. */
const question = (account_id: string) => {
  const id = sql`${account_id}::uuid`
  const since = sql`${k.spent_since}`
  const spent = spentSince({ id: sql`${k.id}`, account_id: id, since, period: sql`${k.spend_period}` })
  return sql`
  WITH open AS MATERIALIZED (
    SELECT coalesce(${m.from_id}, ${NIL_ID}) AS from_id, ${m.month} FROM ${months} ${m}
    WHERE NOT EXISTS (SELECT FROM ${seals} ${s} WHERE ${s.month} = ${m.month}) ORDER BY ${m.month} LIMIT 1
  ), entry AS (
    SELECT amount_nano::numeric AS balance, 0::numeric AS held FROM ${credits} WHERE account_id = ${id} AND ${isImmediate(credits)}
    UNION ALL SELECT ${effectOf(n)}, 0 FROM ${grant_entries} ${n} WHERE ${n.account_id} = ${id}
    UNION ALL SELECT -charge_nano, 0 FROM ${seal_sums} WHERE account_id = ${id} AND month < (SELECT month FROM open)
    UNION ALL SELECT -coalesce(${c.charge_nano}, ${e.charge_nano}, 0), CASE WHEN ${e.id} IS NULL THEN ${h.amount_nano} ELSE 0 END
    FROM ${holds} ${h} LEFT JOIN ${ends} ${e} ON ${e.id} = ${h.id} LEFT JOIN ${corrections} ${c} ON ${c.id} = ${h.id}
    WHERE ${h.account_id} = ${id} AND ${h.id} >= (SELECT from_id FROM open)
  ), found AS (
    SELECT pair.kind, ${a.id}, pair.recorded, pair.expected FROM ${accounts} ${a}
    CROSS JOIN (SELECT coalesce(sum(balance), 0) AS balance, coalesce(sum(held), 0) AS held FROM entry) j
    CROSS JOIN LATERAL (VALUES ('balance', ${a.balance_nano}, j.balance), ('held', ${a.held_nano}, j.held))
      AS pair (kind, recorded, expected)
    WHERE ${a.id} = ${id}
    UNION ALL SELECT 'spent', ${k.id}, ${k.spent_nano}, ${spent} FROM ${keys} ${k}
    WHERE ${k.account_id} = ${id} AND ${k.spend_limit_nano} IS NOT NULL
      AND ${since} >= (SELECT month::timestamp AT TIME ZONE 'UTC' FROM open)
    UNION ALL SELECT 'budget', ${w.id}, ${w.spent} + ${w.held}, ${w.carried} + counted.spent + counted.held
    FROM ${budgets} ${b} CROSS JOIN LATERAL ${countedIn(sql`${budget_windows}`)} counted
      JOIN ${budget_windows} ${w} ON ${w.id} = ${b.id} AND ${w.member} = counted.member
    WHERE ${b.account_id} = ${id} AND ${w.steps} IS NULL AND ${w.since} >= (SELECT month::timestamp AT TIME ZONE 'UTC' FROM open)
  )
  SELECT kind, id, recorded::text AS recorded_nano, expected::text AS expected_nano FROM found WHERE recorded <> expected ORDER BY kind, id`
}

export async function differences(database: Db, account_id: string): Promise<readonly Difference[]> {
  const rows = await database.execute<Row>(question(account_id))
  return rows.map((row) => difference.read(row))
}
