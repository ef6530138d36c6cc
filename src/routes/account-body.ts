import type { Account } from "../ledger/accounts/accounts.ts"
import { printUsd } from "../money.ts"
import type { AccountBody } from "../wire/admin.ts"
import { printTime } from "../wire/time.ts"

/** An account as its operator is shown it, and its keys. */
export function accountBody(account: Account): AccountBody {
  const { id, name, balance_nano, held_nano, suspended_at, created_at } = account
  return {
    id,
    name,
    balance: printUsd(balance_nano),
    held: printUsd(held_nano),
    available: printUsd(balance_nano - held_nano),
    suspended: suspended_at !== null,
    created_at: printTime(created_at),
  }
}
