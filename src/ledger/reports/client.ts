import { getAccount } from "../accounts/accounts.ts"
import { budgetsOf, budgetsOfCall } from "../accounts/budgets.ts"
import { addRefunds, refundedOf } from "../accounts/credits.ts"
import { openGrants } from "../accounts/grants.ts"
import { getKey, listKeys } from "../accounts/keys.ts"
import { archiveOf } from "../archive/archive.ts"
import { type Database, RECEIPT_CONNECTIONS, SUM_CONNECTIONS } from "../database/database.ts"
import type { Page } from "../database/page.ts"
import type { Span } from "../database/span.ts"
import type { Db } from "../database/statement.ts"
import type { Labelled, Owner } from "../entries.ts"
import { accountTurns, DEADLINE_MS } from "./account-turns.ts"
import { type CallFilter, type CallRecord, getCallOf, listCalls } from "./calls.ts"
import { firstFound, mergePages } from "./merge.ts"
import { accountStatement, addStatements } from "./statement.ts"
import {
  type GroupedSpan,
  groupNames,
  readUsage,
  type TakeGroups,
  type UsageSource,
  usageOf,
} from "./usage-sums.ts"

/** Receipts and balances that are read or wait, in the database of a shard. */
const MOST_RECEIPTS = 1_024
/** The same for reports over many calls, of all shards. */
const MOST_REPORTS = 32

export type Holder = Awaited<ReturnType<typeof holderOf>>

/**
 * Reports for clients about their own account (D47). Rejects with `NoAnswer` if late. Throws `LedgerBusy` when too many wait. Two pools:
 * clients do not slow operators, nor large reports receipts. Asks all shards, as after moves (D74).
 */
export type ClientReports = ReturnType<typeof openClientReports>

export function openClientReports(shards: readonly Pick<Database, "receipts" | "sums">[]) {
  const askSums = accountTurns(SUM_CONNECTIONS, MOST_REPORTS)
  const receipts_of = shards.map(({ receipts }) => {
    const inTurn = accountTurns(RECEIPT_CONNECTIONS, MOST_RECEIPTS)
    return <Answer>(account_id: string, ask: (receipts: Db) => Promise<Answer>) =>
      inTurn(account_id, () => ask(receipts))
  })
  const all = <Answer>(account_id: string, ask: (receipts: Db) => Promise<Answer>) =>
    receipts_of.map((read) => read(account_id, ask))
  const sumAll = <Answer>(account_id: string, ask: (sums: Db) => Promise<Answer>) =>
    askSums(account_id, () => Promise.all(shards.map(({ sums }) => ask(sums))))
  const own = <Answer>(
    { shard, account_id }: Owner,
    ask: (receipts: Db) => Promise<Answer>,
  ): Promise<Answer> => {
    const read = receipts_of[shard]
    if (read === undefined) throw new Error("the owner of a key is in a shard that does not exist")
    return read(account_id, ask)
  }
  return {
    call: (account_id: string, id: string): Promise<CallRecord | null> =>
      firstFound(all(account_id, (receipts) => getCallOf(receipts, account_id, id))),
    /** The refunds of a call (D106); null while a shard does not answer. */
    refunded: (account_id: string, id: string) =>
      addRefunds(all(account_id, (receipts) => refundedOf(receipts, id))),
    /** The month of a call of this id, as its first day, if it is archived (D75). */
    archived: async (account_id: string, id: string) =>
      (await firstFound(all(account_id, (receipts) => archiveOf(receipts, id))))?.month ?? null,
    holder: (owner: Owner) => own(owner, (receipts) => holderOf(receipts, owner)),
    /** The keys of the owner's account, newest first. */
    keys: (owner: Owner, page: Page) => own(owner, (receipts) => listKeys(receipts, owner.account_id, page)),
    /** The budgets in which a call of the key to this model would count (D97). Nothing is written for an end user that is new. */
    budgets: (owner: Owner, model: string, labelled: Labelled | null) =>
      own(owner, async (receipts) => {
        const key = await getKey(receipts, owner.key_id)
        if (key === null) throw new Error("an active key is not there")
        const { end_user, fixed, sent } = labelled ?? { end_user: null, fixed: {}, sent: {} }
        return budgetsOfCall(receipts, { ...key, model, end_user, tags: { ...sent, ...fixed } })
      }),
    /** Gives `take` at most `most` groups. */
    usage(account_id: string, range: GroupedSpan, most: number, take: TakeGroups) {
      const sources = shards.map(
        ({ receipts, sums }): UsageSource => ({
          read: (...asked) => readUsage(sums, ...asked),
          names: (...asked) => groupNames(receipts, ...asked),
        }),
      )
      const span = { ...range, account_ids: [account_id] }
      return askSums(account_id, () => usageOf(sources, span, most, take, DEADLINE_MS))
    },
    /** The calls of the account, newest first (D104). */
    calls: async (account_id: string, filter: CallFilter, page: Page) =>
      mergePages(await sumAll(account_id, (sums) => listCalls(sums, { ...filter, account_id }, page)), page),
    /** The statement of the account (D106). */
    async statement(account_id: string, span: Span) {
      const whole = await addStatements(
        await sumAll(account_id, (sums) => accountStatement(sums, account_id, span)),
      )
      if (whole === null) throw new Error("an active key has no account")
      return whole
    },
  }
}

/**
 * The account and the key, with the budgets that calls of the key can count in (D97), and the grants in the draw-down order (D95): none for
 * an account without dates or priorities.
 */
async function holderOf(receipts: Db, { account_id, key_id }: Owner) {
  const [account, key] = await Promise.all([getAccount(receipts, account_id), getKey(receipts, key_id)])
  if (account === null || key === null) throw new Error("an active key has no account, or is not there")
  const has_grants = account.next_change_at !== null
  return {
    account,
    key,
    budgets: await budgetsOf(receipts, key),
    grants: has_grants ? await openGrants(receipts, account_id) : [],
  }
}
