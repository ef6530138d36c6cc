import { type SQL, sql } from "drizzle-orm"
import { alias, type PgColumn } from "drizzle-orm/pg-core"
import { NIL_ID } from "../../id.ts"
import { recordOf } from "../../kinds.ts"
import { type GrantSums, grantParts } from "../../wire/credits.ts"
import type { Runner } from "../database/connection.ts"
import { Overdue } from "../database/database-errors.ts"
import { lockTimeout, type Row, statement, textOf } from "../database/statement.ts"
import { a, n } from "../schema/aliases.ts"
import { grant_entries, grant_pins, grants } from "../schema/grants.ts"
import { accounts } from "../schema/tables.ts"

/**
 * Credit grants (D95). An account's balance is one number, and its calls do not name grants. The rest of each grant is
 * computed only when grants change: at a start, an expiry, a void or a new credit. Functions in the database do that
 * under the account's lock (`drizzle/…_credit_grants.sql`): `settle_grants` draws the spending since the last change, in
 * the draw-down order, and `change_grants` applies due changes. No statement moves money of an account with a due
 * change: the lean ones skip the account, and the exact ones return `grants_due`, so that the change is made first.
 */

/** The amount that new calls of the account `a` can hold: the balance and the credit limit, less the open holds. */
export const available = sql`${a.balance_nano} + coalesce(${a.credit_limit_nano}, 0) - ${a.held_nano}`

/** True if no change of the account's grants is due and no money is pinned, so that an end only moves the balance. */
export const hasNoChange = sql`(${a.next_change_at} <= now()) IS NOT TRUE`

const g = alias(grants, "g")

/**
 * True if a change is due. While money is pinned (`-infinity`), the account's row does not have the time of the next
 * change.
 */
export const isDue = sql`CASE WHEN ${a.next_change_at} = '-infinity' THEN EXISTS (SELECT FROM ${grants} ${g} WHERE ${g.account_id} = ${a.id}
    AND coalesce(${g.starts_at}, ${g.voided_at}, ${g.expires_at}) <= now()) ELSE (${a.next_change_at} <= now()) IS TRUE END`

const p = alias(grant_pins, "p")

/** True for a call `s` with pinned money. */
export const hasPin = sql`EXISTS (SELECT FROM ${grant_pins} ${p} WHERE ${p.call_id} = s.id)`

/**
 * The time of the account's next change, after its calls in `s` have ended. A change is due now if a call with pinned
 * money ended, or money came back that may belong to an expired grant. `-infinity` instead of the current time, because
 * Citus refuses that here.
 */
export const changeAfterEnd = sql`CASE WHEN s.is_pinned OR (s.paid_nano < 0 AND ${a.next_change_at} IS NOT NULL) THEN 'epoch'::timestamptz
    ELSE ${a.next_change_at} END`

type DatedCredit = Readonly<Record<"effective_at" | "created_at", PgColumn>>

/** True for a credit that was in the balance from its entry on; the others come to it by the entry `started`. */
export function isImmediate({ effective_at, created_at }: DatedCredit): SQL {
  return sql`(${effective_at} > ${created_at}) IS NOT TRUE`
}

export function effectOf({ change, amount_nano }: Readonly<Record<"change" | "amount_nano", PgColumn>>): SQL {
  return sql`CASE ${change} WHEN 'started' THEN ${amount_nano} WHEN 'drawn' THEN 0 WHEN 'moved' THEN 0 ELSE -${amount_nano} END`
}

const change = statement("grants", sql`SELECT tollgate.change_grants($2::uuid) WHERE ${lockTimeout}`)

/**
 * Applies the due changes of the accounts in `due_account_id`, which an exact statement has skipped. Changes each
 * account separately, so that none waits for another. Returns the errors by account.
 */
export async function changeDue(
  connection: Runner,
  rows: readonly Row[],
  lock_ms: number,
  within_ms: number,
): Promise<ReadonlyMap<string, unknown>> {
  const due = rows.filter((row) => row.due_account_id !== null)
  const errors = new Map<string, unknown>()
  if (due.length === 0) return errors
  const until = performance.now() + within_ms
  for (const id of new Set(due.map((row) => textOf(row, "due_account_id")))) {
    const left_ms = until - performance.now()
    try {
      if (left_ms <= 0) throw new Overdue()
      await connection.run(change, [String(lock_ms), id], left_ms)
    } catch (error) {
      errors.set(id, error)
    }
  }
  return errors
}

/** True if the account of this row has a due change that could not be made. */
export function isDelayed({ due_account_id }: Row, errors: ReadonlyMap<string, unknown>): boolean {
  return typeof due_account_id === "string" && errors.has(due_account_id)
}

const SWEEP_MS = 5_000
const SWEEP_LOCK_MS = 100
const PAGE = 200

const findDue = statement(
  "grants",
  sql`SELECT ${a.id} AS due_account_id FROM ${accounts} ${a}
    WHERE ${a.next_change_at} <= now() AND ${isDue} AND ${a.moved_to} IS NULL AND ${a.id} > $1::uuid
    ORDER BY ${a.id} LIMIT ${sql.raw(String(PAGE))}`,
)

/** Applies due changes of accounts without calls. A failure does not stop the others; the first is thrown. */
export async function sweepGrants(connection: Runner): Promise<void> {
  const failed: unknown[] = []
  for (let from = NIL_ID; ; ) {
    const rows = await connection.run(findDue, [from], SWEEP_MS)
    const errors = await changeDue(connection, rows, SWEEP_LOCK_MS, SWEEP_MS)
    failed.push(...errors.values())
    const last = rows.at(-1)
    if (last === undefined || rows.length < PAGE) break
    from = textOf(last, "due_account_id")
  }
  if (failed.length > 0) throw failed[0]
}

const sums = statement(
  "grants",
  sql`SELECT 'left' AS part, count(*)::text AS grants, coalesce(sum(${g.left_nano}), 0)::text AS amount_nano FROM ${grants} ${g}
    UNION ALL SELECT ${n.change}, '0', sum(${n.amount_nano})::text FROM ${grant_entries} ${n}
    WHERE ${n.change} IN ('expired', 'voided') GROUP BY ${n.change}`,
)

export async function grantSums(connection: Runner): Promise<GrantSums> {
  const rows = await connection.run(sums, [], SWEEP_MS)
  const of = (part: string) => rows.find((row) => row.part === part) ?? { grants: "0", amount_nano: "0" }
  const nano = recordOf(grantParts, (part) => BigInt(textOf(of(part), "amount_nano")))
  return { open: Number(textOf(of("left"), "grants")), nano }
}
