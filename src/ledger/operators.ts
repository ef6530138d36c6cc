import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { nextId } from "../id.ts"
import type { Split } from "../wire/statistics.ts"
import * as accounts from "./accounts/accounts.ts"
import * as budgets from "./accounts/budgets.ts"
import * as credits from "./accounts/credits.ts"
import * as prices from "./accounts/customer-prices.ts"
import { type ForgottenUser, forgetEndUser } from "./accounts/end-users.ts"
import * as keys from "./accounts/keys.ts"
import * as log from "./accounts/operator-log.ts"
import * as people from "./accounts/operators.ts"
import * as ownKeys from "./accounts/own-keys.ts"
import * as lists from "./accounts/price-lists.ts"
import { archiveOf, dropMonth, noteDump } from "./archive/archive.ts"
import { type Audit, type AuditOptions, audit } from "./archive/audit.ts"
import { listAudits, recordAudit } from "./archive/audit-records.ts"
import { dumpPart } from "./archive/dump.ts"
import { checkSeal, listMonths } from "./archive/seals.ts"
import type { Violation } from "./archive/violations.ts"
import { answerOf } from "./database/answer.ts"
import type { Page } from "./database/page.ts"
import type { Span } from "./database/span.ts"
import { UnknownShard } from "./entries.ts"
import { listBudgetLog } from "./feed/budget-log.ts"
import { type FeedQuery, readFeed, readFeeds } from "./feed/feed.ts"
import * as sinks from "./feed/sinks.ts"
import type { MoveState } from "./moves/moves.ts"
import { addEstimates, readEstimates } from "./queue/estimates.ts"
import { addRefusals, readRefusals } from "./queue/refusals.ts"
import { addAttempts, sumAttempts } from "./reports/attempts.ts"
import { balanceAt } from "./reports/balance.ts"
import { getCall, listCalls } from "./reports/calls.ts"
import { latencies } from "./reports/latency.ts"
import { addBalances, addLatencies } from "./reports/merge.ts"
import { outcomes } from "./reports/outcomes.ts"
import { addReconciled, type ReconciledRange, reconciled } from "./reports/reconciliation.ts"
import { accountStatement, addStatements, addTrialBalances, trialBalance } from "./reports/statement.ts"
import { checkDay, firstDay } from "./reports/sum-hours.ts"
import { timeline } from "./reports/timeline.ts"
import { addNotedUsage, notedUsage } from "./reports/usage-notes.ts"
import { sumUsage } from "./reports/usage-sums.ts"

export interface Deadlines {
  readonly deadline_ms: number
  /** For questions that read many entries: sums, statistics, past balances, lists of calls, a new limit or budget. */
  readonly sums_deadline_ms: number
  /** For an audit, which reads all calls of open months. */
  readonly audit_deadline_ms: number
}

/** As long as a call waits (D27); sums, whose statements may take 8 s (D48); less than the idle timeout of a connection. */
export const DEADLINES: Deadlines = {
  deadline_ms: 2_000,
  sums_deadline_ms: 10_000,
  audit_deadline_ms: 55_000,
}

export interface OperatedDatabase {
  readonly name: string
  /** True if accounts are created in it. */
  readonly open: boolean
  readonly database: PostgresJsDatabase
  /** True if it is one of several: errors name it (D74). */
  readonly is_shard?: boolean
  /** Settlements without a hold. They are in a spool only, and the audit lists them (D13). */
  unheld?(): readonly Violation[] | Promise<readonly Violation[]>
  onAudit?(audit: Audit): void
  /** An end user was forgotten (D94). */
  onForgotten?(end_user_id: string): void
}

/** Fields of a new resource. The same `id` again makes nothing; an absent one is generated. */
type Order<Made extends { readonly id: string }> = Omit<Made, "id"> & { readonly id?: string | undefined }

/** A month such as `2026-10`, of a shard; only one of several must be named. */
interface MonthOfShard {
  readonly month: string
  readonly shard?: string | undefined
}

type AskWithin = <Args extends readonly unknown[], Answer>(
  question: (database: PostgresJsDatabase, ...args: Args) => Promise<Answer>,
) => (...args: Args) => Promise<Answer>

/** Any question to one database, with the deadlines of `Deadlines` in their order. */
type DatabaseQuestions = Readonly<Record<"soon" | "sums" | "audited", AskWithin>>

export type DatabaseOperators = ReturnType<typeof databaseOperators>

/**
 * The ledger as operators use it: one database, or several (D74). Every method rejects with `NoAnswer` if a database that it
 * needs fails or is late.
 */
export type OperatorLedger = Omit<DatabaseOperators, keyof DatabaseQuestions | "at_home">

export function databaseOperators(
  { name, open, database, is_shard = false, unheld, onAudit, onForgotten }: OperatedDatabase,
  { deadline_ms, sums_deadline_ms, audit_deadline_ms }: Deadlines = DEADLINES,
) {
  const answer = <Answer>(question: Promise<Answer>, limit_ms: number | null, id?: string) =>
    answerOf(question, limit_ms, { id, ...(is_shard && { shard: name }) })
  const within =
    (limit_ms: number): AskWithin =>
    (question) =>
    (...args) =>
      answer(question(database, ...args), limit_ms)
  const questions: DatabaseQuestions = {
    soon: within(deadline_ms),
    sums: within(sums_deadline_ms),
    audited: within(audit_deadline_ms),
  }
  const { soon, sums, audited } = questions
  const monthOf = ({ month, shard = name }: MonthOfShard) => {
    if (shard !== name) throw new UnknownShard([name])
    return `${month}-01`
  }
  const ofAccount = async <Answer>(id: string, read: () => Promise<Answer>): Promise<Answer | null> =>
    (await soon(accounts.getAccount)(id)) === null ? null : read()
  /** Operators, their sessions and the log of their changes, which are in the first shard. */
  const at_home = {
    openSession: soon(people.openSession),
    actorOfSession: soon(people.actorOfSession),
    endSession: soon(people.endSession),
    endSessionsOf: soon(people.endSessionsOf),
    createOperator: ({ id = nextId(), ...order }: Order<people.OperatorOrder>) =>
      answer(people.createOperator(database, { id, ...order }), deadline_ms, id),
    getOperator: soon(people.getOperator),
    listOperators: soon(people.listOperators),
    rotateOperator: soon(people.rotateOperator),
    revokeOperator: soon(people.revokeOperator),
    operatorOfToken: soon(people.operatorOfToken),
    beginChange: soon(log.beginChange),
    endChange: soon(log.endChange),
    listChanges: sums(log.listChanges),
  }
  return {
    ...questions,
    ...addedAnswers(async (question) => [await question(questions)]),
    ...at_home,
    at_home,
    async createAccount({ id, ...account }: Order<accounts.NewAccount>): Promise<accounts.AccountResult> {
      const { external_id } = account
      const same =
        id !== undefined || external_id === undefined ? null : await soon(accounts.findAccount)(external_id)
      if (same !== null) return { outcome: "known", account: same }
      if (open) {
        const own = id ?? nextId()
        return answer(accounts.createAccount(database, { id: own, ...account }), deadline_ms, own)
      }
      const known = id === undefined ? null : await soon(accounts.getAccount)(id)
      return known === null ? { outcome: "none_open" } : { outcome: "known", account: known }
    },
    getAccount: soon(accounts.getAccount),
    listAccounts: (page: Page, filter?: accounts.AccountFilter) => soon(accounts.listAccounts)(page, filter),
    changeAccount: soon(accounts.changeAccount),
    createKey: ({ id = nextId(), ...key }: Order<keys.NewKey>) =>
      answer(keys.createKey(database, { id, ...key }), deadline_ms, id),
    /** Changes by the holder of a key (D104). */
    makeOwnKey: (holder: ownKeys.KeyHolder, { id = nextId(), ...key }: Order<ownKeys.OwnKeyOrder>) =>
      answer(ownKeys.makeOwnKey(database, holder, { id, ...key }), deadline_ms, id),
    rotateOwnKey: soon(ownKeys.rotateOwnKey),
    revokeOwnKey: soon(ownKeys.revokeOwnKey),
    /** Null for an unknown account; also for its credits. */
    listKeys: (account_id: string, page: Page) =>
      ofAccount(account_id, () => soon(keys.listKeys)(account_id, page)),
    getKey: soon(keys.getKey),
    changeKey: sums(keys.changeKey),
    rotateKey: soon(keys.rotateKey),
    revokeKey: soon(keys.revokeKey),
    /** Null for an unknown end user or account (D94). */
    forgetEndUser: async (account_id: string, end_user: string): Promise<ForgottenUser | null> => {
      const user = await soon(forgetEndUser)(account_id, end_user)
      if (user !== null) onForgotten?.(user.id)
      return user
    },
    createBudget: ({ id = nextId(), ...budget }: Order<budgets.BudgetOrder>) =>
      answer(budgets.createBudget(database, { id, ...budget }), sums_deadline_ms, id),
    getBudget: soon(budgets.getBudget),
    listBudgetLog: sums(listBudgetLog),
    listBudgets: (account_id: string, page: Page) =>
      ofAccount(account_id, () => soon(budgets.listBudgets)(account_id, page)),
    changeBudget: sums(budgets.changeBudget),
    setCustomerPrice: ({ id = nextId(), ...price }: Order<prices.CustomerPriceOrder>) =>
      answer(prices.setCustomerPrice(database, { id, ...price }), deadline_ms, id),
    getCustomerPrice: soon(prices.getCustomerPrice),
    listCustomerPrices: (account_id: string, page: Page) =>
      ofAccount(account_id, () => soon(prices.listCustomerPrices)(account_id, page)),
    endCustomerPrice: soon(prices.endCustomerPrice),
    createPriceList: ({ id = nextId(), ...list }: Order<lists.PriceListOrder>) =>
      answer(lists.createPriceList(database, { id, ...list }), deadline_ms, id),
    changePriceList: ({ id = nextId(), ...change }: Order<lists.PriceListUpdate>) =>
      answer(lists.changePriceList(database, { id, ...change }), deadline_ms, id),
    getPriceList: soon(lists.getPriceList),
    listPriceLists: soon(lists.listPriceLists),
    assignPriceList: (
      list: lists.PriceListRecord,
      { id = nextId(), ...order }: Order<lists.AssignmentOrder>,
    ) => answer(lists.assignPriceList(database, list, { id, ...order }), deadline_ms, id),
    getAssignment: soon(lists.getAssignment),
    endAssignment: soon(lists.endAssignment),
    listAssignments: sums(lists.listAssignments),
    countAssignments: sums(lists.countAssignments),
    updateAssignments: sums(lists.updateAssignments),
    credit: ({ id = nextId(), ...order }: Order<credits.CreditOrder>) =>
      answer(credits.credit(database, { id, ...order }), deadline_ms, id),
    getCredit: soon(credits.getCredit),
    voidCredit: soon(credits.voidCredit),
    /** The refunds of a call (D106); null while one of several shards does not answer. */
    refundedOf: async (call_id: string): Promise<bigint | null> =>
      (await soon(credits.refundedCall)(call_id)).refunded_nano,
    listCredits: (account_id: string, page: Page) =>
      ofAccount(account_id, async () => {
        const after = page.after === null ? null : await soon(credits.getTimedCredit)(page.after)
        if (page.after !== null && after === null) return { data: [], next: null }
        return credits.pageOfCredits(
          await soon(credits.creditsBefore)(account_id, after, page.limit + 1),
          page,
        )
      }),
    listCalls: sums(listCalls),
    getCall: soon(getCall),
    archiveOf: soon(archiveOf),
    /** The next events of the feed (D96). */
    events: (query: FeedQuery) => readFeeds([[name, () => sums(readFeed)(name, query)]], query),
    createSink: ({ id = nextId(), ...sink }: Order<sinks.NewSink>) =>
      answer(sinks.createSink(database, { id, ...sink }), sums_deadline_ms, id),
    listSinks: sums(sinks.listSinks),
    changeSink: sums(sinks.changeSink),
    rotateSink: sums(sinks.rotateSink),
    replaySink: sums(sinks.replaySink),
    deleteSink: soon(sinks.deleteSink),
    sumUsage: sums(sumUsage),
    timeline: (span: Span, by: Split, groups: number) => sums(timeline)(span, by, groups),
    latency: async (span: Span) => addLatencies([await sums(latencies)(span)]),
    outcomes: sums(outcomes),
    /** With `onProgress`, the deadline covers only the first piece, and each statement has its own. */
    audit: async (options: AuditOptions, begin_ms: number | null = audit_deadline_ms): Promise<Audit> => {
      const begun = Promise.withResolvers<null>()
      const running = audit(database, {
        ...options,
        onProgress(progress) {
          begun.resolve(null)
          options.onProgress?.(progress)
        },
      })
      const is_followed = options.onProgress !== undefined
      await answer(is_followed ? Promise.race([begun.promise, running]) : running, begin_ms)
      const found = await answer(running, null)
      const whole = { ...found, violations: [...found.violations, ...((await unheld?.()) ?? [])] }
      onAudit?.(whole)
      await soon(recordAudit)(whole, options)
      return whole
    },
    listAudits: soon(listAudits),
    /** Checks the sums of a day, by default the first one that has sums. Null if it has none. */
    checkSums: async (day: Date | null) => {
      const first = day ?? (await soon(firstDay)())
      return first === null ? null : audited(checkDay)(first)
    },
    listMonths: soon(listMonths),
    checkSeal: async (month: MonthOfShard, from: string | null) => audited(checkSeal)(monthOf(month), from),
    dumpPart: async (month: MonthOfShard, from: string | null) => audited(dumpPart)(monthOf(month), from),
    noteDump: async (month: MonthOfShard, dump: Parameters<typeof noteDump>[2]) =>
      soon(noteDump)(monthOf(month), dump),
    dropMonth: async (month: MonthOfShard) => sums(dropMonth)(monthOf(month)),
    /** Begins or continues to move an account to a shard (D76). */
    move: async (id: string, _shard: string): Promise<MoveState> =>
      (await soon(accounts.getAccount)(id)) === null ? { outcome: "no_account" } : { outcome: "one_shard" },
  }
}

/**
 * Questions whose answers from every shard are added. The answer of a single database goes the same way, because adding also sorts and
 * checks.
 */
export function addedAnswers(
  all: <Answer>(question: (questions: DatabaseQuestions) => Promise<Answer>) => Promise<readonly Answer[]>,
) {
  return {
    balanceAt: async (...args: ArgumentsOf<typeof balanceAt>) =>
      addBalances(await all(({ sums }) => sums(balanceAt)(...args))),
    statement: async (...args: ArgumentsOf<typeof accountStatement>) =>
      addStatements(await all(({ sums }) => sums(accountStatement)(...args))),
    trialBalance: async (at: Date) => addTrialBalances(await all(({ sums }) => sums(trialBalance)(at))),
    estimates: async (...args: ArgumentsOf<typeof readEstimates>) =>
      addEstimates(await all(({ soon }) => soon(readEstimates)(...args))),
    refusals: async (...args: ArgumentsOf<typeof readRefusals>) =>
      addRefusals(await all(({ soon }) => soon(readRefusals)(...args))),
    attempts: async (...args: ArgumentsOf<typeof sumAttempts>) =>
      addAttempts(await all(({ sums }) => sums(sumAttempts)(...args))),
    reconciled: async (range: ReconciledRange) =>
      addReconciled(await all(({ sums }) => sums(reconciled)(range))),
    notedUsage: async (days: number) => addNotedUsage(await all(({ sums }) => sums(notedUsage)(days))),
  }
}

type ArgumentsOf<Question> = Question extends (database: PostgresJsDatabase, ...args: infer Args) => unknown
  ? Args
  : never
