import { sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import { exactCost } from "../../money.ts"
import type { Runner } from "../database/connection.ts"
import {
  type ArrayColumn,
  allOf,
  Batch,
  firstAndLast,
  intOf,
  isItem,
  lockTimeout,
  names,
  nanoOf,
  of,
  type Row,
  statement,
  textOf,
} from "../database/statement.ts"
import type { Hold, HoldResult } from "../entries.ts"
import { a, b, e, g, h, k, t } from "../schema/aliases.ts"
import { budgets } from "../schema/budgets.ts"
import { idempotency } from "../schema/claims.ts"
import { accounts, ends, gateways, holds, keys, terms } from "../schema/tables.ts"
import {
  amountAt,
  budgetJson,
  countersInWindow,
  isFull,
  lockCounters,
  member,
  needed,
  useOf,
  windowStart,
  withBudgets,
  withCounter,
  writeCounters,
} from "./budgets.ts"
import { heldFor, multiplierOf, par } from "./charge.ts"
import { priceOfCall } from "./customer-prices.ts"
import { available, changeDue, isDelayed, isDue } from "./grants.ts"
import { claimLasts } from "./idempotency-claims.ts"
import { countRates, rateColumnsNow, ratesOf, stepsAt, writtenCounters } from "./rates.ts"
import { locked_key, periodOf, periodStart, spentIn } from "./spending.ts"

export type HoldAttempt =
  | HoldResult
  /** The gateway was declared dead: nothing can be held under its row (D35). */
  | { readonly outcome: "gateway_dead"; readonly gateway_id: string }
  /** Try again: the id or the `Idempotency-Key` is being written, or grants had to be changed first (D95). */
  | { readonly outcome: "conflict" }
  /** Try again later: the account's grants could not be changed. */
  | { readonly outcome: "delayed" }
  /** The id is in the journal already, but not as this open hold. */
  | { readonly outcome: "closed" }
  | { readonly outcome: "account_moving" }

const c = alias(idempotency, "c")

export const holdFields: readonly ArrayColumn<Hold>[] = [
  [holds.id, (hold) => hold.id],
  [holds.account_id, (hold) => hold.account_id],
  [holds.key_id, (hold) => hold.key_id],
  [holds.terms_id, (hold) => hold.terms_id],
  [holds.amount_nano, (hold) => hold.amount_nano],
  [holds.stream, (hold) => hold.stream],
]

/** Columns of the session and agent that a client may name (D65), and of a call's labels (D94). */
export const namedFields: readonly ArrayColumn<Hold>[] = [
  [holds.session_id, (hold) => hold.session?.session_id ?? null],
  [holds.agent_id, (hold) => hold.session?.agent_id ?? null],
  [holds.labels_id, (hold) => hold.labels?.id ?? null],
]

/** The most tokens that a call can use, for budgets of tokens (D97). */
export const tokenField: ArrayColumn<Hold> = [holds.held_tokens, (hold) => hold.tokens ?? null]

/** Columns of a client's optional headers (D43, D65), and of an `Idempotency-Key` (D43). */
export const clientFields: readonly ArrayColumn<Hold>[] = [
  ...namedFields,
  [idempotency.key_hash, (hold) => hold.idempotency?.key_hash ?? null],
  [idempotency.body_hash, (hold) => hold.idempotency?.body_hash ?? null],
]

/** Amounts are exact costs in pico-USD, because the statement reads the price multiplier and rounds once (D69). */
const batch = new Batch<Hold>(5, [
  ...holdFields.map(
    (field): ArrayColumn<Hold> =>
      field[0] === holds.amount_nano ? [holds.amount_nano, exactCost, "numeric"] : field,
  ),
  ...clientFields,
  [keys.labels_version, (hold) => hold.labels_version ?? 0],
  tokenField,
])

const requested_columns = batch.columns.filter(
  (column) => column.table === holds && column !== holds.amount_nano,
)
const columns = [...requested_columns, holds.group_path, holds.amount_nano]

/**
 * Makes the holds that fit, and says why the others do not.
 *
 * - `available` and the price multiplier are read from the locked, newest version of the account.
 * - Calls are admitted in ascending order of their amounts, so that no call is refused that would have fitted.
 * - A call takes its amount from the balance, from the limit of its key (D42) and from each budget that it counts in
 *   (D97), or from none of them. `admitted` computes this over an array with the rest of each. A budget per minute that
 *   keeps room for a refused call has a second item, for all calls of other amounts (D99).
 * - Locks are taken in the order of ids: accounts, then counters of budgets, then keys with spending limits.
 * - An account whose budgets or customer prices were changed after the snapshot is retried.
 * - A call must name the terms of the customer price that applies now, or of the configuration (D100). Terms without a
 *   row, which a standby may have lost, are refused.
 * - All periods of a call are those of one time of its account, which never goes back.
 * - The primary key decides which call takes an `Idempotency-Key`. A hold that lost its key to another statement has
 *   taken its amount, so a call that did not fit beside it is retried (D43).
 * - The divisions fail if a row was lost.
 * - The plan is kept, like that of `endExact`, because planning each batch costs much and grows with the months. A plan
 *   for small tables must not read all of them once they have grown. So each UPDATE also has `id = ANY (ARRAY(…))`,
 *   which uses the primary key, and `claimed_at + …` keeps the plan off the index of `claimed_at`.
 */
export const holdExact = statement(
  "hold",
  sql`
WITH requested AS MATERIALIZED (
  SELECT x.*, key.group_path, before.known, before.price_multiplier_bp,
    CASE
      WHEN key.id IS NULL OR key.revoked_at IS NOT NULL OR key.expires_at <= now() THEN 'invalid_api_key'
      WHEN key.suspended_at IS NOT NULL THEN 'key_suspended'
      WHEN key.models IS NOT NULL AND ((SELECT ${t.model} FROM ${terms} ${t} WHERE ${t.id} = ${of("x", holds.terms_id)})
        = ANY (key.models)) IS NOT TRUE THEN 'model_not_allowed'
      WHEN key.labels_version <> ${of("x", keys.labels_version)} THEN 'labels_changed'
    END AS refusal,
    CASE WHEN ${of("x", idempotency.key_hash)} IS NOT NULL THEN (
      SELECT CASE WHEN ${c.body_hash} = ${of("x", idempotency.body_hash)} THEN 'idempotency_key_used'
        ELSE 'idempotency_key_reused' END
      FROM ${idempotency} ${c} WHERE ${c.account_id} = ${of("x", holds.account_id)}
        AND ${c.key_hash} = ${of("x", idempotency.key_hash)} AND ${c.claimed_at} + ${claimLasts} > now())
    END AS claim
  FROM ${batch.kept} LEFT JOIN LATERAL (
    SELECT ${k.id}, ${k.revoked_at}, ${k.expires_at}, ${k.suspended_at}, ${k.models}, ${k.labels_version}, ${k.group_path}
    FROM ${keys} ${k}
    WHERE ${k.id} = ${of("x", holds.key_id)} AND ${k.account_id} = ${of("x", holds.account_id)} OFFSET 0) key ON true
  LEFT JOIN LATERAL (
    SELECT CASE WHEN ${h.gateway_id} = $2::uuid AND ${h.account_id} = ${of("x", holds.account_id)}
        AND ${h.amount_nano} = ${heldFor(of("x", holds.amount_nano), sql`coalesce(${h.price_multiplier_bp}, ${par})`)}
        AND (SELECT ${e.id} FROM ${ends} ${e} WHERE ${isItem(e.id, sql`${h.id}`, 3)}) IS NULL THEN 'held' ELSE 'closed' END AS known,
      coalesce(${h.price_multiplier_bp}, ${par}) AS price_multiplier_bp
    FROM ${holds} ${h} WHERE ${isItem(h.id, of("x", holds.id), 3)} OFFSET 0) before ON true
), alive AS MATERIALIZED (
  SELECT EXISTS (SELECT FROM ${gateways} ${g} WHERE ${g.id} = $2::uuid AND ${g.dead_at} IS NULL) AS yes
), due AS MATERIALIZED (
  SELECT r.* FROM requested r, alive
  WHERE r.known IS NULL AND r.refusal IS NULL AND r.claim IS NULL AND alive.yes
), seen AS MATERIALIZED (
  SELECT ${a.id}, ${a.budgets_version} FROM ${accounts} ${a} WHERE ${a.id} = ANY (ARRAY(SELECT account_id FROM due))
), locked AS MATERIALIZED (
  SELECT ${a.id}, ${available} AS available_nano, ${isDue} AS grants_due, ${a.suspended_at} IS NULL AS active, ${a.is_limited},
    ${a.price_multiplier_bp} AS price_multiplier_bp, ${a.moving_to} IS NOT NULL AS moving, ${a.moved_to} = ${a.moving_to} AS moved,
    ${a.budgets_version}
  FROM ${accounts} ${a} WHERE ${a.id} = ANY (ARRAY(SELECT account_id FROM due)) AND ${lockTimeout}
  ORDER BY ${a.id} FOR NO KEY UPDATE
), offered AS MATERIALIZED (
  SELECT d.*, l.active, l.is_limited, coalesce(c.price_multiplier_bp, l.price_multiplier_bp) AS multiplier_bp,
    coalesce(c.is_current, (SELECT ${t.customer_price_id} IS NULL AND NOT l.is_limited FROM ${terms} ${t} WHERE ${t.id} = d.terms_id), false) AS is_current
  FROM due d JOIN locked l ON l.id = d.account_id AND NOT l.moving AND NOT l.grants_due
    JOIN seen v ON v.id = l.id AND v.budgets_version = l.budgets_version
    LEFT JOIN LATERAL (${priceOfCall(sql`d.account_id`, sql`d.terms_id`)}) c ON l.is_limited
), sold AS MATERIALIZED (
  SELECT ${allOf("d", ...requested_columns, holds.group_path, idempotency.key_hash, idempotency.body_hash)}, d.is_limited,
    d.multiplier_bp AS price_multiplier_bp, n.amount_nano, row_number() OVER (ORDER BY n.amount_nano, d.id)::int AS ordinal
  FROM offered d CROSS JOIN LATERAL (SELECT ${heldFor(sql`d.amount_nano`, sql`d.multiplier_bp`)} AS amount_nano OFFSET 0) n
  WHERE d.is_current AND d.active
), matched AS MATERIALIZED (
  SELECT s.id AS call_id, s.ordinal, ${b.id}, ${member} AS member, ${needed} AS needed
  FROM ${withBudgets(sql`(SELECT * FROM sold WHERE is_limited) s`, sql`s.terms_id`)}
), ${lockCounters}, limited_keys AS MATERIALIZED (
  SELECT ${k.id}, ${k.account_id}, ${k.spend_period}, ${k.spend_limit_nano}, ${k.spent_since}, ${k.spent_nano}
  FROM ${keys} ${k} WHERE ${k.id} = ANY (ARRAY(SELECT key_id FROM sold WHERE is_limited))
  ORDER BY ${k.id} FOR NO KEY UPDATE
), clocks AS MATERIALIZED (
  SELECT x.account_id, greatest(now(), max(x.since)) AS moment FROM (
    SELECT account_id, greatest(since, step_at) AS since FROM counters
    UNION ALL SELECT account_id, spent_since FROM limited_keys WHERE spend_limit_nano IS NOT NULL) x
  GROUP BY x.account_id
), limits AS MATERIALIZED (
  SELECT r.id, r.spend_period AS period, ${periodStart(locked_key, sql`o.moment`)} AS since,
    ${spentIn(locked_key, sql`o.moment`)} AS spent_nano,
    r.spend_limit_nano - ${spentIn(locked_key, sql`o.moment`)} AS remaining_nano
  FROM limited_keys r JOIN clocks o ON o.account_id = r.account_id WHERE r.spend_limit_nano IS NOT NULL
), windows AS MATERIALIZED (
  SELECT m.id, m.member, p.account_id, ${b.is_hard}, s.amount, s.since, o.moment,
    x.id IS NULL AS is_new, ${isFull} AS is_full, ${countersInWindow}, ${rateColumnsNow}
  FROM wanted m ${withCounter} JOIN clocks o ON o.account_id = p.account_id
    JOIN ${budgets} ${b} ON ${b.id} = m.id AND ${b.id} = ANY (ARRAY(SELECT id FROM counters))
    CROSS JOIN LATERAL (SELECT greatest(coalesce(x.since, p.since), ${windowStart(sql`o.moment`)}) AS since,
      ${amountAt(sql`o.moment`)} AS amount OFFSET 0) s
    CROSS JOIN LATERAL (SELECT ${stepsAt("x", sql`s.amount`, sql`o.moment`)} AS steps OFFSET 0) r
), rooms AS MATERIALIZED (
  SELECT x.*, row_number() OVER ()::int AS slot FROM (
    SELECT 'account' AS kind, id, '' AS member, available_nano AS room FROM locked
    UNION ALL SELECT 'key', id, '', remaining_nano FROM limits
    UNION ALL SELECT 'budget', id, member, CASE WHEN is_full THEN -1 ELSE amount - spent - held - level END FROM windows WHERE is_hard
    UNION ALL SELECT 'others', id, member, amount - level - waiting FROM windows WHERE waiting IS NOT NULL) x
), slots AS MATERIALIZED (
  SELECT x.ordinal, r.slot, x.needed FROM rooms r JOIN (
    SELECT 'account' AS kind, account_id AS id, '' AS member, ordinal, amount_nano AS needed FROM sold
    UNION ALL SELECT 'key', key_id, '', ordinal, amount_nano FROM sold WHERE is_limited
    UNION ALL SELECT 'budget', id, member, ordinal, needed FROM matched
    UNION ALL SELECT 'others', m.id, m.member, m.ordinal, m.needed FROM matched m
      JOIN windows y ON y.id = m.id AND y.member = m.member AND y.waiting <> m.needed) x
  ON x.kind = r.kind AND x.id = r.id AND x.member = r.member
), weighed AS MATERIALIZED (
  SELECT s.*, (SELECT tollgate.admitted(
      ARRAY(SELECT ordinal FROM slots ORDER BY ordinal, slot), ARRAY(SELECT slot FROM slots ORDER BY ordinal, slot),
      ARRAY(SELECT needed FROM slots ORDER BY ordinal, slot), ARRAY(SELECT room FROM rooms ORDER BY slot)))[s.ordinal] AS fits
  FROM sold s
), claimed AS (
  INSERT INTO ${idempotency} (${names(idempotency.account_id, idempotency.key_hash, idempotency.body_hash, idempotency.call_id)})
  SELECT w.account_id, w.key_hash, w.body_hash, w.id FROM weighed w WHERE w.key_hash IS NOT NULL AND w.fits
  ORDER BY w.account_id, w.key_hash
  ON CONFLICT ON CONSTRAINT idempotency_pkey DO UPDATE
  SET (${names(idempotency.body_hash, idempotency.call_id, idempotency.claimed_at)})
    = (${allOf("excluded", idempotency.body_hash, idempotency.call_id, idempotency.claimed_at)})
  WHERE ${of("excluded", idempotency.claimed_at)} - ${of("idempotency", idempotency.claimed_at)} >= ${claimLasts}
  RETURNING ${names(idempotency.call_id)}
), inserted AS (
  INSERT INTO ${holds} (${names(...columns, holds.price_multiplier_bp, holds.gateway_id, holds.held_at)})
  SELECT ${allOf("w", ...columns)}, nullif(w.price_multiplier_bp, ${par}), $2::uuid, coalesce(o.moment, now())
  FROM weighed w LEFT JOIN clocks o ON o.account_id = w.account_id
  WHERE w.fits AND (w.key_hash IS NULL OR w.id IN (SELECT call_id FROM claimed))
  ORDER BY w.id
  ON CONFLICT (id) DO NOTHING
  RETURNING ${names(holds.id, holds.account_id, holds.key_id, holds.amount_nano)}
), contested AS MATERIALIZED (
  SELECT w.account_id FROM weighed w WHERE w.fits AND w.id NOT IN (SELECT id FROM inserted)
), taken AS MATERIALIZED (
  SELECT m.id, m.member, sum(m.needed)::bigint AS amount, bool_or(m.needed = y.waiting) AS is_served FROM matched m
    JOIN windows y ON y.id = m.id AND y.member = m.member WHERE (m.call_id IN (SELECT id FROM inserted)) IS TRUE
  GROUP BY m.id, m.member
), ${countRates}, exceeded AS MATERIALIZED (
  SELECT DISTINCT ON (x.call_id) x.call_id, x.needed::text AS needed, ceil(extract(epoch FROM x.fits_at - x.moment) * 1000)::int AS wait_ms,
    ${budgetJson}::text AS budget
  FROM (
    SELECT m.call_id, m.needed, y.id, y.member, y.is_full, CASE WHEN y.is_full THEN 0 ELSE y.amount END AS amount,
      y.spent + tollgate.unrefilled(t.steps) AS spent,
      CASE WHEN y.steps IS NULL THEN y.held + coalesce(s.amount, 0) ELSE coalesce(q.kept, 0) END AS held, y.moment, q.fits_at
    FROM matched m JOIN windows y ON y.id = m.id AND y.member = m.member AND y.is_hard
      LEFT JOIN taken s ON s.id = y.id AND s.member = y.member LEFT JOIN rates t ON t.id = y.id AND t.member = y.member
      LEFT JOIN too_soon q ON q.call_id = m.call_id AND q.id = m.id AND q.member = m.member
    WHERE m.call_id NOT IN (SELECT id FROM inserted)) x JOIN ${budgets} ${b} ON ${b.id} = x.id
  WHERE x.is_full OR x.amount - x.spent - x.held < x.needed OR x.fits_at IS NOT NULL
  ORDER BY x.call_id, x.fits_at IS NOT NULL OR x.amount - x.spent >= x.needed, x.fits_at DESC,
    (x.amount - x.spent - x.held)::float8 / greatest(x.needed, 1), x.id
), ${writtenCounters}, moved AS (
  UPDATE ${accounts} ${a} SET (${names(accounts.held_nano, accounts.budgets_version)}) = (${a.held_nano} + s.amount_nano,
    ${a.budgets_version} + (${a.id} IN (SELECT account_id FROM written WHERE is_new))::int)
  FROM (SELECT account_id, sum(amount_nano)::bigint AS amount_nano FROM inserted GROUP BY account_id) s
  WHERE ${a.id} = s.account_id AND ${a.id} = ANY (ARRAY(SELECT account_id FROM inserted))
  RETURNING ${a.id}, ${available} AS available_nano
), counted AS (
  UPDATE ${keys} ${k} SET (${names(keys.spent_since, keys.spent_nano)}) = (m.since, m.spent_nano + s.amount_nano)
  FROM (SELECT key_id, sum(amount_nano)::bigint AS amount_nano FROM inserted GROUP BY key_id) s
    JOIN limits m ON m.id = s.key_id
  WHERE ${k.id} = s.key_id AND ${k.id} = ANY (ARRAY(SELECT id FROM limits))
  RETURNING ${k.id}, m.remaining_nano - s.amount_nano AS remaining_nano
), filled AS (${writeCounters}
)
SELECT r.id,
  CASE
    WHEN i.id IS NOT NULL THEN 'held'
    WHEN r.known IS NOT NULL THEN r.known
    WHEN r.refusal IS NOT NULL THEN r.refusal
    WHEN r.claim IS NOT NULL THEN r.claim
    WHEN NOT (SELECT yes FROM alive) THEN 'gateway_dead'
    WHEN l.id IS NULL OR l.moved THEN 'invalid_api_key'
    WHEN l.moving THEN 'account_moving'
    WHEN l.budgets_version <> v.budgets_version THEN 'conflict'
    WHEN l.grants_due THEN 'grants_due'
    WHEN NOT l.active THEN 'account_suspended'
    WHEN NOT o.is_current THEN 'prices_changed'
    WHEN r.account_id IN (SELECT account_id FROM contested) THEN 'conflict'
    WHEN coalesce(n.remaining_nano, b.remaining_nano) < w.amount_nano THEN 'spending_limit_reached'
    WHEN x.call_id IS NOT NULL AND (x.wait_ms IS NULL OR coalesce(m.available_nano, l.available_nano) >= w.amount_nano)
      THEN 'budget_reached'
    ELSE 'insufficient_balance'
  END AS outcome, CASE WHEN l.grants_due AND NOT l.moving THEN l.id END AS due_account_id,
  coalesce(m.available_nano, l.available_nano)::text AS available_nano,
  coalesce(n.remaining_nano, b.remaining_nano)::text AS remaining_nano, b.period, x.budget, x.needed, x.wait_ms, d.rates,
  nullif(CASE WHEN r.known IS NULL THEN coalesce(o.multiplier_bp, l.price_multiplier_bp) ELSE r.price_multiplier_bp END, ${par}) AS price_multiplier_bp,
  CASE WHEN r.known IS NULL THEN l.is_limited END AS is_limited,
  CASE WHEN r.claim IS NOT NULL THEN (SELECT ${c.call_id} FROM ${idempotency} ${c}
    WHERE ${c.account_id} = r.account_id AND ${c.key_hash} = r.key_hash)::text END AS call_id,
  1 / ((SELECT count(*) FROM moved) = (SELECT count(DISTINCT account_id) FROM inserted))::int AS whole,
  1 / ((SELECT count(*) FROM counted) = (SELECT count(DISTINCT i.key_id) FROM inserted i
    JOIN limits m ON m.id = i.key_id))::int AS counted_whole,
  1 / ((SELECT count(*) FROM windows) = (SELECT count(*) FROM wanted))::int AS windows_whole,
  1 / ((SELECT count(*) FROM claimed) = (SELECT count(*) FROM inserted WHERE id IN (SELECT call_id FROM claimed)))::int
    AS claimed_whole
FROM requested r LEFT JOIN weighed w ON w.id = r.id LEFT JOIN inserted i ON i.id = r.id
LEFT JOIN locked l ON l.id = r.account_id LEFT JOIN offered o ON o.id = r.id LEFT JOIN moved m ON m.id = r.account_id
LEFT JOIN limits b ON b.id = r.key_id LEFT JOIN counted n ON n.id = r.key_id
LEFT JOIN seen v ON v.id = r.account_id LEFT JOIN exceeded x ON x.call_id = r.id
LEFT JOIN rated d ON d.call_id = r.id`,
)

/** Runs the exact statement. Of holds with the same `Idempotency-Key`, all but one are `conflict`. */
export async function holdExactly(
  connection: Runner,
  gateway_id: string,
  requested: readonly Hold[],
  lock_ms: number,
  within_ms: number,
): Promise<readonly HoldAttempt[]> {
  const distinct = withoutTwins(requested)
  const values = [String(lock_ms), gateway_id, ...firstAndLast(distinct), ...batch.values(distinct)]
  const rows = await connection.run(holdExact, values, within_ms, distinct.length)
  if (rows.length !== distinct.length) throw new Error("the holding statement returned too few rows")
  const errors = await changeDue(connection, rows, lock_ms, within_ms)
  const results = new Map<string, HoldAttempt>()
  for (const row of rows)
    results.set(textOf(row, "id"), isDelayed(row, errors) ? { outcome: "delayed" } : heldOf(row, gateway_id))
  return requested.map(({ id }) => results.get(id) ?? { outcome: "conflict" })
}

/** Drops holds whose `Idempotency-Key` an earlier one has, because a statement takes each only once. */
function withoutTwins(requested: readonly Hold[]): readonly Hold[] {
  const taken = new Set<string>()
  return requested.filter(({ account_id, idempotency }) => {
    if (idempotency === null) return true
    const claim = `${account_id} ${idempotency.key_hash}`
    if (taken.has(claim)) return false
    taken.add(claim)
    return true
  })
}

function heldOf(row: Row, gateway_id: string): HoldAttempt {
  const outcome = textOf(row, "outcome")
  const rates = row.rates === null ? {} : { rates: ratesOf(JSON.parse(textOf(row, "rates"))) }
  switch (outcome) {
    case "held":
      return {
        outcome,
        ...multiplierOf(row),
        ...(row.is_limited === true && { is_limited: true }),
        ...rates,
      }
    case "invalid_api_key":
    case "model_not_allowed":
    case "key_suspended":
    case "labels_changed":
    case "prices_changed":
    case "account_suspended":
    case "conflict":
    case "closed":
    case "account_moving":
      return { outcome }
    case "grants_due":
      return { outcome: "conflict" }
    case "gateway_dead":
      return { outcome, gateway_id }
    case "insufficient_balance":
      return { outcome, available_nano: nanoOf(row, "available_nano"), ...multiplierOf(row) }
    case "spending_limit_reached":
      return {
        outcome,
        remaining_nano: nanoOf(row, "remaining_nano"),
        period: periodOf(row, "period"),
        ...multiplierOf(row),
      }
    case "budget_reached":
      return {
        outcome,
        budget: { ...useOf(JSON.parse(textOf(row, "budget"))), needed: nanoOf(row, "needed") },
        ...(row.wait_ms !== null && { wait_ms: intOf(row, "wait_ms") }),
        ...multiplierOf(row),
        ...rates,
      }
    case "idempotency_key_used":
    case "idempotency_key_reused":
      return { outcome, call_id: textOf(row, "call_id") }
    default:
      throw new Error("the holding statement returned an unknown outcome")
  }
}
