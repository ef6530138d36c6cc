import { close } from "../../src/ledger/close.ts"
import { reserve } from "../../src/ledger/reserve.ts"
import type { Statement } from "../../src/ledger/statement.ts"

/**
 * The statements of the books, each without one of its guards. They are cut from the real ones, so that they cannot
 * fall behind; a guard that is no longer found where it was is an error.
 */

const SORTED = "ORDER BY a.id FOR NO KEY UPDATE"

/** What is available is read without a lock, so that nobody waits and everybody sees the same balance. */
export const withoutRowLock = without(reserve, `  ${SORTED}\n), inserted`, "), inserted")

/** A reserving statement locks accounts in the order in which their calls came. */
export const reserveWithoutLockOrder = without(
  reserve,
  `${SORTED}\n), inserted`,
  "ORDER BY position(a.id::text IN $2) FOR NO KEY UPDATE\n), inserted",
)

/** A closing statement locks them in another order than a reserving one. */
export const closeWithoutLockOrder = without(close, SORTED, "ORDER BY a.id DESC FOR NO KEY UPDATE")

/** An UPDATE takes one of the rows that it is joined to, so that of several holds of one account one is counted. */
export const withoutAggregation = without(
  reserve,
  "FROM (SELECT account_id, sum(amount_nano)::bigint AS amount_nano FROM inserted GROUP BY account_id) s",
  "FROM inserted s",
)

/** D13: a closing does not ask whether the reservation is closed. */
export const withoutStateGuard = without(
  without(close, "AND x.state IN ('open', 'expired') ", ""),
  "WHERE l.state = 'open' OR q.outcome = 'settled'",
  "",
)

/** D13: a settlement that comes after expiry frees what expiry has freed. */
export const withoutFreedOnce = without(
  close,
  "CASE WHEN x.state = 'open' THEN x.amount_nano ELSE 0 END AS freed_nano",
  "x.amount_nano AS freed_nano",
)

function without({ kind, text }: Statement, guard: string, instead: string): Statement {
  const parts = text.split(guard)
  if (parts.length !== 2)
    throw new Error(`the ${kind} statement has this guard ${parts.length - 1} times: ${guard}`)
  return { kind, text: parts.join(instead) }
}
