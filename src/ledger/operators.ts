import { nextId } from "../id.ts"
import { type OneOrMore, oneOrMore } from "../wire/list.ts"
import type { Split } from "../wire/statistics.ts"
import * as accounts from "./accounts/accounts.ts"
import * as budgets from "./accounts/budgets.ts"
import * as credits from "./accounts/credits.ts"
import * as prices from "./accounts/customer-prices.ts"
import * as users from "./accounts/end-users.ts"
import * as keys from "./accounts/keys.ts"
import * as log from "./accounts/operator-log.ts"
import * as people from "./accounts/operators.ts"
import * as lists from "./accounts/price-lists.ts"
import { archiveOf, dropMonth, noteDump } from "./archive/archive.ts"
import { type Audit, type AuditOptions, addAudits, audit, listAudits, recordAudit } from "./archive/audit.ts"
import { dumpPart } from "./archive/dump.ts"
import { checkSeal, listMonths } from "./archive/seals.ts"
import { answerOf } from "./database/answer.ts"
import { batchedLookup } from "./database/batched-lookup.ts"
import type { Page, PageOf } from "./database/page.ts"
import type { Span } from "./database/span.ts"
import { listBudgetLog } from "./feed/budget-log.ts"
import { type FeedQuery, readFeed, readFeeds } from "./feed/feed.ts"
import * as sinks from "./feed/sinks.ts"
import { type MoveState, movesBetween } from "./moves/moves.ts"
import { addEstimates, readEstimates } from "./queue/estimates.ts"
import { readRefusals, refusalSums } from "./queue/refusals.ts"
import { attemptSums, sumAttempts } from "./reports/attempts.ts"
import { addBalances, balanceAt } from "./reports/balance.ts"
import { type CallFilter, getCall, listCalls } from "./reports/calls.ts"
import { addLatencies, latencies } from "./reports/latency.ts"
import { mergePages } from "./reports/merge.ts"
import { outcomeSums, outcomes } from "./reports/outcomes.ts"
import { reconciled, reconciledSums } from "./reports/reconciliation.ts"
import { accountStatement, addStatements, addTrialBalances, trialBalance } from "./reports/statement.ts"
import { addCheckedDays, checkDay, earliest, firstDay } from "./reports/sum-hours.ts"
import { type Timeline, timelineCells, timelineNames, timelineOf } from "./reports/timeline.ts"
import { notedSums, notedUsage } from "./reports/usage-notes.ts"
import {
  type GroupedSpan,
  groupNames,
  namesIn,
  readUsage,
  type TakeGroups,
  type UsageSource,
  usageOf,
} from "./reports/usage-sums.ts"
import {
  type Located,
  type OperatedDatabase,
  type Read,
  type Shard,
  shardQuestions,
} from "./shard-questions.ts"

export const DEADLINES = {
  /** As long as a call waits (D27). */
  deadline_ms: 2_000,
  /** For questions that read many entries: sums, whose statements may take 8 s (D48), statistics, past balances, lists of calls, a new limit or budget. */
  sums_deadline_ms: 10_000,
  /** For an audit, which reads all calls of open months: less than the idle timeout of a connection. */
  audit_deadline_ms: 55_000,
}

/** Fields of a new resource. The same `id` again makes nothing; an absent one is generated. */
type Order<Made extends { readonly id: string }> = Omit<Made, "id"> & { readonly id?: string | undefined }

/** The ledger as operators use it (D74). Methods reject with `NoAnswer` if a needed database fails or is late. */
export type OperatorLedger = ReturnType<typeof operatorLedger>

export function operatorLedger(databases: OneOrMore<OperatedDatabase>, deadlines = DEADLINES) {
  const { deadline_ms, sums_deadline_ms: sums_ms, audit_deadline_ms: audit_ms } = deadlines
  const { shards, home, all, first, found, there, added, ofMonth } = shardQuestions(databases, deadline_ms)
  const moves = movesBetween(shards)
  const live = first(accounts.getAccount)
  const keyed = first(keys.getKey)
  /** Makes a resource of an account in its shard. The operator's own id may be that of a resource in another shard. */
  const makeIn = async <Made>(
    read: Read,
    { account_id, id }: { readonly account_id: string; readonly id?: string | undefined },
    make: (shard: Shard) => Promise<Made>,
  ): Promise<Made | { readonly outcome: "no_account" } | { readonly outcome: "conflict" }> => {
    const account = await live(account_id)
    if (account === null) return { outcome: "no_account" }
    const known = id === undefined ? null : await first(read)(id)
    if (known !== null && known.shard !== account.shard) return { outcome: "conflict" }
    return make(account.shard)
  }
  const ofHolder = async (
    { account_id }: keys.KeyHolder,
    change: (shard: Shard) => Promise<keys.OwnKeyResult>,
  ): Promise<keys.OwnKeyResult> => {
    const account = await live(account_id)
    return account === null ? { outcome: "invalid_api_key" } : change(account.shard)
  }
  const accountNamed = async (external_id: string | null | undefined) =>
    external_id == null ? null : first(accounts.findAccount)(external_id)
  /**
   * The account of a key, by which all shards select the key's calls. After a move the old shard keeps the calls, but
   * not the key.
   */
  const ofAccount = async (key_id: string | undefined, account_id: string | undefined) =>
    account_id === undefined && key_id !== undefined ? (await keyed(key_id))?.answer.account_id : account_id
  const inAll = async <Range extends Pick<Span, "account_ids" | "key_id">>(span: Range): Promise<Range> => {
    if (span.account_ids !== undefined) return span
    const account_id = await ofAccount(span.key_id, undefined)
    return account_id === undefined ? span : { ...span, account_ids: [account_id] }
  }
  const usage = async (query: GroupedSpan, most: number, take: TakeGroups) => {
    const sources = shards.map(
      ({ database, names = database, label }): UsageSource => ({
        label,
        read: (...asked) => readUsage(database, ...asked),
        names: (...asked) => answerOf(groupNames(names, ...asked), deadline_ms, label),
      }),
    )
    return usageOf(sources, await inAll(query), most, take, sums_ms)
  }
  const auditOf = async (
    { database, label, ask, unheld, onAudit }: Shard,
    options: AuditOptions,
    begin_ms: number | null = audit_ms,
  ): Promise<Audit> => {
    const begun = Promise.withResolvers<null>()
    const running = audit(database, {
      ...options,
      onProgress(progress) {
        begun.resolve(null)
        options.onProgress?.({ ...progress, ...label })
      },
    })
    const is_followed = options.onProgress !== undefined
    await answerOf(is_followed ? Promise.race([begun.promise, running]) : running, begin_ms, label)
    const read = await answerOf(running, null, label)
    const whole = { ...read, violations: [...read.violations, ...((await unheld?.()) ?? [])] }
    onAudit?.(whole)
    await ask(recordAudit)(whole, options)
    return { ...whole, violations: whole.violations.map((each) => ({ ...each, ...label })) }
  }

  return {
    openSession: home.ask(people.openSession),
    actorOfSession: home.ask(people.actorOfSession),
    endSession: home.ask(people.endSession),
    endSessionsOf: home.ask(people.endSessionsOf),
    createOperator: (order: Order<people.OperatorOrder>) => home.make(people.createOperator, order),
    getOperator: home.ask(people.getOperator),
    listOperators: home.ask(people.listOperators),
    rotateOperator: home.ask(people.rotateOperator),
    revokeOperator: home.ask(people.revokeOperator),
    operatorOfToken: batchedLookup(home.ask(people.operatorsOfTokens)),
    beginChange: home.ask(log.beginChange),
    endChange: home.ask(log.endChange),
    listChanges: home.ask(log.listChanges, sums_ms),
    async createAccount({ id, ...account }: Order<accounts.NewAccount>): Promise<accounts.AccountResult> {
      const { external_id } = account
      const same = await accountNamed(external_id)
      if (same !== null && id !== undefined && same.answer.id !== id) return { outcome: "conflict" }
      const known = same ?? (id === undefined ? null : await live(id))
      if (known !== null) return { outcome: "known", account: labelled(known) }
      const own = { ...account, id: id ?? nextId() }
      // Two requests with the same external id choose the same shard, whose index lets one of them make the account.
      const shard = await shardFor(shards, external_id ?? own.id, id === undefined && external_id == null)
      if (shard === null) return { outcome: "none_open" }
      const made = await shard.make(accounts.createAccount, own)
      return "account" in made ? withLabel(shard, made) : made
    },
    async getAccount(id: string): Promise<accounts.Account | null> {
      const at = await live(id)
      return at && labelled(at)
    },
    async listAccounts(page: Page, query?: accounts.AccountFilter): Promise<PageOf<accounts.Account>> {
      const last = page.after === null ? null : ((await live(page.after))?.answer ?? null)
      const pages = shards.map(async (shard) => {
        const { data, next } = await shard.ask(accounts.listAccounts)(page, { ...query, last })
        return { data: data.map((answer) => labelled({ shard, answer })), next }
      })
      return accounts.mergeAccounts(await Promise.all(pages), page, query?.sort)
    },
    async changeAccount(id: string, change: accounts.AccountChange) {
      const at = await live(id)
      if (at === null) return null
      const same = await accountNamed(change.external_id)
      if (same !== null && same.answer.id !== id) return "conflict"
      const { shard } = at
      const answer = await shard.ask(accounts.changeAccount)(id, change)
      return answer === null || answer === "conflict" ? answer : labelled({ shard, answer })
    },
    createKey: (key: Order<keys.NewKey>) => makeIn(keys.getKey, key, ({ make }) => make(keys.createKey, key)),
    getKey: found(keys.getKey),
    listKeys: there(accounts.getAccount, keys.listKeys),
    changeKey: there(keys.getKey, keys.changeKey, sums_ms),
    rotateKey: async (change: keys.SecretChange): Promise<keys.RotationResult> => {
      const at = await keyed(change.id)
      return at === null ? { outcome: "no_key" } : at.shard.ask(keys.rotateKey)(change)
    },
    revokeKey: async (id: string) => (await there(keys.getKey, keys.revokeKey)(id)) ?? false,
    /** Changes by the holder of a key (D104). */
    async makeOwnKey(holder: keys.KeyHolder, key: Order<keys.OwnKeyOrder>) {
      const known = key.id === undefined ? null : await keyed(key.id)
      if (known !== null && known.answer.account_id !== holder.account_id)
        return { outcome: "conflict" } as const
      return ofHolder(holder, ({ make }) =>
        make((database, order) => keys.makeOwnKey(database, holder, order), key),
      )
    },
    rotateOwnKey: (holder: keys.KeyHolder, change: keys.SecretChange) =>
      ofHolder(holder, ({ ask }) => ask(keys.rotateOwnKey)(holder, change)),
    revokeOwnKey: (holder: keys.KeyHolder, id: string) =>
      ofHolder(holder, ({ ask }) => ask(keys.revokeOwnKey)(holder, id)),
    /**
     * Null for an unknown end user or account (D94). Removes the name also in shards that the account has left, and in its own one last:
     * until all is done, the name finds the end user, so that what has failed can be repeated.
     */
    async forgetEndUser(account_id: string, end_user: string) {
      const account = await live(account_id)
      if (account === null) return null
      const ids = await all(users.findEndUser)(account_id, end_user)
      const id = ids[shards.indexOf(account.shard)] ?? ids.find((one) => one !== null)
      if (id === undefined || id === null) return null
      const left = shards.filter((shard) => shard !== account.shard)
      await Promise.all(left.map(({ ask }) => ask(users.removeName)(id)))
      const user = await account.shard.ask(users.forgetEndUser)(account_id, id)
      if (user !== null) account.shard.onForgotten?.(user.id)
      return user
    },
    createBudget: (budget: Order<budgets.BudgetOrder>) =>
      makeIn(budgets.getBudget, budget, ({ make }) => make(budgets.createBudget, budget, sums_ms)),
    getBudget: found(budgets.getBudget),
    listBudgets: there(accounts.getAccount, budgets.listBudgets),
    listBudgetLog: found(listBudgetLog, sums_ms),
    changeBudget: there(budgets.getBudget, budgets.changeBudget, sums_ms),
    setCustomerPrice: (price: Order<prices.CustomerPriceOrder>) =>
      makeIn(prices.getCustomerPrice, price, ({ make }) => make(prices.setCustomerPrice, price)),
    getCustomerPrice: found(prices.getCustomerPrice),
    listCustomerPrices: there(accounts.getAccount, prices.listCustomerPrices),
    endCustomerPrice: there(prices.getCustomerPrice, prices.endCustomerPrice),
    /** Each list is in one shard, and new ones in the first, whose index keeps names unique. */
    async createPriceList({ id = nextId(), ...list }: Order<lists.PriceListOrder>) {
      const same = await all(lists.findPriceLists)({ id, name: list.name })
      const [known] = same.flat().sort((one) => (one.id === id ? -1 : 1))
      if (known === undefined) return home.make(lists.createPriceList, { id, ...list })
      return known.id === id
        ? ({ outcome: "known", list: known } as const)
        : ({ outcome: "name_taken" } as const)
    },
    async changePriceList(change: Order<lists.PriceListUpdate>): Promise<lists.PriceListResult> {
      const at = await first(lists.getPriceList)(change.list_id)
      return at === null ? { outcome: "no_list" } : at.shard.make(lists.changePriceList, change)
    },
    getPriceList: found(lists.getPriceList),
    listPriceLists: async (page: Page) => mergePages(await all(lists.listPriceLists)(page), page),
    assignPriceList: (list: lists.PriceListRecord, order: Order<lists.AssignmentOrder>) =>
      makeIn(lists.getAssignment, order, ({ make }) =>
        make((database, made) => lists.assignPriceList(database, list, made), order),
      ),
    getAssignment: found(lists.getAssignment),
    endAssignment: there(lists.getAssignment, lists.endAssignment),
    listAssignments: async (list: lists.PriceListRecord, page: Page) =>
      mergePages(await all(lists.listAssignments, sums_ms)(list, page), page),
    countAssignments: added(lists.addAssignments, lists.countAssignments, sums_ms),
    updateAssignments: added(lists.addUpdates, lists.updateAssignments, sums_ms),
    async credit(order: Order<credits.CreditOrder>): Promise<credits.CreditResult> {
      // The id or the reference may be that of a credit of another account, or of this one before it moved.
      const { id, account_id, source_ref, call_id } = order
      const known =
        id === undefined && source_ref === undefined
          ? null
          : await first(credits.findCredit)({ id, source_ref })
      const account = await live(account_id)
      if (account === null) return { outcome: "no_account" }
      if (known !== null) {
        const conflict = credits.conflictOf(known.answer, order)
        if (conflict !== null) return conflict
        const [credit] = await known.shard.ask(credits.withRemaining)(account_id, [known.answer])
        if (credit === undefined) throw new Error("a credit was lost")
        return { outcome: "known", credit, account: labelled(account) }
      }
      const { shard } = account
      // A call is in another shard if its account has moved since (D106).
      const others = call_id === undefined ? [] : shards.filter((other) => other !== shard)
      const refunds = others.map(({ ask }) => ask(credits.refundedCall)(call_id ?? "", account_id))
      const paid = { ...order, refunds: credits.addRefunded(await Promise.all(refunds)) }
      const made = await shard.make(credits.credit, paid)
      return "account" in made ? withLabel(shard, made) : made
    },
    getCredit: found(credits.getCredit),
    async voidCredit(id: string, reason: string | null) {
      const at = await first(credits.getCredit)(id)
      const made = at && (await at.shard.ask(credits.voidCredit)(id, reason))
      return at && made && "account" in made ? withLabel(at.shard, made) : made
    },
    /** The refunds of a call (D106); null while a shard does not answer. */
    refundedOf: (call_id: string) =>
      credits.addRefunds(shards.map(({ ask }) => ask(credits.refundedOf)(call_id))),
    /** Those that were made before a move are in another shard. */
    async listCredits(account_id: string, page: Page) {
      const { limit, after } = page
      if ((await live(account_id)) === null) return null
      const last = after === null ? null : await first(credits.getTimedCredit)(after)
      if (after !== null && last === null) return { data: [], next: null }
      const before = await all(credits.creditsBefore)(account_id, last?.answer ?? null, limit + 1)
      return credits.pageOfCredits(before.flat(), page)
    },
    async listCalls(query: CallFilter, page: Page) {
      const filter = { ...query, account_id: await ofAccount(query.key_id, query.account_id) }
      return mergePages(await all(listCalls, sums_ms)(filter, page), page)
    },
    getCall: found(getCall),
    archiveOf: found(archiveOf),
    events: (query: FeedQuery) =>
      readFeeds(
        shards.map(({ name, ask }) => [name, () => ask(readFeed, sums_ms)(name, query)]),
        query,
      ),
    async createSink({ id = nextId(), ...sink }: Order<sinks.NewSink>) {
      const making = shards.map(({ make }) => make(sinks.createSink, { id, ...sink }, sums_ms))
      const made = await Promise.all(making)
      return made.find(({ outcome }) => outcome === "conflict") ?? oneOrMore(made)[0]
    },
    listSinks: added(sinks.mergeSinks, sinks.listSinks, sums_ms),
    changeSink: added(sinks.oneSink, sinks.changeSink, sums_ms),
    rotateSink: added(sinks.oneSink, sinks.rotateSink, sums_ms),
    replaySink: added(sinks.oneSink, sinks.replaySink, sums_ms),
    deleteSink: async (id: string) => (await all(sinks.deleteSink)(id)).includes(true),
    readUsage: usage,
    /** The groups that cost most in total, and the rest together. */
    async timeline(query: Span, by: Split, groups: number): Promise<Timeline> {
      const span = await inAll(query)
      const chosen: string[] = []
      const { left_out } = await usage({ ...span, by }, groups, async (ranked) => {
        chosen.push(...ranked.map(({ values }) => String(values[0])))
      })
      const parts = await all(timelineCells, sums_ms)(span, by, chosen)
      const names = await namesIn(shards.map(({ ask }) => ask(timelineNames)(by, chosen)))
      return { ...(await timelineOf(span, chosen, parts, names)), left_out }
    },
    async latency(span: Span) {
      const range = await inAll(span)
      return addLatencies(await all(latencies, sums_ms)(range))
    },
    async outcomes(span: Span) {
      const range = await inAll(span)
      return outcomeSums.merge(await all(outcomes, sums_ms)(range))
    },
    balanceAt: added(addBalances, balanceAt, sums_ms),
    statement: added(addStatements, accountStatement, sums_ms),
    trialBalance: added(addTrialBalances, trialBalance, sums_ms),
    estimates: added(addEstimates, readEstimates),
    refusals: added(refusalSums.merge, readRefusals),
    attempts: added(attemptSums.merge, sumAttempts, sums_ms),
    reconciled: added(reconciledSums.merge, reconciled, sums_ms),
    notedUsage: added(notedSums.merge, notedUsage, sums_ms),
    /** With `onProgress`, the deadline covers only the first piece, and each statement has its own. */
    async audit(options: AuditOptions): Promise<Audit> {
      if (options.onProgress === undefined)
        return addAudits(await Promise.all(shards.map((shard) => auditOf(shard, options))))
      const audits: Audit[] = []
      // The first shard has answered in time; the others may take as long as they need.
      for (const shard of shards)
        audits.push(await auditOf(shard, options, audits.length === 0 ? undefined : null))
      return addAudits(audits)
    },
    async listAudits(page: Page) {
      const pages = shards.map(async ({ label, ask }) => {
        const { data, next } = await ask(listAudits)(page)
        return { data: data.map((record) => ({ ...record, ...label })), next }
      })
      return mergePages(await Promise.all(pages), page)
    },
    /** Checks the sums of a day, by default the first one that has sums. Null if it has none. */
    async checkSums(day: Date | null) {
      const from = day ?? earliest(await all(firstDay)())
      return from === null ? null : addCheckedDays(await all(checkDay, audit_ms)(from))
    },
    async listMonths() {
      const months = shards.map(async ({ label, ask }) =>
        (await ask(listMonths)()).map((month) => ({ ...month, ...label })),
      )
      return (await Promise.all(months)).flat().sort((left, right) => right.month.localeCompare(left.month))
    },
    checkSeal: ofMonth(checkSeal, audit_ms),
    dumpPart: ofMonth(dumpPart, audit_ms),
    noteDump: ofMonth(noteDump),
    dropMonth: ofMonth(dropMonth, sums_ms),
    /** Begins or continues to move an account to a shard (D76). */
    async move(id: string, name: string): Promise<MoveState> {
      if (!(await answerOf(moves.isKnown(id), deadline_ms))) return { outcome: "no_account" }
      if (shards.length === 1) return { outcome: "one_shard" }
      const to = shards.find((shard) => shard.name === name)
      return to === undefined
        ? { outcome: "no_shard", known: shards.map((shard) => shard.name) }
        : answerOf(moves.move(id, to), sums_ms)
    },
  }
}

function labelled({ shard, answer }: Located<accounts.Account>): accounts.Account {
  return { ...answer, ...shard.label }
}

function withLabel<Made extends { readonly account: accounts.Account }>(shard: Shard, made: Made): Made {
  return { ...made, account: labelled({ shard, answer: made.account }) }
}

/**
 * The shard for a new account: one of those that are open, in an order that depends on the id alone, so that accounts are
 * spread evenly, and two requests with the same id choose the same shard. A new id takes the first one that answers.
 */
async function shardFor(shards: readonly Shard[], id: string, is_new: boolean): Promise<Shard | null> {
  const weightOf = ({ name }: Shard) => Bun.hash.xxHash64(`${id} ${name}`)
  const choices = shards
    .filter(({ open }) => open)
    .sort((left, right) => (weightOf(left) < weightOf(right) ? 1 : -1))
  const [chosen = null, ...others] = choices
  if (!is_new || others.length === 0) return chosen
  const answers = await Promise.allSettled(choices.map(({ ask }) => ask(accounts.getAccount)(id)))
  return choices.find((_, at) => answers[at]?.status === "fulfilled") ?? chosen
}
