import type { Key } from "../ledger/accounts/keys.ts"
import { printUsd } from "../money.ts"
import type { CreatedKeyBody, KeyBody } from "../wire/admin.ts"
import { printTime } from "../wire/time.ts"

/** The one answer that shows the key itself. */
export function createdKeyBody(made: Key, key: string): CreatedKeyBody {
  return { ...commonOf(made), key }
}

/** A key as its operator is shown it, and its holder. */
export function keyBody(key: Key): KeyBody {
  return {
    ...commonOf(key),
    spent: key.spending && printUsd(key.spending.spent_nano),
    revoked_at: key.revoked_at && printTime(key.revoked_at),
    last_used_at: key.last_used_at && printTime(key.last_used_at),
  }
}

function commonOf({ id, name, prefix, models, expires_at, suspended_at, spending, created_at }: Key) {
  return {
    id,
    name,
    prefix,
    models: models && [...models],
    expires_at: expires_at && printTime(expires_at),
    suspended: suspended_at !== null,
    spending_limit: spending && { amount: printUsd(spending.limit_nano), per: spending.period },
    created_at: printTime(created_at),
  }
}
