import { type SQL, sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import { atMultiplier, PAR_BP } from "../../money.ts"
import type { Runner } from "../database/connection.ts"
import { Uncertain } from "../database/database-errors.ts"
import { allOf, arrayOf, Batch, hidden, lockTimeout, names, of, statement } from "../database/statement.ts"
import type { Hold } from "../entries.ts"
import { a, g, k, t } from "../schema/aliases.ts"
import { accounts, gateways, holds, keys, terms } from "../schema/tables.ts"
import { amountAt, lockWindows, member, needed, windowStart, withBudgets, writeWindows } from "./budgets.ts"
import { par } from "./charge.ts"
import { priceOfCall } from "./customer-prices.ts"
import { available, hasNoChange } from "./grants.ts"
import { type HoldAttempt, holdExactly, holdFields, namedFields, tokenField } from "./hold-exact.ts"
import { type DoneAccounts, runLean } from "./lean.ts"
import { countedWhole, locked_key, periodStart, writeSpending } from "./spending.ts"

/** Deadline of one holding statement: half of a call's, so that there is time for a second attempt (D27). */
const STATEMENT_MS = 1_000

/** True for the row `k` of the call's key if it may use the model, and its labels are of this version (D94). */
function mayUse(key_id: SQL, account_id: SQL, terms_id: SQL, labels_version: SQL): SQL {
  return sql`${k.id} = ${key_id} AND ${k.account_id} = ${account_id} AND ${k.labels_version} = ${labels_version}
    AND ${k.revoked_at} IS NULL AND ${k.suspended_at} IS NULL AND (${k.expires_at} IS NULL OR ${k.expires_at} > now())
    AND (${k.models} IS NULL OR (SELECT ${t.model} FROM ${terms} ${t} WHERE ${t.id} = ${terms_id}) = ANY (${k.models}))`
}

/** True unless the gateway was declared dead (D35). */
const isAlive = sql`EXISTS (SELECT FROM ${gateways} ${g} WHERE ${g.id} = $2::uuid AND ${g.dead_at} IS NULL)`

/** A scalar subquery, because the planner would make a join of an EXISTS and read all keys. */
const mayHold = (...use: Parameters<typeof mayUse>): SQL =>
  sql`(SELECT true FROM ${keys} ${k} WHERE ${mayUse(...use)})`

/**
 * The condition on the account `a`, for an amount that contains this price multiplier (D69). If another statement has
 * changed the row, the UPDATE checks it again on the newest version. `holdLimited` takes limited accounts, and the
 * exact statement those with due changes of grants.
 */
function canHold(amount: SQL, price_multiplier_bp: SQL): SQL {
  return sql`${available} >= ${amount} AND ${a.price_multiplier_bp} = ${price_multiplier_bp}
    AND ${a.suspended_at} IS NULL AND ${a.moving_to} IS NULL AND NOT ${a.is_limited} AND ${hasNoChange}
    AND ${isAlive}`
}

/** All columns but `held_at`, which the database sets. */
const batch = new Batch<Hold>(10, [
  ...holdFields,
  ...namedFields,
  [holds.price_multiplier_bp, (hold) => hold.price_multiplier_bp ?? null],
])
const { columns } = batch

const owners = hidden("$3::uuid[]")

/** The sum of the holds of an account, as the gateway computed it, and the price multiplier that it contains. */
const total = sql.raw(`($4::bigint[])[array_position($3::uuid[], a."id")]`)
const multiplier = sql.raw(`($8::int[])[array_position($3::uuid[], a."id")]`)

/**
 * Makes all holds of an account, or none: if they do not fit together, the exact statement decides. Skips an account
 * for a key that may not hold, too little money, another price multiplier, a suspension, a spending limit, a due change
 * of its grants or a move, and all accounts of a dead gateway. An id or a claim that exists already violates a primary
 * key and rolls everything back. Accounts are locked in the order of their ids, so that statements cannot deadlock. `1
 * / (…)::int` divides by zero, which rolls the statement back, unless the holds that it added sum up to what
 * `held_nano` rose by.
 */
export const holdLean = statement(
  "hold",
  sql`
WITH refused AS MATERIALIZED (
  SELECT u.account_id FROM unnest(${hidden("$5::uuid[]")}, ${hidden("$6::uuid[]")}, ${hidden("$7::int[]")}, ${hidden("$9::int[]")})
    AS u (account_id, key_id, terms_id, labels_version)
  WHERE ${mayHold(sql`u.key_id`, sql`u.account_id`, sql`u.terms_id`, sql`u.labels_version`)} IS NOT TRUE
), locked AS MATERIALIZED (
  SELECT ${a.id} FROM ${accounts} ${a} WHERE ${a.id} = ANY (${owners}::uuid[]) AND ${lockTimeout}
  ORDER BY ${a.id} FOR NO KEY UPDATE
), moved AS (
  UPDATE ${accounts} ${a} SET ${names(accounts.held_nano)} = ${a.held_nano} + ${total}
  WHERE ${a.id} = ANY (${owners}::uuid[]) AND (SELECT count(*) FROM locked) > 0
    AND (${a.id} IN (SELECT account_id FROM refused)) IS NOT TRUE AND ${canHold(total, multiplier)}
  RETURNING ${a.id}, ${total} AS total_nano
), inserted AS (
  INSERT INTO ${holds} (${names(...columns, holds.gateway_id)})
  SELECT ${allOf("x", ...columns)}, $2::uuid FROM ${batch.kept}
  WHERE (${of("x", holds.account_id)} IN (SELECT id FROM moved)) IS TRUE
  RETURNING ${names(holds.amount_nano)}
)
SELECT count(*)::int AS accounts, CASE WHEN count(*) < cardinality($3::uuid[]) THEN array_agg(id)::text END AS only,
  1 / (coalesce(sum(total_nano), 0) = (SELECT coalesce(sum(amount_nano), 0) FROM inserted))::int AS whole
FROM moved`,
  true,
)

const own = new Batch<Hold>(9, [
  [holds.id, (hold) => hold.id],
  [holds.amount_nano, (hold) => hold.amount_nano],
  [holds.stream, (hold) => hold.stream],
  ...namedFields,
])

/** The same for holds of one key for one model, or for one hold. See `endOne`. */
export const holdOneKey = statement(
  "hold",
  sql`
WITH moved AS (
  UPDATE ${accounts} ${a} SET ${names(accounts.held_nano)} = ${a.held_nano} + $6::bigint
  WHERE ${a.id} = $3::uuid AND ${lockTimeout}
    AND ${mayHold(sql`$4::uuid`, sql`$3::uuid`, sql`$5::int`, sql`$8::int`)} AND ${canHold(sql`$6::bigint`, sql`$7::int`)}
  RETURNING ${a.id}
), inserted AS (
  INSERT INTO ${holds} (${names(...columns, holds.gateway_id)})
  SELECT ${of("x", holds.id)}, moved.id, $4::uuid, $5::int, ${of("x", holds.amount_nano)}, ${of("x", holds.stream)},
    ${allOf("x", ...namedFields.map(([column]) => column))}, nullif($7::int, ${par}), $2::uuid
  FROM moved CROSS JOIN ${own.kept}
  RETURNING ${names(holds.amount_nano)}
)
SELECT 1 / ((SELECT coalesce(sum(amount_nano), 0) FROM inserted) = $6::bigint)::int AS whole FROM moved`,
  true,
)

const v = alias(accounts, "v")

const limited_fields = [...holdFields, ...namedFields, tokenField]
const limited_columns = limited_fields.map(([column]) => column)

const limited_batch = new Batch<Hold>(3, [
  ...limited_fields,
  [holds.price_multiplier_bp, (hold) => hold.price_multiplier_bp ?? PAR_BP],
  [keys.labels_version, (hold) => hold.labels_version ?? 0],
])

const [used_key, owner, sold_at] = [of("x", holds.key_id), of("x", holds.account_id), of("x", holds.terms_id)]
const requested_bp = of("q", holds.price_multiplier_bp)

/**
 * `holdLean` for accounts with spending limits, budgets or customer prices: makes all holds of an account, or none. It
 * skips an account if something does not fit, if a window or a period must begin, or if the call counts in a budget per
 * minute (D99) or adds a member to a budget; the exact statement then holds. It locks as the exact statement does:
 * accounts, then counters of budgets, then keys. `budgets_version` shows that budgets and prices are those of the
 * snapshot; the keys' limits are those of their locked rows.
 */
export const holdLimited = statement(
  "hold",
  sql`
WITH requested AS MATERIALIZED (
  SELECT x.*, key.group_path, price.price_multiplier_bp AS own_bp, key.id IS NOT NULL AND price.is_current AS is_allowed
  FROM ${limited_batch.kept} LEFT JOIN LATERAL (
    SELECT ${k.id}, ${k.group_path} FROM ${keys} ${k}
    WHERE ${mayUse(used_key, owner, sold_at, of("x", keys.labels_version))} OFFSET 0) key ON true
  LEFT JOIN LATERAL (${priceOfCall(owner, sold_at)}) price ON true
), locked AS MATERIALIZED (
  SELECT ${a.id}, ${available} AS available_nano, ${a.price_multiplier_bp} AS price_multiplier_bp, ${a.budgets_version},
    ${a.is_limited} AND ${a.suspended_at} IS NULL AND ${a.moving_to} IS NULL AND ${hasNoChange} AS is_open
  FROM ${accounts} ${a} WHERE ${a.id} = ANY (ARRAY(SELECT account_id FROM requested)) AND ${lockTimeout}
  ORDER BY ${a.id} FOR NO KEY UPDATE
), offered AS MATERIALIZED (
  SELECT l.id, sum(q.amount_nano)::bigint AS amount_nano FROM locked l JOIN requested q ON q.account_id = l.id
  WHERE l.is_open AND ${isAlive} AND l.budgets_version = (SELECT ${v.budgets_version} FROM ${accounts} ${v} WHERE ${v.id} = l.id)
  GROUP BY l.id, l.available_nano
  HAVING bool_and((q.is_allowed AND coalesce(q.own_bp, l.price_multiplier_bp) = ${requested_bp}) IS TRUE)
    AND l.available_nano >= sum(q.amount_nano)
), sold AS MATERIALIZED (
  SELECT q.* FROM requested q JOIN offered o ON o.id = q.account_id
), matched AS MATERIALIZED (
  SELECT b.id, ${member} AS member, b.account_id, b.period, b.is_hard, ${amountAt(sql`now()`)} AS amount, ${windowStart(sql`now()`)} AS since,
    sum(${needed})::bigint AS needed
  FROM ${withBudgets(sql`sold s`, sql`s.terms_id`)} GROUP BY b.id, 2
), ${lockWindows(sql`x.since <= now() AND (NOT m.is_hard OR m.amount - x.spent - x.held >= m.needed)`, sql`x.spent`, sql`x.held + m.needed`)}, limits AS MATERIALIZED (
  SELECT ${k.id}, ${k.account_id}, ${k.spend_period}, ${k.spend_limit_nano}, ${k.spent_since}, ${k.spent_nano}
  FROM ${keys} ${k} WHERE ${k.id} = ANY (ARRAY(SELECT key_id FROM sold)) AND (SELECT count(*) FROM counters) >= 0
  ORDER BY ${k.id} FOR NO KEY UPDATE
), spending AS MATERIALIZED (
  SELECT r.id, r.account_id, sum(s.amount_nano)::bigint AS spent_nano, r.spent_since <= now() AND ${periodStart(locked_key)} = r.spent_since
    AND r.spend_limit_nano - r.spent_nano >= sum(s.amount_nano) AS fits
  FROM limits r JOIN sold s ON s.key_id = r.id WHERE r.spend_limit_nano IS NOT NULL
  GROUP BY r.id, r.account_id, r.spend_period, r.spend_limit_nano, r.spent_since, r.spent_nano
), fitting AS MATERIALIZED (
  SELECT o.* FROM offered o WHERE o.id NOT IN (
    SELECT account_id FROM windows WHERE fits IS NOT TRUE UNION ALL SELECT account_id FROM spending WHERE fits IS NOT TRUE)
), inserted AS (
  INSERT INTO ${holds} (${names(...limited_columns, holds.group_path, holds.price_multiplier_bp, holds.gateway_id, holds.held_at)})
  SELECT ${allOf("q", ...limited_columns)}, q.group_path, nullif(${requested_bp}, ${par}), $2::uuid, now() FROM sold q
  WHERE (q.account_id IN (SELECT id FROM fitting)) IS TRUE
  ORDER BY q.id RETURNING ${names(holds.amount_nano)}
), moved AS (
  UPDATE ${accounts} ${a} SET ${names(accounts.held_nano)} = ${a.held_nano} + f.amount_nano FROM fitting f
  WHERE ${a.id} = f.id AND ${a.id} = ANY (ARRAY(SELECT id FROM fitting)) RETURNING ${a.id}, f.amount_nano
), ${writeWindows}, ${writeSpending}
SELECT count(*)::int AS accounts,
  CASE WHEN count(*) < (SELECT count(DISTINCT account_id) FROM requested) THEN array_agg(id)::text END AS only,
  1 / (count(*) = (SELECT count(*) FROM fitting) AND coalesce(sum(amount_nano), 0) = (SELECT coalesce(sum(amount_nano), 0) FROM inserted))::int AS whole,
  ${countedWhole}
FROM moved`,
  true,
)

export function limitedValues(limited: readonly Hold[], gateway_id: string, lock_ms: number): string[] {
  return [String(lock_ms), gateway_id, ...limited_batch.values(limited)]
}

/**
 * Holds a batch under the gateway's row, with results in the order of the holds. Waits at most `lock_ms` for each lock.
 * The exact statement takes what the other ones skip, and holds with an `Idempotency-Key`. Together they take at most
 * `STATEMENT_MS`, but each gets at least half of it. `known` is what earlier holds returned about accounts, and may be
 * out of date. Each statement checks the price multiplier (D69) and which accounts it may take. The exact one updates
 * `known`.
 */
export async function holdBatch(
  connection: Runner,
  gateway_id: string,
  batch: readonly Hold[],
  lock_ms: number,
  known: KnownAccounts = new Map(),
): Promise<readonly HoldAttempt[]> {
  const until = performance.now() + STATEMENT_MS
  const withinMs = () => Math.max(until - performance.now(), STATEMENT_MS / 2)
  const planned = batch.map((hold) => planHold(hold, known.get(hold.account_id)))
  const held = new Map<Hold, HoldAttempt>()
  const hold = async (form: Form, run: (holds: readonly Hold[]) => Promise<DoneAccounts>) => {
    const holds = planned.filter((one) => one.form === form)
    if (holds.length === 0) return
    const done = await run(holds.map(({ priced }) => priced))
    for (const one of holds) if (done.has(one.hold.account_id)) held.set(one.hold, heldResult(one))
  }
  try {
    await hold("lean", (holds) => heldAccounts(connection, gateway_id, holds, lock_ms))
    await hold("limited", (holds) => {
      const whole = () => ({ statement: holdLimited, values: limitedValues(holds, gateway_id, lock_ms) })
      return runLean(connection, holds.length, withinMs(), null, whole)
    })
    const rest = batch.filter((one) => !held.has(one))
    if (rest.length > 0) {
      const results = await holdExactly(connection, gateway_id, rest, lock_ms, withinMs())
      for (const [at, one] of rest.entries()) {
        const result = results[at] ?? CONFLICT
        held.set(one, result)
        remember(known, one.account_id, result)
      }
    }
  } catch (error) {
    // Earlier statements have committed, so the batch must not count as rolled back.
    throw held.size > 0 ? new Uncertain(error) : error
  }
  return batch.map((one) => held.get(one) ?? CONFLICT)
}

/** The statement that is tried first: the cheapest that can hold. */
type Form = "lean" | "limited" | "exact"

interface PlannedHold {
  readonly hold: Hold
  /** The hold at the price multiplier that is known. */
  readonly priced: Hold
  readonly form: Form
}

/** Decided once, because another batch may change `known` while this one waits. */
function planHold(hold: Hold, known: KnownAccount | undefined): PlannedHold {
  const priced = known === undefined ? hold : atMultiplier(hold, known.price_multiplier_bp)
  if (hold.idempotency !== null || known?.is_rated === true) return { hold, priced, form: "exact" }
  return {
    hold,
    priced,
    form: hold.is_limited === true || known?.is_limited === true ? "limited" : "lean",
  }
}

/**
 * An account's price multiplier and limits. `is_rated`: it has budgets per minute, which only the exact statement
 * counts.
 */
type KnownAccount = Pick<Hold, "price_multiplier_bp" | "is_limited"> & { readonly is_rated?: boolean }

/** Accounts as the exact statement last returned them. Those with a price multiplier of 1 and no limits are not kept. */
export type KnownAccounts = Map<string, KnownAccount>

/** Maximum number of accounts; the oldest are dropped. */
const KNOWN_LIMIT = 50_000

/** Remembers an account from the outcomes that have its price multiplier and limits. */
function remember(known: KnownAccounts, account_id: string, held: HoldAttempt): void {
  if (
    held.outcome !== "held" &&
    held.outcome !== "spending_limit_reached" &&
    held.outcome !== "budget_reached"
  )
    return
  const { price_multiplier_bp } = held
  const is_limited = held.outcome === "held" ? held.is_limited : true
  const is_rated = "rates" in held
  known.delete(account_id)
  if (price_multiplier_bp === undefined && is_limited !== true) return
  for (const oldest of known.keys()) {
    if (known.size < KNOWN_LIMIT) break
    known.delete(oldest)
  }
  known.set(account_id, {
    ...(price_multiplier_bp !== undefined && { price_multiplier_bp }),
    ...(is_limited && { is_limited }),
    ...(is_rated && { is_rated }),
  })
}

const HELD: HoldAttempt = { outcome: "held" }

function heldResult({ priced: { price_multiplier_bp }, form }: PlannedHold): HoldAttempt {
  if (form === "lean" && price_multiplier_bp === undefined) return HELD
  return {
    outcome: "held",
    ...(price_multiplier_bp !== undefined && { price_multiplier_bp }),
    ...(form === "limited" && { is_limited: true }),
  }
}

const CONFLICT: HoldAttempt = { outcome: "conflict" }
function heldAccounts(connection: Runner, gateway_id: string, lean: readonly Hold[], lock_ms: number) {
  const [first] = lean
  const short =
    first !== undefined && lean.every((hold) => isAlike(hold, first))
      ? { statement: holdOneKey, values: oneKeyValues(first, lean, gateway_id, lock_ms) }
      : null
  const whole = () => ({ statement: holdLean, values: leanValues(lean, gateway_id, lock_ms) })
  return runLean(connection, lean.length, STATEMENT_MS, short, whole)
}

function isAlike(hold: Hold, other: Hold): boolean {
  return (
    hold.key_id === other.key_id &&
    hold.account_id === other.account_id &&
    hold.terms_id === other.terms_id &&
    hold.labels_version === other.labels_version &&
    hold.price_multiplier_bp === other.price_multiplier_bp
  )
}

/** The values of `holdOneKey`; `lean` are alike, and `first` is one of them. */
export function oneKeyValues(first: Hold, lean: readonly Hold[], gateway_id: string, lock_ms: number) {
  const amount_nano = lean.reduce((sum, hold) => sum + hold.amount_nano, 0n)
  return [
    String(lock_ms),
    gateway_id,
    first.account_id,
    first.key_id,
    String(first.terms_id),
    String(amount_nano),
    String(first.price_multiplier_bp ?? PAR_BP),
    String(first.labels_version ?? 0),
    ...own.values(lean),
  ]
}

export function leanValues(lean: readonly Hold[], gateway_id: string, lock_ms: number): string[] {
  const totals = new Map<string, bigint>()
  const multipliers = new Map<string, number>()
  const uses = new Map<string, Hold>()
  for (const hold of lean) {
    totals.set(hold.account_id, (totals.get(hold.account_id) ?? 0n) + hold.amount_nano)
    multipliers.set(hold.account_id, hold.price_multiplier_bp ?? PAR_BP)
    uses.set(`${hold.key_id}${hold.terms_id} ${hold.labels_version ?? 0}`, hold)
  }
  const owners = [...totals.keys()]
  const keys = [...uses.values()]
  return [
    String(lock_ms),
    gateway_id,
    arrayOf(owners, (id) => id),
    arrayOf([...totals.values()], (amount) => amount),
    arrayOf(keys, (hold) => hold.account_id),
    arrayOf(keys, (hold) => hold.key_id),
    arrayOf(keys, (hold) => hold.terms_id),
    arrayOf([...multipliers.values()], (price_multiplier_bp) => price_multiplier_bp),
    arrayOf(keys, (hold) => hold.labels_version ?? 0),
    ...batch.values(lean),
  ]
}
