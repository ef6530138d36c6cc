import { inArray, type SQL, type SQLWrapper, sql } from "drizzle-orm"
import { alias } from "drizzle-orm/pg-core"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { spentSince } from "../accounts/spending.ts"
import { accounts, corrections, credits, ends, gateways, holds, keys, terms } from "../schema.ts"
import { chargeOf } from "./charge.ts"
import type { SpooledEnd } from "./spool.ts"

/**
 * What is wrong, and what was expected instead.
 * - `balance`, `held`: what an account's row says, and what its entries sum up to.
 * - `spent`: what a spending limit has counted, and what the calls of its period hold and cost.
 * - `charge`: what a call was charged, and its tokens at its terms and margin.
 * - `entry`: an end or a correction that does not fit its hold.
 * - `abandoned`: an open hold that no gateway can end any more (D73), and its amount.
 * - `unheld`: a settlement without a hold, and its charge. It is in the spool; the journal knows nothing of it (D13).
 */
export interface Violation {
  readonly kind: "balance" | "held" | "spent" | "charge" | "entry" | "abandoned" | "unheld"
  readonly account_id: string
  /** The key for `spent`; the call for `charge`, `entry`, `abandoned` and `unheld`; null for an account. */
  readonly id: string | null
  /** Null for entries of an account that does not exist. */
  readonly recorded_nano: bigint | null
  readonly expected_nano: bigint | null
}

export interface Audit {
  readonly checked_at: Date
  readonly accounts: number
  readonly open_holds: number
  readonly violations: readonly Violation[]
}

/** How many violations of a kind one audit lists. */
export const MAX_VIOLATIONS = 1_000
/** How long one check may take. */
const STATEMENT_MS = 55_000

const a = alias(accounts, "a")
const k = alias(keys, "k")
const h = alias(holds, "h")
const e = alias(ends, "e")
const c = alias(corrections, "c")
const t = alias(terms, "t")
const g = alias(gateways, "g")

/**
 * Recomputes every account, key and call from the entries. All checks read one snapshot, so calls that are held or
 * settled meanwhile do not disturb it.
 */
export async function audit(database: PostgresJsDatabase): Promise<Audit> {
  return database.transaction(
    async (transaction) => {
      await transaction.execute(sql`SELECT set_config('max_parallel_workers_per_gather', '0', true),
        set_config('statement_timeout', ${String(STATEMENT_MS)}, true)`)
      const [summary] = await transaction.execute<Summary>(counts)
      if (summary === undefined) throw new Error("the audit returned nothing")
      const violations: Violation[] = []
      for (const check of [sumsOfAccounts, spentByKeys, entriesWithoutHold(EVER), charges(EVER), abandoned]) {
        const rows = await transaction.execute<Row>(sql`${check} LIMIT ${MAX_VIOLATIONS}`)
        violations.push(...rows.map(violationOf))
      }
      return {
        checked_at: new Date(summary.checked_at),
        accounts: Number(summary.accounts),
        open_holds: Number(summary.open_holds),
        violations,
      }
    },
    { isolationLevel: "repeatable read", accessMode: "read only" },
  )
}

/** The calls whose ids are at or above `from_id` and below `to_id`. */
export interface Ids {
  readonly from_id: string
  readonly to_id: string
}

/** Whether the ends and corrections of these calls fit their holds and their terms. */
export async function areRight(transaction: Pick<PostgresJsDatabase, "execute">, ids: Ids): Promise<boolean> {
  const checks = [entriesWithoutHold, charges].map((check) => check((id) => within(id, ids)))
  for (const check of checks) if ((await transaction.execute(sql`${check} LIMIT 1`)).length > 0) return false
  return true
}

/** Each table has its own condition, because the planner leaves months out of a table only by a condition on its id. */
export const within = (id: SQLWrapper, { from_id, to_id }: Ids): SQL =>
  sql`(${id} >= ${from_id}::uuid AND ${id} < ${to_id}::uuid)`

type Calls = (id: SQLWrapper) => SQL
const EVER: Calls = () => sql`true`

/** For a settlement whose hold is unknown. */
const UNKNOWN_ACCOUNT = "00000000-0000-0000-0000-000000000000"

/** A settlement without a hold, as the audit shows it. */
export function unheldViolation({ account_id, end }: SpooledEnd): Violation {
  return {
    kind: "unheld",
    account_id: account_id === "" ? UNKNOWN_ACCOUNT : account_id,
    id: end.id,
    recorded_nano: end.charge_nano,
    expected_nano: null,
  }
}

/** Which of these settlements have no hold. */
export async function findUnheld(
  database: PostgresJsDatabase,
  spooled: readonly SpooledEnd[],
): Promise<readonly Violation[]> {
  const ids = spooled.map(({ end }) => end.id)
  const rows = await database.select({ id: holds.id }).from(holds).where(inArray(holds.id, ids))
  const held = new Set(rows.map(({ id }) => id))
  return spooled.filter(({ end }) => !held.has(end.id)).map(unheldViolation)
}

interface Summary extends Record<string, unknown> {
  readonly checked_at: string
  readonly accounts: string
  readonly open_holds: string
}

interface Row extends Record<string, unknown> {
  readonly kind: Violation["kind"]
  readonly account_id: string
  readonly id: string | null
  readonly recorded: string | null
  readonly expected: string | null
}

function violationOf({ kind, account_id, id, recorded, expected }: Row): Violation {
  return { kind, account_id, id, recorded_nano: nano(recorded), expected_nano: nano(expected) }
}

function nano(text: string | null): bigint | null {
  return text === null ? null : BigInt(text)
}

const counts = sql`
  SELECT now() AS checked_at, (SELECT count(*) FROM ${accounts}) AS accounts,
    (SELECT count(*) FROM ${holds}) - (SELECT count(*) FROM ${ends}) AS open_holds`

/** Entries without an account are a violation even where they sum up to nothing. */
const sumsOfAccounts = sql`
  WITH entry AS (
    SELECT account_id, amount_nano AS balance, 0::bigint AS held FROM ${credits}
    UNION ALL SELECT account_id, 0, amount_nano FROM ${holds}
    UNION ALL SELECT account_id, -charge_nano, -freed_nano FROM ${ends}
    UNION ALL SELECT account_id, -difference_nano, 0 FROM ${corrections}
  ), summed AS MATERIALIZED (
    SELECT account_id, sum(balance) AS balance, sum(held) AS held FROM entry GROUP BY account_id
  )
  SELECT said.kind, coalesce(${a.id}, j.account_id) AS account_id, NULL AS id, said.recorded::text, said.expected::text
  FROM ${accounts} ${a} FULL JOIN summed j ON j.account_id = ${a.id}
  CROSS JOIN LATERAL (
    VALUES ('balance', ${a.balance_nano}, coalesce(j.balance, 0)), ('held', ${a.held_nano}, coalesce(j.held, 0))
  ) AS said (kind, recorded, expected)
  WHERE said.recorded IS DISTINCT FROM said.expected
  ORDER BY 2, 1`

/** What spending limits have counted in the period that they count (D42). */
const spentByKeys = sql`
  SELECT 'spent' AS kind, k.account_id, k.id, k.recorded::text, k.expected::text
  FROM (
    SELECT ${k.account_id}, ${k.id}, ${k.spent_nano} AS recorded,
      ${spentSince({ id: sql`${k.id}`, account_id: sql`${k.account_id}`, since: sql`${k.spent_since}` })} AS expected
    FROM ${keys} ${k} WHERE ${k.spend_limit_nano} IS NOT NULL) k
  WHERE k.recorded <> k.expected ORDER BY k.id`

/** An end frees what its hold held, once, at its margin; a correction follows an expiry and is the difference to it. */
const entriesWithoutHold = (calls: Calls) => sql`
  SELECT 'entry' AS kind, ${e.account_id}, ${e.id}, ${e.freed_nano}::text AS recorded, ${h.amount_nano}::text AS expected
  FROM ${ends} ${e} LEFT JOIN ${holds} ${h} ON ${h.id} = ${e.id} AND ${calls(h.id)}
  WHERE ${calls(e.id)} AND (${h.account_id}, ${h.key_id}, ${h.amount_nano}, ${h.margin_bp})
    IS DISTINCT FROM (${e.account_id}, ${e.key_id}, ${e.freed_nano}, ${e.margin_bp})
  UNION ALL
  SELECT 'entry', ${c.account_id}, ${c.id}, ${c.difference_nano}::text, (${c.charge_nano} - ${e.charge_nano})::text
  FROM ${corrections} ${c} LEFT JOIN ${ends} ${e} ON ${e.id} = ${c.id} AND ${e.outcome} = 'expired' AND ${calls(e.id)}
  WHERE ${calls(c.id)} AND (${e.account_id}, ${e.key_id}, ${e.margin_bp}, ${c.charge_nano} - ${e.charge_nano})
    IS DISTINCT FROM (${c.account_id}, ${c.key_id}, ${c.margin_bp}, ${c.difference_nano})`

/** Open, and below the floor of its gateway, or of a gateway that was swept or is unknown (D35). */
const abandoned = sql`
  SELECT 'abandoned' AS kind, ${h.account_id}, ${h.id}, ${h.amount_nano}::text AS recorded, '0' AS expected
  FROM ${holds} ${h} LEFT JOIN ${gateways} ${g} ON ${g.id} = ${h.gateway_id}
  WHERE (${g.id} IS NULL OR ${g.swept_at} IS NOT NULL OR ${h.id} < ${g.floor_id})
    AND NOT EXISTS (SELECT FROM ${ends} ${e} WHERE ${e.id} = ${h.id})`

type Charged = typeof e | typeof c

/**
 * What an entry must charge (D55). Nothing can be right where reported usage has a prompt that is too small for the terms
 * (D62).
 */
function expectedOf(entry: Charged): SQL {
  return sql`CASE WHEN ${entry.basis} IN ('usage', 'partial') AND ${t.above_tokens} > 0
    AND coalesce(${entry.prompt_tokens}, 0) <= ${t.above_tokens} THEN NULL ELSE ${chargeOf(entry, t)} END`
}

const charges = (calls: Calls) => sql`
  SELECT 'charge' AS kind, x.account_id, x.id, x.recorded::text, x.expected::text FROM (
    SELECT ${e.account_id}, ${e.id}, ${e.charge_nano} AS recorded, ${expectedOf(e)} AS expected
    FROM ${ends} ${e} LEFT JOIN ${terms} ${t} ON ${t.id} = ${e.terms_id} WHERE ${calls(e.id)}
    UNION ALL
    SELECT ${c.account_id}, ${c.id}, ${c.charge_nano}, ${expectedOf(c)}
    FROM ${corrections} ${c} LEFT JOIN ${terms} ${t} ON ${t.id} = ${c.terms_id} WHERE ${calls(c.id)}) x
  WHERE x.recorded IS DISTINCT FROM x.expected`
