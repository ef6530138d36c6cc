import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import type { Grouping } from "../../wire/usage-report.ts"
import { type Account, getAccount } from "../accounts/accounts.ts"
import { type Budget, budgetsOf, budgetsOfCall } from "../accounts/budgets.ts"
import { addRefunds, refundedCall } from "../accounts/credits.ts"
import { type OpenGrant, openGrants } from "../accounts/grants.ts"
import { getKey, type Key, listKeys } from "../accounts/keys.ts"
import { archiveOf } from "../archive/archive.ts"
import { answerOf } from "../database/answer.ts"
import type { Page, PageOf } from "../database/page.ts"
import type { Span } from "../database/span.ts"
import { type Labelled, LedgerBusy, type Owner } from "../entries.ts"
import { type CallFilter, type CallRecord, getCallOf, listCalls } from "./calls.ts"
import { addUsage, firstFound, mergePages, nameUsage } from "./merge.ts"
import { type AccountStatement, accountStatement, addStatements } from "./statement.ts"
import { type GroupedSpan, groupNames, MAX_ALL_GROUPS, sumUsage, type UsageSummary } from "./usage-sums.ts"

const WAITING_REPORTS = 32
/** The same for one account, so that no account takes the turns of all others. */
const WAITING_OF_ACCOUNT = 4
const DEADLINE_MS = 10_000

export interface Holder {
  readonly account: Account
  readonly key: Key
  /** Those that calls of the key can count in (D97). */
  readonly budgets: readonly Budget[]
  /** In the draw-down order (D95); none for an account without dates or priorities. */
  readonly grants: readonly OpenGrant[]
}

/** The reports that clients may read about their own account (D47). Rejects with `NoAnswer` if the database is late. */
export interface ClientReports {
  call(account_id: string, id: string): Promise<CallRecord | null>
  /** The refunds of a call (D106); null while one of several shards does not answer. */
  refunded(id: string): Promise<bigint | null>
  /** The calls of the account, newest first (D104). Throws `LedgerBusy` when too many reports wait. */
  calls(account_id: string, filter: CallFilter, page: Page): Promise<PageOf<CallRecord>>
  /** The month of a call of this id, as its first day, if it is archived (D75). */
  archived(id: string): Promise<string | null>
  holder(owner: Owner): Promise<Holder>
  /** The keys of the owner's account, newest first. */
  keys(owner: Owner, page: Page): Promise<PageOf<Key>>
  /** The budgets in which a call of the key to this model would count (D97). Nothing is written for an end user that is new. */
  budgets(owner: Owner, model: string, labelled: Labelled | null): Promise<readonly Budget[]>
  /** With `most` groups at most. Throws `LedgerBusy` when too many reports wait. */
  usage(account_id: string, range: GroupedSpan, most?: number): Promise<UsageSummary>
  /** The statement of the account (D106). Throws `LedgerBusy` when too many reports wait. */
  statement(account_id: string, span: Span): Promise<AccountStatement>
}

export interface ShardReports extends ClientReports {
  /** The part of a statement that this shard has; null without the account. */
  statementPart(account_id: string, span: Span): Promise<AccountStatement | null>
  names(by: Grouping, ids: readonly string[]): Promise<ReadonlyMap<string, string>>
}

/**
 * Uses two separate pools, so that clients do not slow operators, and a report over many calls, one at a time, does not slow
 * receipts.
 */
export function openClientReports(receipts: PostgresJsDatabase, sums: PostgresJsDatabase): ShardReports {
  let waiting = 0
  const own = new Map<string, number>()
  /** Asks in the turn of the account. */
  const inTurn = async <Answer>(account_id: string, ask: () => Promise<Answer>): Promise<Answer> => {
    const mine = own.get(account_id) ?? 0
    if (waiting === WAITING_REPORTS || mine === WAITING_OF_ACCOUNT) throw new LedgerBusy()
    waiting += 1
    own.set(account_id, mine + 1)
    try {
      return await ask()
    } finally {
      waiting -= 1
      const left = (own.get(account_id) ?? 1) - 1
      if (left > 0) own.set(account_id, left)
      else own.delete(account_id)
    }
  }
  const statementPart = (account_id: string, span: Span) =>
    answered(inTurn(account_id, () => accountStatement(sums, account_id, span)))
  return {
    statementPart,
    statement: async (account_id, span) => wholeStatement([await statementPart(account_id, span)]),
    call: (account_id, id) => answered(getCallOf(receipts, account_id, id)),
    refunded: async (id) => (await answered(refundedCall(receipts, id))).refunded_nano,
    archived: async (id) => (await answered(archiveOf(receipts, id)))?.month ?? null,
    names: (by, ids) => answered(groupNames(receipts, by, ids)),
    async holder({ account_id, key_id }) {
      const reading = Promise.all([getAccount(receipts, account_id), getKey(receipts, key_id)])
      const [account, key] = await answered(reading)
      if (account === null || key === null) throw new Error("an active key has no account, or is not there")
      const has_grants = account.next_change_at !== null
      return {
        account,
        key,
        budgets: await answered(budgetsOf(receipts, key)),
        grants: has_grants ? await answered(openGrants(receipts, account_id)) : [],
      }
    },
    keys: ({ account_id }, page) => answered(listKeys(receipts, account_id, page)),
    async budgets({ key_id }, model, labelled) {
      const key = await answered(getKey(receipts, key_id))
      if (key === null) throw new Error("an active key is not there")
      const { end_user, fixed, sent } = labelled ?? { end_user: null, fixed: {}, sent: {} }
      return answered(budgetsOfCall(receipts, { ...key, model, end_user, tags: { ...sent, ...fixed } }))
    },
    usage: (account_id, range, most) =>
      answered(inTurn(account_id, () => sumUsage(sums, { ...range, account_ids: [account_id] }, most))),
    calls: (account_id, filter, page) =>
      answered(inTurn(account_id, () => listCalls(sums, { ...filter, account_id }, page))),
  }
}

/** The same over several shards (D74), because an account's calls from before a move are in another one. */
export function shardedReports(shards: readonly ShardReports[]): ClientReports {
  const of = ({ shard }: Owner) => {
    const live = shards[shard]
    if (live === undefined) throw new Error("the owner of a key is in a shard that does not exist")
    return live
  }
  return {
    call: (account_id, id) => firstFound(shards.map((each) => each.call(account_id, id))),
    refunded: (id) => addRefunds(shards.map((each) => each.refunded(id))),
    calls: async (account_id, filter, page) =>
      mergePages(await Promise.all(shards.map((each) => each.calls(account_id, filter, page))), page),
    archived: (id) => firstFound(shards.map((each) => each.archived(id))),
    holder: async (owner) => of(owner).holder(owner),
    keys: async (owner, page) => of(owner).keys(owner, page),
    budgets: async (owner, model, labelled) => of(owner).budgets(owner, model, labelled),
    statement: async (account_id, span) =>
      wholeStatement(await Promise.all(shards.map((each) => each.statementPart(account_id, span)))),
    async usage(account_id, range, most) {
      const parts = shards.map((each) => each.usage(account_id, range, MAX_ALL_GROUPS))
      const whole = addUsage(await Promise.all(parts), most)
      const groups = await nameUsage(whole.groups, range, (by, ids) =>
        Promise.all(shards.map((each) => each.names(by, ids))),
      )
      return { ...whole, groups }
    },
  }
}

function wholeStatement(parts: readonly (AccountStatement | null)[]): AccountStatement {
  const whole = addStatements(parts)
  if (whole === null) throw new Error("an active key has no account")
  return whole
}

function answered<Answer>(question: Promise<Answer>): Promise<Answer> {
  return answerOf(question, DEADLINE_MS)
}
