import { close, closeOne } from "../../src/ledger/journal/end.ts"
import { reserve, reserveOne } from "../../src/ledger/journal/hold.ts"
import type { Statement } from "../../src/ledger/database/statement.ts"

/**
 * The statements of the books, each without one of its guards. They are cut from the real ones, so that they cannot
 * fall behind; a guard that is no longer found where it was is an error.
 */

const SORTED = "ORDER BY a.id FOR NO KEY UPDATE"

/** What is available is read without a lock, so that nobody waits and everybody sees the same balance. */
export const withoutRowLock = without(reserve, `  ${SORTED}\n), limits`, "), limits")

/** A reserving statement locks accounts in the order in which their calls came. */
export const reserveWithoutLockOrder = without(
  reserve,
  `${SORTED}\n), limits`,
  "ORDER BY position(a.id::text IN $2) FOR NO KEY UPDATE\n), limits",
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

/** What is available is judged by what the statement saw before it waited. */
export const oneWithoutNewestVersion = without(
  reserveOne,
  "a.balance_nano - a.held_nano >= $6::bigint",
  `(SELECT b.balance_nano - b.held_nano FROM "tollgate"."accounts" b WHERE b.id = $4::uuid) >= $6::bigint`,
)

/** D26: a hold does not ask whether its key is revoked. */
export const oneWithoutRevocation = without(reserveOne, "AND k.revoked_at IS NULL", "")

/** D26: a hold does not ask whether its key has expired. */
export const oneWithoutExpiry = without(reserveOne, "(k.expires_at IS NULL OR k.expires_at > now())", "true")

/** D26: a hold does not ask whether its key may have the model. */
export const oneWithoutModels = without(reserveOne, "(k.models IS NULL OR $7::text = ANY (k.models))", "true")

/** D26: a hold does not ask whose key it is. */
export const oneWithoutKeysAccount = without(reserveOne, "AND k.account_id = $4::uuid", "")

/** D35: a hold does not ask whether its gateway was declared dead. */
export const oneWithoutGateway = without(reserveOne, "AND g.dead_at IS NULL", "")

/** The money is moved although the reservation was lost on the way. */
export const oneWithoutReservation = without(reserveOne, "1 / (SELECT count(*) FROM inserted)::int", "1")

/** D13: a closing alone does not ask whether the reservation is open. */
export const oneWithoutState = without(closeOne, "AND x.state = 'open' ", "")

/** The reservation is closed although the account's row was lost on the way. */
export const oneWithoutPayment = without(closeOne, "1 / (SELECT count(*) FROM paid)::int", "1")

function without({ kind, text }: Statement, guard: string, instead: string): Statement {
  const parts = text.split(guard)
  if (parts.length !== 2)
    throw new Error(`the ${kind} statement has this guard ${parts.length - 1} times: ${guard}`)
  return { kind, text: parts.join(instead) }
}
