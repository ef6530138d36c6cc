import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { type Account, getAccount } from "../accounts/accounts.ts"
import { getKey, type Key } from "../accounts/keys.ts"
import { archiveOf } from "../archive/archive.ts"
import { LedgerBusy } from "../entries.ts"
import { type CallRecord, getCallOf } from "./calls.ts"
import { type Grouping, groupNames, sumUsage, type UsageRange, type UsageSummary } from "./usage-sums.ts"

/** Usage reports that may wait for their turn. */
const WAITING_REPORTS = 32
/** And of one account, so that nobody takes the turn of all others. */
const WAITING_OF_ACCOUNT = 4

/** Who reads: an account, and the key of it that asks. */
export interface Holder {
  readonly account: Account
  readonly key: Key
}

/** What clients may read of the ledger: what is their own account's (D47). */
export interface ClientReports {
  /** The call, or null when the account has none of this id. */
  call(account_id: string, id: string): Promise<CallRecord | null>
  /** The month of a call of this id, as its first day, if it is archived (D75). */
  archived(id: string): Promise<string | null>
  holder(account_id: string, key_id: string): Promise<Holder>
  /** With `most` groups at most. Throws `LedgerBusy` when too many reports wait. */
  usage(account_id: string, range: UsageRange, most?: number): Promise<UsageSummary>
  /** The names of groups of such a report. */
  names(by: Grouping, ids: readonly string[]): Promise<ReadonlyMap<string, string>>
}

/**
 * Over two pools of its own: what clients read takes nothing from operators, and a report over many calls, one at a time,
 * nothing from receipts.
 */
export function openClientReports(receipts: PostgresJsDatabase, sums: PostgresJsDatabase): ClientReports {
  let waiting = 0
  const own = new Map<string, number>()
  return {
    call: (account_id, id) => getCallOf(receipts, account_id, id),
    archived: async (id) => (await archiveOf(receipts, id))?.month ?? null,
    names: (by, ids) => groupNames(receipts, by, ids),
    async holder(account_id, key_id) {
      const [account, key] = await Promise.all([getAccount(receipts, account_id), getKey(receipts, key_id)])
      if (account === null || key === null) throw new Error("an active key has no account, or is not there")
      return { account, key }
    },
    async usage(account_id, range, most) {
      const mine = own.get(account_id) ?? 0
      if (waiting === WAITING_REPORTS || mine === WAITING_OF_ACCOUNT) throw new LedgerBusy()
      waiting += 1
      own.set(account_id, mine + 1)
      try {
        return await sumUsage(sums, { ...range, account_ids: [account_id] }, most)
      } finally {
        waiting -= 1
        const left = (own.get(account_id) ?? 1) - 1
        if (left > 0) own.set(account_id, left)
        else own.delete(account_id)
      }
    },
  }
}
