import { getTableColumns, getTableName, type SQL, sql } from "drizzle-orm"
import { alias, type PgColumn, type PgTable } from "drizzle-orm/pg-core"
import { allOf, names, of } from "../database/statement.ts"
import { countedIn } from "../money/budgets.ts"
import { hasNoChange, isImmediate } from "../money/grants.ts"
import { claimLasts } from "../money/idempotency-claims.ts"
import { carriedOf, idsSince, periodStart, spentHere, spentIn } from "../money/spending.ts"
import { a, b, c, e, g, h, k, n } from "../schema/aliases.ts"
import { budget_crossings, budget_entries, budget_windows, budgets } from "../schema/budgets.ts"
import { answers, idempotency } from "../schema/claims.ts"
import { customer_prices } from "../schema/customer-prices.ts"
import { grant_entries } from "../schema/grants.ts"
import { end_users } from "../schema/labels.ts"
import {
  accounts,
  carried_spending,
  corrections,
  credits,
  ends,
  gateways,
  holds,
  keys,
} from "../schema/tables.ts"

/** Each changes one database (D76), and does nothing if it was done, or if the move has come further. */
export interface Move {
  readonly account_id: string
  readonly move_id: string
  readonly from: string
  readonly to: string
}

const i = alias(idempotency, "i")
const w = alias(answers, "w")
const u = alias(end_users, "u")
const y = alias(credits, "y")

/** Claims, end users and answers that one step copies. An answer may have 1 MiB. */
const CLAIMS = sql.raw("200")
const USERS = sql.raw("1000")
const ANSWERS = sql.raw("8")

/** Limits the wait for a lock. Then the statement fails, and the move can be continued. */
const in_time = sql.raw(`set_config('lock_timeout', '5000', true) IS NOT NULL`)

export const row = (account_id: string) => sql`
  SELECT ${a.moved_to}, ${a.moving_to}, ${a.moving_id}, ${a.held_nano}::text AS held_nano, now()::text AS at
  FROM ${accounts} ${a} WHERE ${a.id} = ${account_id}::uuid`

/** Marks the account as moving, so that holds and changes are refused, unless another move has marked it. */
export const mark = ({ account_id, move_id, to }: Move) => sql`
  UPDATE ${accounts} ${a} SET (${names(accounts.moving_to, accounts.moving_id)}) = (${to}::text, ${move_id}::uuid)
  WHERE ${a.id} = ${account_id}::uuid AND ${a.moved_to} IS NULL AND ${a.moving_to} IS NULL AND ${in_time}`

/** Makes the account live again on its old shard, unless the move has switched. */
export const unmark = (account_id: string) => sql`
  UPDATE ${accounts} ${a} SET (${names(accounts.moving_to, accounts.moving_id)}) = (NULL, NULL)
  WHERE ${a.id} = ${account_id}::uuid AND ${a.moved_to} IS NULL AND ${a.moving_to} IS NOT NULL AND ${in_time}
  RETURNING ${a.id}`

/** Makes or reuses the account's row on its new shard, not live yet. No row if a newer move or a live account is there. */
export const prepare = ({ account_id, move_id, from, to }: Move) => sql`
  WITH earlier AS MATERIALIZED (
    SELECT ${a.moving_id} FROM ${accounts} ${a} WHERE ${a.id} = ${account_id}::uuid AND ${in_time} FOR NO KEY UPDATE
  ), prepared AS (
    INSERT INTO ${accounts} AS a (${names(accounts.id, accounts.name, accounts.moved_to, accounts.moving_to, accounts.moving_id)})
    SELECT ${account_id}::uuid, '', ${from}::text, ${to}::text, ${move_id}::uuid WHERE (SELECT count(*) FROM earlier) >= 0
    ON CONFLICT (id) DO UPDATE SET (${names(accounts.moved_to, accounts.moving_to, accounts.moving_id)})
      = (${from}::text, ${to}::text, ${move_id}::uuid)
    WHERE ${a.moved_to} IS NOT NULL AND (${a.moving_id} IS NULL OR ${a.moving_id} <= ${move_id}::uuid)
    RETURNING ${a.id}
  ), cleared AS (
    DELETE FROM ${idempotency} ${i} WHERE ${i.account_id} = (SELECT id FROM prepared)
      AND EXISTS (SELECT FROM earlier WHERE earlier.moving_id IS DISTINCT FROM ${move_id}::uuid)
  )
  SELECT id FROM prepared`

/** The locked account on the new shard; no row once it has arrived, or for another move. */
const arriving = ({ account_id, move_id, from }: Move) => sql`arriving AS MATERIALIZED (
    SELECT ${a.id} FROM ${accounts} ${a} WHERE ${a.id} = ${account_id}::uuid AND ${a.moving_id} = ${move_id}::uuid
      AND ${a.moved_to} = ${from}::text AND ${in_time} FOR NO KEY UPDATE
  )`

const populated = (table: PgTable, text: SQL) => sql`json_populate_recordset(null::${table}, ${text})`

/** Copies the key hashes, which never change, so that the new shard can resolve a key before the old one stops. */
export const copyHashes = (move: Move, picture: string) => sql`
  WITH ${arriving(move)}
  INSERT INTO ${keys} (${names(keys.id, keys.account_id, keys.hash, keys.prefix)})
  SELECT p.id, p.account_id, p.hash, p.prefix FROM ${populated(keys, sql`${picture}::text::json->'keys'`)} p, arriving
  ON CONFLICT (id) DO UPDATE SET ${names(keys.hash)} = excluded.hash`

/** True if the account has an open call, also one that holds nothing. Calls before every floor count in the held amount. */
export const openCalls = (account_id: string) => sql`
  SELECT EXISTS (
    SELECT FROM ${holds} ${h} WHERE ${h.account_id} = ${account_id}::uuid
      AND ${h.id} >= (SELECT min(${g.floor_id}::text)::uuid FROM ${gateways} ${g} WHERE ${g.swept_at} IS NULL)
      AND NOT EXISTS (SELECT FROM ${ends} ${e} WHERE ${e.id} = ${h.id})) AS open`

/** Everything that moves but money, claims and answers, as of `at` or now: a JSON text, equal in both shards after the copy. */
export const picture = (account_id: string, at?: string) => {
  const id = sql`${account_id}::uuid`
  const moment = at === undefined ? sql`now()` : sql`${at}::timestamptz`
  const month = sql`date_trunc('month', ${moment}, 'UTC')`
  const day = sql`date_trunc('day', ${moment}, 'UTC')`
  const of_account = copied.map((column) => sql`${sql.raw(`'${column.name}'`)}, ${of("a", column)}`)
  const spent = sql`coalesce(${c.charge_nano}, ${e.charge_nano}, ${h.amount_nano})`
  return sql`
  WITH here AS MATERIALIZED (
    SELECT ${h.key_id}, sum(${spent}) AS month, sum(${spent}) FILTER (WHERE ${h.held_at} >= ${day}) AS day
    FROM ${holds} ${h} LEFT JOIN ${ends} ${e} ON ${e.id} = ${h.id} LEFT JOIN ${corrections} ${c} ON ${c.id} = ${h.id}
    WHERE ${h.account_id} = ${id} AND ${h.held_at} >= ${month} AND ${h.id} >= ${idsSince(month)}
    GROUP BY ${h.key_id}
  )
  SELECT jsonb_build_object(
    'accounts', (SELECT jsonb_agg(jsonb_build_object('id', ${a.id}, ${sql.join(of_account, sql`, `)}))
      FROM ${accounts} ${a} WHERE ${a.id} = ${id}),
    'keys', (SELECT coalesce(jsonb_agg(to_jsonb(k) - 'last_used_at' || jsonb_build_object('spent_since', ${periodStart(k, moment)},
        'spent_nano', ${spentIn(k, moment)}) ORDER BY ${k.id}), '[]') FROM ${keys} ${k} WHERE ${k.account_id} = ${id}),
    'spent', (SELECT coalesce(jsonb_agg(jsonb_build_object('key_id', ${k.id}, 'period', p.period, 'since', p.since,
        'spent_nano', coalesce(CASE p.period WHEN 'day' THEN here.day ELSE here.month END, 0)
          + ${carriedOf({ id: sql`${k.id}`, since: sql`p.since`, period: sql`p.period` })}) ORDER BY ${k.id}, p.period), '[]')
      FROM ${keys} ${k} CROSS JOIN (VALUES ('day', ${day}), ('month', ${month})) p (period, since)
        LEFT JOIN here ON here.key_id = ${k.id} WHERE ${k.account_id} = ${id}),
    'budgets', ${rowsOf(budgets, id, "id")}, 'windows', ${rowsOf(budget_windows, id, "id, member", ["carried"])},
    'budget_entries', ${rowsOf(budget_entries, id, "id", ["xid"])},
    'customer_prices', ${rowsOf(customer_prices, id, "id")},
    'budget_crossings', ${rowsOf(budget_crossings, id, "budget_id, member, since, percent", ["xid"])},
    'claims', (SELECT jsonb_build_array(count(*), sum(hashtextextended(concat(${i.key_hash}, ${i.body_hash}, ${i.call_id}), 0)))
      FROM ${idempotency} ${i} WHERE ${i.account_id} = ${id} AND ${i.claimed_at} > ${moment} - ${claimLasts})
    )::text AS picture, ${moment}::text AS at,
    (SELECT coalesce(json_object_agg(${k.id}, ${k.last_used_at}), '{}')::text FROM ${keys} ${k}
      WHERE ${k.account_id} = ${id} AND ${k.last_used_at} IS NOT NULL) AS used,
    EXISTS (SELECT FROM ${accounts} ${a} WHERE ${a.id} = ${id} AND ${a.moved_to} IS NULL) AS is_here`
}

function rowsOf(table: PgTable, account_id: SQL, order: string, without: readonly string[] = []): SQL {
  const less = sql.raw(without.map((name) => ` - '${name}'`).join(""))
  return sql`(SELECT coalesce(jsonb_agg(to_jsonb(x)${less} ORDER BY ${sql.raw(order)}), '[]') FROM ${table} x WHERE x.account_id = ${account_id})`
}

const key_columns = Object.values(getTableColumns(keys))
const copied = [
  accounts.name,
  accounts.external_id,
  accounts.created_at,
  accounts.suspended_at,
  accounts.price_multiplier_bp,
  accounts.credit_limit_nano,
  accounts.low_balance_nano,
  accounts.is_balance_low,
  accounts.may_manage_keys,
  accounts.is_limited,
] as const
const carried = Object.values(getTableColumns(carried_spending))
const budget_columns = Object.values(getTableColumns(budgets))
const window_columns = Object.values(getTableColumns(budget_windows)).filter(
  ({ name }) => name !== budget_windows.carried.name,
)
const replacing = (columns: readonly PgColumn[]) =>
  sql`DO UPDATE SET (${names(...columns)}) = (${allOf("excluded", ...columns)})`

/**
 * Writes the state that was read. A key's `spent_nano` elsewhere is its spending less the charges of its calls on this
 * shard, which has some if the account was here before. `carried` of a budget is computed in the same way.
 */
export const copy = (move: Move, picture: string, used: string) => {
  const part = (name: string) => sql`(SELECT text FROM picture)::json->${sql.raw(`'${name}'`)}`
  const added = (table: PgTable) => sql`
    INSERT INTO ${table} SELECT p.* FROM ${populated(table, part(getTableName(table)))} p, arriving ON CONFLICT DO NOTHING`
  const others = key_columns.filter(({ name }) => name !== keys.id.name)
  const unread = key_columns.filter(({ name }) => name !== keys.last_used_at.name)
  const here = spentHere({ id: sql`p.key_id`, account_id: sql`arriving.id`, since: sql`p.since` })
  return sql`
  WITH picture AS MATERIALIZED (SELECT ${picture}::text AS text), ${arriving(move)}, told AS (
    UPDATE ${accounts} ${a} SET (${names(...copied, accounts.budgets_version)}) = (${allOf("p", ...copied)}, ${a.budgets_version} + 1)
    FROM ${populated(accounts, part("accounts"))} p, arriving WHERE ${a.id} = arriving.id
  ), keyed AS (
    INSERT INTO ${keys} (${names(...unread, keys.last_used_at)})
    SELECT ${allOf("p", ...unread)}, (${used}::text::json->>p.id::text)::timestamptz
    FROM ${populated(keys, part("keys"))} p, arriving
    ON CONFLICT (id) DO UPDATE SET (${names(...others)}) = (${allOf("excluded", ...others)})
  ), removed AS (
    DELETE FROM ${budgets} ${b} USING arriving WHERE ${b.account_id} = arriving.id
      AND ${b.id} NOT IN (SELECT p.id FROM ${populated(budgets, part("budgets"))} p)
  ), removed_windows AS (
    DELETE FROM ${budget_windows} x USING arriving WHERE x.account_id = arriving.id
      AND (x.id, x.member) NOT IN (SELECT p.id, p.member FROM ${populated(budget_windows, part("windows"))} p)
  ), budgeted AS (
    INSERT INTO ${budgets} (${names(...budget_columns)})
    SELECT ${allOf("p", ...budget_columns)} FROM ${populated(budgets, part("budgets"))} p, arriving
    ON CONFLICT (id) ${replacing(budget_columns)}
  ), windowed AS (
    INSERT INTO ${budget_windows} (${names(...window_columns, budget_windows.carried)})
    SELECT ${allOf("p", ...window_columns)}, p.spent - counted.spent
    FROM arriving, ${populated(budgets, part("budgets"))} b CROSS JOIN LATERAL ${countedIn(populated(budget_windows, part("windows")))} counted
      JOIN ${populated(budget_windows, part("windows"))} p ON p.id = b.id AND p.member = counted.member
    ON CONFLICT (id, member) ${replacing([...window_columns, budget_windows.carried])}
  ), noted AS (${added(budget_entries)}), priced AS (${added(customer_prices)}), crossed AS (${added(budget_crossings)})
  INSERT INTO ${carried_spending} AS m (${names(...carried)})
  SELECT p.key_id, p.period, p.since, p.spent_nano - ${here} FROM ${populated(carried_spending, part("spent"))} p, arriving
  ON CONFLICT (key_id, period) DO UPDATE SET (${names(carried_spending.since, carried_spending.spent_nano)})
    = (excluded.since, excluded.spent_nano)`
}

/** The next claims that still count, in the order of their hashes, and the ids of their calls. */
export const claimsAfter = (account_id: string, after: string) => sql`
  SELECT json_agg(x)::text AS rows, max(x.key_hash) AS last, array_agg(x.call_id)::text AS call_ids FROM (
    SELECT ${i}.* FROM ${idempotency} ${i} WHERE ${i.account_id} = ${account_id}::uuid AND ${i.key_hash} > ${after}
      AND ${i.claimed_at} > now() - ${claimLasts} ORDER BY ${i.key_hash} LIMIT ${CLAIMS}) x`

/** Inserts copied rows, of which `conflict` says what happens to those that are there. */
function inserting(
  move: Move,
  table: PgTable,
  columns: readonly PgColumn[],
  rows: string,
  conflict: SQL,
): SQL {
  return sql`
  WITH ${arriving(move)}
  INSERT INTO ${table} (${names(...columns)})
  SELECT ${allOf("p", ...columns)} FROM ${populated(table, sql`${rows}::text::json`)} p, arriving
  ON CONFLICT ${conflict}`
}

const claim_columns = Object.values(getTableColumns(idempotency))

export const copyClaims = (move: Move, rows: string) =>
  inserting(
    move,
    idempotency,
    claim_columns,
    rows,
    sql`ON CONSTRAINT idempotency_pkey ${replacing(claim_columns.slice(2))}`,
  )

/** The next kept answers of these calls, in the order of their ids. */
export const answersAfter = (call_ids: string, after: string) => sql`
  SELECT json_agg(x)::text AS rows, max(x.call_id::text) AS last FROM (
    SELECT ${w}.* FROM ${answers} ${w} WHERE ${w.call_id} = ANY (${call_ids}::uuid[]) AND ${w.call_id} > ${after}::uuid
      AND ${w.expires_at} > now() ORDER BY ${w.call_id} LIMIT ${ANSWERS}) x`

export const copyAnswers = (move: Move, rows: string) =>
  inserting(move, answers, Object.values(getTableColumns(answers)), rows, sql`(call_id) DO NOTHING`)

/** The next end users, in the order of their ids (D94). */
export const usersAfter = (account_id: string, after: string) => sql`
  SELECT json_agg(x)::text AS rows, max(x.id::text) AS last FROM (
    SELECT ${u}.* FROM ${end_users} ${u} WHERE ${u.account_id} = ${account_id}::uuid AND ${u.id} > ${after}::uuid
    ORDER BY ${u.id} LIMIT ${USERS}) x`

/** Copies end users, so that budgets and reports know them by the same ids. */
export const copyUsers = (move: Move, rows: string) => {
  const { xid: _, ...others } = getTableColumns(end_users)
  const replaced = replacing([end_users.subject, end_users.forgotten_at])
  const conflict = sql`(id) ${replaced} WHERE ${end_users.forgotten_at} IS NULL`
  return inserting(move, end_users, Object.values(others), rows, conflict)
}

/** Applies the due changes of the account's grants (D95), so that it can be switched. */
export const changeGrants = ({ account_id }: Move) => sql`SELECT tollgate.change_grants(${account_id}::uuid)`

/** Takes all money off the old shard, with the account or after it. */
function leave(move: Move, credit_id: string, is_switch: boolean): SQL {
  const { account_id, move_id, to } = move
  const condition = is_switch
    ? sql`${a.moved_to} IS NULL AND ${a.held_nano} = 0 AND ${hasNoChange}`
    : sql`${a.moved_to} = ${to}::text AND ${a.balance_nano} <> 0`
  return sql`left_here AS MATERIALIZED (
    SELECT ${a.id}, ${a.balance_nano} FROM ${accounts} ${a} WHERE ${a.id} = ${account_id}::uuid
      AND ${a.moving_id} = ${move_id}::uuid AND ${a.moving_to} = ${to}::text AND ${condition} AND ${in_time} FOR NO KEY UPDATE
  ), gone AS (
    INSERT INTO ${credits} (${names(credits.id, credits.account_id, credits.amount_nano, credits.reason, credits.kind)})
    SELECT ${credit_id}::uuid, l.id, -l.balance_nano, ${`Moved to shard ${to}`}::text, 'moved' FROM left_here l
  )`
}

/** The one statement that decides where the account is. Its keys stay, for reports, but no hash finds them. */
export const switchOver = (move: Move) => sql`
  WITH ${leave(move, move.move_id, true)}, silenced AS (
    UPDATE ${keys} ${k} SET (${names(keys.hash, keys.previous_hash, keys.previous_until)}) = ('moved ' || ${k.id}::text, NULL, NULL)
    FROM left_here l WHERE ${k.account_id} = l.id
  ), cleared AS (
    DELETE FROM ${idempotency} ${i} USING left_here l WHERE ${i.account_id} = l.id
  )
  UPDATE ${accounts} ${a} SET (${names(accounts.balance_nano, accounts.moved_to, accounts.next_change_at)})
    = (${a.balance_nano} - l.balance_nano, ${move.to}::text, CASE WHEN ${a.next_change_at} IS NOT NULL THEN 'infinity'::timestamptz END)
  FROM left_here l WHERE ${a.id} = l.id AND (${a.next_change_at} IS NULL OR tollgate.leave_grants(l.id, ${move.move_id}::uuid))
  RETURNING ${a.id}`

/** Takes the money that late settlements left on the old shard. */
export const leaveRest = (move: Move, credit_id: string) => sql`
  WITH ${leave(move, credit_id, false)}
  UPDATE ${accounts} ${a} SET ${names(accounts.balance_nano)} = ${a.balance_nano} - l.balance_nano
  FROM left_here l WHERE ${a.id} = l.id RETURNING (-l.balance_nano)::text AS amount_nano`

/** The amount that has left with this credit; no row if it was not made. */
export const leftWith = (credit_id: string) => sql`
  SELECT ${credits.amount_nano}::text AS amount_nano FROM ${credits} WHERE ${credits.id} = ${credit_id}::uuid`

/** The grants that have left with this credit, as a JSON array in the order of their age; null if there were none. */
export const grantsWith = (credit_id: string) => sql`
  SELECT json_agg(json_build_object('amount_nano', ${n.amount_nano}, 'kind', ${y.kind}, 'priority', ${y.priority}, 'expires_at', ${y.expires_at},
    'made_at', ${y.created_at}, 'starts_at', CASE WHEN ${isImmediate(y)} OR EXISTS (
      SELECT FROM ${grant_entries} s WHERE s.account_id = ${n.account_id} AND s.credit_id = ${n.credit_id} AND s.change = 'started')
      THEN NULL ELSE ${y.effective_at} END) ORDER BY ${y.created_at}, ${y.id})::text AS grants
  FROM ${grant_entries} ${n} JOIN ${credits} ${y} ON ${y.id} = ${n.credit_id}
  WHERE ${n.cause_id} = ${credit_id}::uuid AND ${n.change} = 'moved'`

/** Adds the same money on the new shard, once, by the credit's id. */
export const arrive = (
  { account_id, from }: Move,
  credit_id: string,
  amount_nano: bigint,
  grants: string | null,
) => sql`
  SELECT tollgate.arrive_grants(${account_id}::uuid, ${credit_id}::uuid, ${amount_nano.toString()}::numeric,
    ${`Moved from shard ${from}`}::text, ${grants}::text::json) WHERE ${in_time}`

/** Makes the account live at its new shard, if its money is there. */
export const open = (move: Move, credit_id: string) => sql`
  UPDATE ${accounts} ${a} SET (${names(accounts.moved_to, accounts.moving_to)}) = (NULL, NULL)
  WHERE ${a.id} = ${move.account_id}::uuid AND ${a.moving_id} = ${move.move_id}::uuid AND ${a.moved_to} = ${move.from}::text
    AND EXISTS (SELECT FROM ${credits} WHERE ${credits.id} = ${credit_id}::uuid) AND ${in_time}`
