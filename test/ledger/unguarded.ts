import type { Statement } from "../../src/ledger/database/statement.ts"
import { endLean, endLimited, endOne } from "../../src/ledger/money/end.ts"
import { endExact } from "../../src/ledger/money/end-exact.ts"
import { expire } from "../../src/ledger/money/expire.ts"
import { holdLean, holdLimited, holdOneKey } from "../../src/ledger/money/hold.ts"
import { holdExact } from "../../src/ledger/money/hold-exact.ts"

/**
 * The statements of the ledger, each without one of its guards. They are cut from the real ones, so that they cannot
 * fall behind; a guard that is no longer found where it was is an error.
 */

const SORTED = `ORDER BY "a"."id" FOR NO KEY UPDATE`
const DESCENDING = `ORDER BY "a"."id" DESC FOR NO KEY UPDATE`
const AVAILABLE = `"a"."balance_nano" + coalesce("a"."credit_limit_nano", 0) - "a"."held_nano" >=`
/** Judged by what the statement saw before it waited. */
const SEEN = `(SELECT b.balance_nano - b.held_nano FROM "tollgate"."accounts" b WHERE b.id = "a"."id") >=`
const NOT_SUSPENDED = `AND "a"."suspended_at" IS NULL`
const NOT_LIMITED = `AND NOT "a"."is_limited"`
const ALIVE = `AND "g"."dead_at" IS NULL`
const FREED = `coalesce(sum(freed_nano), 0) = (SELECT coalesce(sum(freed_nano), 0) FROM ended)`
const CHARGED = `coalesce(sum(charge_nano), 0) = (SELECT coalesce(sum(charge_nano), 0) FROM ended)`
const MOVED = "1 / ((SELECT count(*) FROM moved) = (SELECT count(DISTINCT account_id) FROM"

export const exact = {
  /** What is available is read without a lock, so that nobody waits and everybody sees the same balance. */
  holdRowLock: without(holdExact, `  ${SORTED}\n), offered`, "), offered"),
  /** Accounts are locked in the order in which their calls came. */
  holdLockOrder: without(holdExact, `${SORTED}\n), offered`, `${inOrderOf("$6")}\n), offered`),
  endLockOrder: without(endExact, `${SORTED}\n), payers`, `${DESCENDING}\n), payers`),
  /** An UPDATE takes one of the rows that it is joined to, so that of several holds of one account one is counted. */
  holdAggregation: without(
    holdExact,
    "FROM (SELECT account_id, sum(amount_nano)::bigint AS amount_nano FROM inserted GROUP BY account_id) s",
    "FROM inserted s",
  ),
  /** D13: an end does not ask how the hold has ended before. */
  endOnce: without(
    endExact,
    "\n  WHERE q.past_outcome IS NULL OR (q.past_outcome = 'expired' AND q.outcome = 'settled')",
  ),
  /** D13: a settlement that comes after expiry frees what expiry has freed. */
  endFreedOnce: without(
    endExact,
    "CASE WHEN d.past_outcome IS NULL THEN d.amount_nano ELSE 0 END AS freed_nano",
    "d.amount_nano AS freed_nano",
  ),
  /** The entries are written although the account's row was lost on the way. */
  holdWhole: without(holdExact, `${MOVED} inserted))::int AS whole`, "1 AS whole"),
  endWhole: without(endExact, `${MOVED} changed))::int AS whole`, "1 AS whole"),
  expireWhole: without(expire, `${MOVED} changed))::int AS whole`, "1 AS whole"),
}

export const lean = {
  holdNewestVersion: without(holdLean, AVAILABLE, SEEN),
  holdLockOrder: without(holdLean, `${SORTED}\n), moved`, `${inOrderOf("$3")}\n), moved`),
  endLockOrder: without(endLean, `${SORTED}\n), moved`, `${DESCENDING}\n), moved`),
  /** D26: whose keys may not hold is not asked. */
  holdKeys: without(holdLean, `AND ("a"."id" IN (SELECT account_id FROM refused)) IS NOT TRUE`),
  holdSuspension: without(holdLean, NOT_SUSPENDED),
  holdLimits: without(holdLean, NOT_LIMITED),
  holdGateway: without(holdLean, ALIVE),
  /** The money is moved although a hold was lost on the way. */
  holdWhole: without(
    holdLean,
    "1 / (coalesce(sum(total_nano), 0) = (SELECT coalesce(sum(amount_nano), 0) FROM inserted))::int",
    "1",
  ),
  endLimits: without(endLean, NOT_LIMITED),
  /** What is freed is not compared with what the holds say. */
  endFreed: without(endLean, FREED, "true"),
  endCharged: without(endLean, CHARGED, "true"),
}

export const limited = {
  holdRowLock: without(holdLimited, `  ${SORTED}\n), offered`, "), offered"),
  holdLockOrder: without(holdLimited, `${SORTED}\n), offered`, `${inOrderOf("$4")}\n), offered`),
  endLockOrder: without(endLimited, `${SORTED}\n), due`, `${DESCENDING}\n), due`),
  holdKeys: without(holdLimited, "q.is_allowed AND "),
  holdSuspension: without(holdLimited, NOT_SUSPENDED),
  holdGateway: without(holdLimited, ALIVE),
  /** The money is moved although a hold was lost on the way. */
  holdWhole: without(
    holdLimited,
    "AND coalesce(sum(amount_nano), 0) = (SELECT coalesce(sum(amount_nano), 0) FROM inserted)",
  ),
  endWhole: without(endLimited, "AND coalesce(sum(calls), 0) = (SELECT count(*) FROM ended)"),
}

/** The lean statements for one call. */
export const one = {
  holdNewestVersion: without(holdOneKey, AVAILABLE, SEEN),
  holdRevocation: without(holdOneKey, `AND "k"."revoked_at" IS NULL`),
  holdKeySuspension: without(holdOneKey, `AND "k"."suspended_at" IS NULL`),
  holdExpiry: without(holdOneKey, `("k"."expires_at" IS NULL OR "k"."expires_at" > now())`, "true"),
  holdModels: without(
    holdOneKey,
    `AND ("k"."models" IS NULL OR (SELECT "t"."model" FROM "tollgate"."terms" "t" WHERE "t"."id" = $5::int) = ANY ("k"."models"))`,
  ),
  holdKeysAccount: without(holdOneKey, `AND "k"."account_id" = $3::uuid`),
  holdSuspension: without(holdOneKey, NOT_SUSPENDED),
  holdLimits: without(holdOneKey, NOT_LIMITED),
  holdGateway: without(holdOneKey, ALIVE),
  holdWhole: without(
    holdOneKey,
    "1 / ((SELECT coalesce(sum(amount_nano), 0) FROM inserted) = $6::bigint)::int",
    "1",
  ),
  endLimits: without(endOne, NOT_LIMITED),
  endWhole: without(endOne, "1 / (SELECT count(*) FROM inserted)::int", "1"),
  /** D13: an end that is there already is passed over; its primary key does not undo what was moved. */
  endOnce: without(
    without(endOne, "1 / (SELECT count(*) FROM inserted)::int", "1"),
    'RETURNING "id"\n)',
    'ON CONFLICT DO NOTHING RETURNING "id"\n)',
  ),
}

function inOrderOf(accounts: string): string {
  return `ORDER BY array_position(${accounts}::uuid[], "a"."id") FOR NO KEY UPDATE`
}

function without(statement: Statement, guard: string, instead = ""): Statement {
  const { kind, text } = statement
  const parts = text.split(guard)
  if (parts.length !== 2)
    throw new Error(`the ${kind} statement has this guard ${parts.length - 1} times: ${guard}`)
  return { ...statement, text: parts.join(instead) }
}
