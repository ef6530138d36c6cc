import { inArray } from "drizzle-orm"
import { NIL_ID } from "../../id.ts"
import type { violationKinds } from "../../wire/ledger-checks.ts"
import type { Db } from "../database/statement.ts"
import type { OfShard } from "../entries.ts"
import type { SpooledEnd } from "../queue/spool.ts"
import { holds } from "../schema/tables.ts"

/**
 * Recorded and expected values of a violation.
 * - `balance`, `held`: an account's row differs from the sum of its entries.
 * - `spent`: a spending limit's counter differs from the sum of its key's calls.
 * - `budget_spent`, `budget_held`: a budget's counter differs from the sum over its calls. A token or a request counts as a USD.
 * - `grant`: what a credit has left differs from its entries (D95).
 * - `charge`: a call's charge differs from its tokens at its terms and price multiplier.
 * - `entry`: an end or a correction that does not fit its hold.
 * - `attempt`: an attempt without a hold of its account (D93). It has no amount: 0, and nothing is expected.
 * - `abandoned`: an open hold that no gateway can end (D73), and its amount.
 * - `labels`: a call whose labels are missing or another account's (D94), and what it held.
 * - `price`: a call that was held or ended at another price than the customer price of its moment (D100), and what it held.
 * - `unheld`: a settlement without a hold, and its charge. It is in the spool, and not in the journal (D13).
 */
export interface Violation extends OfShard {
  readonly kind: (typeof violationKinds)[number]
  readonly account_id: string
  /** The key for `spent`, the credit for `grant`, the budget for its counters, null for an account, else the call. */
  readonly id: string | null
  /** Null for entries of an account that does not exist. */
  readonly recorded_nano: bigint | null
  readonly expected_nano: bigint | null
}

/** Maximum number of violations of a kind in one audit. */
export const MAX_VIOLATIONS = 1_000

export interface ViolationRow extends Record<string, unknown> {
  readonly kind: Violation["kind"]
  readonly account_id: string
  readonly id: string | null
  readonly recorded: string | null
  readonly expected: string | null
}

export function violationOf({ kind, account_id, id, recorded, expected }: ViolationRow): Violation {
  return { kind, account_id, id, recorded_nano: nano(recorded), expected_nano: nano(expected) }
}

const nano = (text: string | null) => (text === null ? null : BigInt(text))

/** The account of a settlement whose hold is unknown. */
const UNKNOWN_ACCOUNT = NIL_ID

export function unheldViolation({ account_id, end }: SpooledEnd): Violation {
  return {
    kind: "unheld",
    account_id: account_id === "" ? UNKNOWN_ACCOUNT : account_id,
    id: end.id,
    recorded_nano: end.charge_nano,
    expected_nano: null,
  }
}

export async function findUnheld(
  database: Db,
  spooled: readonly SpooledEnd[],
): Promise<readonly Violation[]> {
  const ids = spooled.map(({ end }) => end.id)
  const rows = await database.select({ id: holds.id }).from(holds).where(inArray(holds.id, ids))
  const held = new Set(rows.map(({ id }) => id))
  return spooled.filter(({ end }) => !held.has(end.id)).map(unheldViolation)
}
