import type { Grouping } from "../../wire/usage-report.ts"
import { type Account, getAccount } from "../accounts/accounts.ts"
import { type Budget, budgetsOf, budgetsOfCall } from "../accounts/budgets.ts"
import { addRefunds, refundedOf } from "../accounts/credits.ts"
import { type OpenGrant, openGrants } from "../accounts/grants.ts"
import { getKey, type Key, listKeys } from "../accounts/keys.ts"
import { archiveOf } from "../archive/archive.ts"
import { answerOf } from "../database/answer.ts"
import type { Database } from "../database/database.ts"
import type { Db } from "../database/db.ts"
import type { Page, PageOf } from "../database/page.ts"
import type { Span } from "../database/span.ts"
import { type Labelled, LedgerBusy, type Owner } from "../entries.ts"
import { type CallFilter, type CallRecord, getCallOf, listCalls } from "./calls.ts"
import { firstFound, mergePages } from "./merge.ts"
import { type AccountStatement, accountStatement, addStatements } from "./statement.ts"
import {
  type GroupedSpan,
  groupNames,
  sumUsage,
  type UsageGroup,
  type UsageSummary,
  usageOf,
} from "./usage-sums.ts"

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
  /** The refunds of a call (D106); null while a shard does not answer. */
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
  usage(account_id: string, range: GroupedSpan, most?: number): Promise<UsageSummary<UsageGroup>>
  /** The statement of the account (D106). Throws `LedgerBusy` when too many reports wait. */
  statement(account_id: string, span: Span): Promise<AccountStatement>
}

/** Two pools: clients do not slow operators, nor large reports receipts. Asks all shards, as after moves (D74). */
export function openClientReports(shards: readonly Pick<Database, "receipts" | "sums">[]): ClientReports {
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
  const all = <Answer>(ask: (receipts: Db) => Promise<Answer>) =>
    shards.map(({ receipts }) => answered(ask(receipts)))
  const sumAll = <Answer>(account_id: string, ask: (sums: Db) => Promise<Answer>) =>
    answered(inTurn(account_id, () => Promise.all(shards.map(({ sums }) => ask(sums)))))
  const of = ({ shard }: Pick<Owner, "shard">) => {
    const found = shards[shard]
    if (found === undefined) throw new Error("the owner of a key is in a shard that does not exist")
    return found.receipts
  }
  return {
    call: (account_id, id) => firstFound(all((receipts) => getCallOf(receipts, account_id, id))),
    refunded: (id) => addRefunds(all((receipts) => refundedOf(receipts, id))),
    archived: async (id) => (await firstFound(all((receipts) => archiveOf(receipts, id))))?.month ?? null,
    async holder({ shard, account_id, key_id }) {
      const receipts = of({ shard })
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
    keys: async (owner, page) => answered(listKeys(of(owner), owner.account_id, page)),
    async budgets(owner, model, labelled) {
      const receipts = of(owner)
      const key = await answered(getKey(receipts, owner.key_id))
      if (key === null) throw new Error("an active key is not there")
      const { end_user, fixed, sent } = labelled ?? { end_user: null, fixed: {}, sent: {} }
      return answered(budgetsOfCall(receipts, { ...key, model, end_user, tags: { ...sent, ...fixed } }))
    },
    usage(account_id, range, most) {
      const sources = shards.map(({ receipts, sums }) => ({
        sum: (span: GroupedSpan, groups?: number) => sumUsage(sums, span, groups),
        names: (by: Grouping, ids: readonly string[]) => groupNames(receipts, by, ids),
      }))
      const span = { ...range, account_ids: [account_id] }
      return answered(inTurn(account_id, () => usageOf(sources, span, most)))
    },
    calls: async (account_id, filter, page) =>
      mergePages(await sumAll(account_id, (sums) => listCalls(sums, { ...filter, account_id }, page)), page),
    async statement(account_id, span) {
      const whole = addStatements(
        await sumAll(account_id, (sums) => accountStatement(sums, account_id, span)),
      )
      if (whole === null) throw new Error("an active key has no account")
      return whole
    },
  }
}

function answered<Answer>(question: Promise<Answer>): Promise<Answer> {
  return answerOf(question, DEADLINE_MS)
}
