import { nextId } from "../id.ts"
import { type OneOrMore, oneOrMore } from "../wire/list.ts"
import { type Account, findAccount, getAccount, mergeAccounts } from "./accounts/accounts.ts"
import { getBudget } from "./accounts/budgets.ts"
import * as credits from "./accounts/credits.ts"
import { getCustomerPrice } from "./accounts/customer-prices.ts"
import { findEndUser, removeName } from "./accounts/end-users.ts"
import { getKey } from "./accounts/keys.ts"
import type { KeyHolder, OwnKeyResult } from "./accounts/own-keys.ts"
import { findPriceLists, getAssignment, getPriceList } from "./accounts/price-lists.ts"
import { type AuditOptions, type AuditProgress, addAudits } from "./archive/audit.ts"
import { answerOf } from "./database/answer.ts"
import { UnknownShard } from "./entries.ts"
import { listBudgetLog } from "./feed/budget-log.ts"
import { readFeed, readFeeds } from "./feed/feed.ts"
import { mergeSinks, oneSink } from "./feed/sinks.ts"
import { Moves } from "./moves/moves.ts"
import {
  addedAnswers,
  type DatabaseOperators,
  DEADLINES,
  type Deadlines,
  databaseOperators,
  type OperatedDatabase,
  type OperatorLedger,
} from "./operators.ts"
import { latencies } from "./reports/latency.ts"
import * as merge from "./reports/merge.ts"
import { addCheckedDays, checkDay, earliest, firstDay } from "./reports/sum-hours.ts"
import { timeline, timelineNames } from "./reports/timeline.ts"
import { type GroupedSpan, groupNames, MAX_ALL_GROUPS, type UsageSummary } from "./reports/usage-sums.ts"

interface OperatorShard extends Pick<OperatedDatabase, "name" | "open" | "database"> {
  readonly operators: DatabaseOperators
}

interface ShardAnswer<Answer> {
  readonly shard: OperatorShard
  readonly answer: Answer
}

type OperatorQuestion<Answer> = (operators: DatabaseOperators) => Promise<Answer>

export function operatorLedger(
  databases: OneOrMore<OperatedDatabase>,
  deadlines: Deadlines = DEADLINES,
): OperatorLedger {
  const is_shard = databases.length > 1
  const shards = databases.map((each) => ({
    ...each,
    operators: databaseOperators({ ...each, is_shard }, deadlines),
  }))
  return is_shard ? shardedOperators(shards, deadlines) : oneOrMore(shards)[0].operators
}

/** The ledger in several databases. An error names the shard that did not answer. */
export function shardedOperators(
  shards: readonly OperatorShard[],
  { deadline_ms, sums_deadline_ms }: Deadlines = DEADLINES,
): OperatorLedger {
  const names = shards.map(({ name }) => name)
  const moves = new Moves(shards)
  const [home] = oneOrMore(shards)

  const all = <Answer>(question: OperatorQuestion<Answer>) =>
    Promise.all(shards.map(({ operators }) => question(operators)))
  /** The answer of the one shard that has it. Rejects if no shard has it and one did not answer. */
  const first = <Answer>(question: OperatorQuestion<Answer | null>): Promise<ShardAnswer<Answer> | null> =>
    merge.firstFound(
      shards.map(async (shard) => {
        const answer = await question(shard.operators)
        return answer === null ? null : { shard, answer }
      }),
    )
  const live = (id: string) => first(({ soon }) => soon(getAccount)(id))
  const keyed = (id: string) => first(({ soon }) => soon(getKey)(id))
  const credited = (id: string) => first(({ soon }) => soon(credits.getCredit)(id))
  const priced = (id: string) => first(({ soon }) => soon(getCustomerPrice)(id))
  const listed = (id: string) => first(({ soon }) => soon(getPriceList)(id))
  const assigned = (id: string) => first(({ soon }) => soon(getAssignment)(id))
  const budgeted = (id: string) => first(({ soon }) => soon(getBudget)(id))
  /** Asks the shard in which something was found. Null if no shard has it. */
  const there = async <Answer>(
    looking: Promise<ShardAnswer<unknown> | null>,
    question: OperatorQuestion<Answer>,
  ): Promise<Answer | null> => {
    const found = await looking
    return found && question(found.shard.operators)
  }
  /** Makes a resource of an account in its shard. The operator's own id may be that of a resource in another shard. */
  const makeIn = async <Made>(
    { account_id, id }: { readonly account_id: string; readonly id?: string | undefined },
    find: (id: string) => Promise<ShardAnswer<unknown> | null>,
    make: OperatorQuestion<Made>,
  ): Promise<Made | { readonly outcome: "no_account" } | { readonly outcome: "conflict" }> => {
    const found = await live(account_id)
    if (found === null) return { outcome: "no_account" }
    const known = id === undefined ? null : await find(id)
    if (known !== null && known.shard !== found.shard) return { outcome: "conflict" }
    return make(found.shard.operators)
  }
  const ofHolder = async (
    { account_id }: KeyHolder,
    change: OperatorQuestion<OwnKeyResult>,
  ): Promise<OwnKeyResult> => (await there(live(account_id), change)) ?? { outcome: "invalid_api_key" }
  /** The facts about a call from the other shards, which have it if its account has moved since (D106). */
  const refundsBeside = async (shard: OperatorShard, call_id: string, account_id: string) => {
    const others = shards.filter((other) => other !== shard)
    const refunds = others.map(({ operators: { soon } }) => soon(credits.refundedCall)(call_id, account_id))
    return credits.addRefunded(await Promise.all(refunds))
  }
  const ofShard = (shard: string | undefined) => {
    const found = shards.find(({ name }) => name === shard)
    if (found === undefined) throw new UnknownShard(names)
    return found.operators
  }
  /** The same calls in every shard: one that an account has left has calls of its keys, but not the keys. */
  const ofAccount = async <Filter extends { readonly key_id?: string | undefined }>(
    query: Filter,
    account_id: string | undefined,
  ): Promise<string | undefined> =>
    account_id === undefined && query.key_id !== undefined
      ? (await keyed(query.key_id))?.answer.account_id
      : account_id
  const inAll = async <Range extends Pick<GroupedSpan, "account_ids" | "key_id">>(span: Range) => {
    if (span.account_ids !== undefined) return span
    const account_id = await ofAccount(span, undefined)
    return account_id === undefined ? span : { ...span, account_ids: [account_id] }
  }
  const sumUsage = async (query: GroupedSpan, most?: number): Promise<UsageSummary> => {
    const range = await inAll(query)
    const whole = merge.addUsage(await all((operators) => operators.sumUsage(range, MAX_ALL_GROUPS)), most)
    const groups = await merge.nameUsage(whole.groups, range, (by, ids) =>
      all(({ soon }) => soon(groupNames)(by, ids)),
    )
    return { ...whole, groups }
  }
  const auditOf = async ({ name, operators }: OperatorShard, options: AuditOptions, begin_ms?: null) => {
    const found = await operators.audit(options, begin_ms)
    return { ...found, violations: found.violations.map((each) => ({ ...each, shard: name })) }
  }

  return {
    ...addedAnswers(all),
    ...home.operators.at_home,
    async createAccount({ id, ...account }) {
      const { external_id } = account
      const same = external_id == null ? null : await first(({ soon }) => soon(findAccount)(external_id))
      if (same !== null && id !== undefined && same.answer.id !== id) return { outcome: "conflict" }
      const known = same ?? (id === undefined ? null : await live(id))
      if (known !== null) return { outcome: "known", account: named(known) }
      const own = { ...account, id: id ?? nextId() }
      // Two requests with the same external id choose the same shard, whose index lets one of them make the account.
      const shard = await shardFor(shards, external_id ?? own.id, id === undefined && external_id == null)
      if (shard === null) return { outcome: "none_open" }
      const made = await shard.operators.createAccount(own)
      return made.outcome === "none_open" || made.outcome === "conflict"
        ? made
        : { ...made, account: named({ shard, answer: made.account }) }
    },
    async getAccount(id) {
      const found = await live(id)
      return found && named(found)
    },
    async listAccounts(page, query) {
      const last = page.after === null ? null : ((await live(page.after))?.answer ?? null)
      const pages = shards.map(async (shard) => {
        const { data, next } = await shard.operators.listAccounts(page, { ...query, last })
        return { data: data.map((answer) => named({ shard, answer })), next }
      })
      return mergeAccounts(await Promise.all(pages), page, query?.sort)
    },
    async changeAccount(id, change) {
      const found = await live(id)
      if (found === null) return null
      const { shard } = found
      const { external_id } = change
      const same = external_id == null ? null : await first(({ soon }) => soon(findAccount)(external_id))
      if (same !== null && same.answer.id !== id) return "conflict"
      const answer = await shard.operators.changeAccount(id, change)
      return answer === null || answer === "conflict" ? answer : named({ shard, answer })
    },
    createKey: (key) => makeIn(key, keyed, (operators) => operators.createKey(key)),
    getKey: async (id) => (await keyed(id))?.answer ?? null,
    listKeys: (account_id, page) =>
      there(live(account_id), (operators) => operators.listKeys(account_id, page)),
    changeKey: (id, change) => there(keyed(id), (operators) => operators.changeKey(id, change)),
    rotateKey: async (change) =>
      (await there(keyed(change.id), (operators) => operators.rotateKey(change))) ?? { outcome: "no_key" },
    revokeKey: async (id) => (await there(keyed(id), (operators) => operators.revokeKey(id))) ?? false,
    async makeOwnKey(holder, key) {
      const known = key.id === undefined ? null : await keyed(key.id)
      if (known !== null && known.answer.account_id !== holder.account_id) return { outcome: "conflict" }
      return ofHolder(holder, (operators) => operators.makeOwnKey(holder, key))
    },
    rotateOwnKey: (holder, change) => ofHolder(holder, (operators) => operators.rotateOwnKey(holder, change)),
    revokeOwnKey: (holder, id) => ofHolder(holder, (operators) => operators.revokeOwnKey(holder, id)),
    /**
     * Removes the name also in shards that the account has left, and in its own one last: until all is done, the name finds the end
     * user, so that what has failed can be repeated.
     */
    async forgetEndUser(account_id, end_user) {
      const found = await live(account_id)
      if (found === null) return null
      const ids = await all(({ soon }) => soon(findEndUser)(account_id, end_user))
      const id = ids[shards.indexOf(found.shard)] ?? ids.find((one) => one !== null)
      if (id === undefined || id === null) return null
      const left = shards.filter((shard) => shard !== found.shard)
      await Promise.all(left.map(({ operators: { soon } }) => soon(removeName)(id)))
      return found.shard.operators.forgetEndUser(account_id, id)
    },
    createBudget: (budget) => makeIn(budget, budgeted, (operators) => operators.createBudget(budget)),
    getBudget: async (id) => (await budgeted(id))?.answer ?? null,
    listBudgets: (account_id, page) =>
      there(live(account_id), (operators) => operators.listBudgets(account_id, page)),
    listBudgetLog: async (...args) =>
      (await first(({ sums }) => sums(listBudgetLog)(...args)))?.answer ?? null,
    changeBudget: (id, update) => there(budgeted(id), (operators) => operators.changeBudget(id, update)),
    setCustomerPrice: (price) => makeIn(price, priced, (operators) => operators.setCustomerPrice(price)),
    getCustomerPrice: async (id) => (await priced(id))?.answer ?? null,
    listCustomerPrices: (account_id, page) =>
      there(live(account_id), (operators) => operators.listCustomerPrices(account_id, page)),
    endCustomerPrice: (id, end) => there(priced(id), (operators) => operators.endCustomerPrice(id, end)),
    /** Each list is in one shard, and new ones in the first, whose index keeps names unique. */
    async createPriceList({ id = nextId(), ...list }) {
      const same = await all(({ soon }) => soon(findPriceLists)({ id, name: list.name }))
      const found = same.flat().sort((one) => (one.id === id ? -1 : 1))[0]
      if (found !== undefined)
        return found.id === id ? { outcome: "known", list: found } : { outcome: "name_taken" }
      return home.operators.createPriceList({ id, ...list })
    },
    changePriceList: async (change) =>
      (await there(listed(change.list_id), (operators) => operators.changePriceList(change))) ?? {
        outcome: "no_list",
      },
    getPriceList: async (id) => (await listed(id))?.answer ?? null,
    listPriceLists: async (page) =>
      merge.mergePages(await all((operators) => operators.listPriceLists(page)), page),
    assignPriceList: (list, order) =>
      makeIn(order, assigned, (operators) => operators.assignPriceList(list, order)),
    getAssignment: async (id) => (await assigned(id))?.answer ?? null,
    endAssignment: (id, end) => there(assigned(id), (operators) => operators.endAssignment(id, end)),
    listAssignments: async (list, page) =>
      merge.mergePages(await all((operators) => operators.listAssignments(list, page)), page),
    async countAssignments(list) {
      const counts = await all((operators) => operators.countAssignments(list))
      return {
        assigned: sumOf(counts.map((each) => each.assigned)),
        pending: sumOf(counts.map((each) => each.pending)),
      }
    },
    /** Goes on where the shard with most assignments does. A repetition in the others changes nothing. */
    async updateAssignments(list, after) {
      const parts = await all((operators) => operators.updateAssignments(list, after))
      const [next = null] = parts
        .flatMap(({ next }) => next ?? [])
        .sort()
        .reverse()
      return { left: sumOf(parts.map(({ left }) => left)), next }
    },
    async credit(order) {
      // The id or the reference may be that of a credit of another account, or of this one before it moved.
      const { id, account_id, source_ref, call_id } = order
      const known =
        id === undefined && source_ref === undefined
          ? null
          : await first(({ soon }) => soon(credits.findCredit)({ id, source_ref }))
      const found = await live(account_id)
      if (found === null) return { outcome: "no_account" }
      if (known !== null) {
        const conflict = credits.conflictOf(known.answer, order)
        if (conflict !== null) return conflict
        const { soon } = known.shard.operators
        const [credit] = await soon(credits.withRemaining)(account_id, [known.answer])
        if (credit === undefined) throw new Error("a credit was lost")
        return { outcome: "known", credit, account: named(found) }
      }
      const { shard } = found
      const refunds = call_id === undefined ? undefined : await refundsBeside(shard, call_id, account_id)
      const made = await shard.operators.credit({ ...order, refunds })
      return "account" in made ? { ...made, account: named({ shard, answer: made.account }) } : made
    },
    getCredit: async (id) => (await credited(id))?.answer ?? null,
    async voidCredit(id, reason) {
      const found = await credited(id)
      if (found === null) return null
      const { shard } = found
      const made = await shard.operators.voidCredit(id, reason)
      return made !== null && "account" in made
        ? { ...made, account: named({ shard, answer: made.account }) }
        : made
    },
    refundedOf: (call_id) => credits.addRefunds(shards.map(({ operators }) => operators.refundedOf(call_id))),
    /** Those that were made before a move are in another shard. */
    async listCredits(account_id, page) {
      const { limit, after } = page
      if ((await live(account_id)) === null) return null
      const last = after === null ? null : await first(({ soon }) => soon(credits.getTimedCredit)(after))
      if (after !== null && last === null) return { data: [], next: null }
      const found = await all(({ soon }) =>
        soon(credits.creditsBefore)(account_id, last?.answer ?? null, limit + 1),
      )
      return credits.pageOfCredits(found.flat(), page)
    },
    async listCalls(query, page) {
      const filter = { ...query, account_id: await ofAccount(query, query.account_id) }
      return merge.mergePages(await all((operators) => operators.listCalls(filter, page)), page)
    },
    getCall: async (id) => (await first((operators) => operators.getCall(id)))?.answer ?? null,
    archiveOf: async (id) => (await first((operators) => operators.archiveOf(id)))?.answer ?? null,
    events: (query) =>
      readFeeds(
        shards.map(({ name, operators }) => [name, () => operators.sums(readFeed)(name, query)]),
        query,
      ),
    async createSink({ id = nextId(), ...sink }) {
      const made = await all((operators) => operators.createSink({ id, ...sink }))
      return made.find(({ outcome }) => outcome === "conflict") ?? oneOrMore(made)[0]
    },
    listSinks: async () => mergeSinks(await all((operators) => operators.listSinks())),
    changeSink: async (id, change) => oneSink(await all((operators) => operators.changeSink(id, change))),
    rotateSink: async (...args) => oneSink(await all((operators) => operators.rotateSink(...args))),
    replaySink: async (id, from) => oneSink(await all((operators) => operators.replaySink(id, from))),
    deleteSink: async (id) => (await all((operators) => operators.deleteSink(id))).includes(true),
    sumUsage,
    /** Asks all shards first which groups cost most in total, and then for those groups. */
    async timeline(query, by, groups) {
      const span = await inAll(query)
      const ranked = await sumUsage({ ...span, by })
      const chosen = ranked.groups.slice(0, groups).map(({ group }) => String(group))
      const parts = await all(({ sums }) => sums(timeline)(span, by, chosen))
      const whole = merge.addTimelines(parts, chosen, ranked.groups.length + ranked.left_out - chosen.length)
      const named_groups = await merge.nameGroups(whole.groups, (ids) =>
        all(({ soon }) => soon(timelineNames)(by, ids)),
      )
      return { ...whole, groups: named_groups }
    },
    async latency(query) {
      const span = await inAll(query)
      return merge.addLatencies(await all(({ sums }) => sums(latencies)(span)))
    },
    async outcomes(query) {
      const span = await inAll(query)
      return merge.addOutcomes(await all((operators) => operators.outcomes(span)))
    },
    async audit({ onProgress, ...options }) {
      if (onProgress === undefined)
        return addAudits(await Promise.all(shards.map((shard) => auditOf(shard, options))))
      const found = []
      for (const shard of shards) {
        const audit_options = {
          ...options,
          onProgress: (at: AuditProgress) => onProgress({ ...at, shard: shard.name }),
        }
        // The first shard has answered in time; the others may take as long as they need.
        found.push(await auditOf(shard, audit_options, found.length === 0 ? undefined : null))
      }
      return addAudits(found)
    },
    async listAudits(page) {
      const pages = shards.map(async ({ name, operators }) => {
        const { data, next } = await operators.listAudits(page)
        return { data: data.map((record) => ({ ...record, shard: name })), next }
      })
      return merge.mergePages(await Promise.all(pages), page)
    },
    async checkSums(day) {
      const from = day ?? earliest(await all(({ soon }) => soon(firstDay)()))
      return from === null ? null : addCheckedDays(await all(({ audited }) => audited(checkDay)(from)))
    },
    async listMonths() {
      const listed = shards.map(async ({ name, operators }) => {
        const found = await operators.listMonths()
        return found.map((month) => ({ ...month, shard: name }))
      })
      const found = (await Promise.all(listed)).flat()
      return found.sort((left, right) => right.month.localeCompare(left.month))
    },
    checkSeal: async (month, from) => ofShard(month.shard).checkSeal(month, from),
    dumpPart: async (month, from) => ofShard(month.shard).dumpPart(month, from),
    noteDump: async (month, dump) => ofShard(month.shard).noteDump(month, dump),
    dropMonth: async (month) => ofShard(month.shard).dropMonth(month),
    async move(id, shard) {
      if (!(await answerOf(moves.isKnown(id), deadline_ms))) return { outcome: "no_account" }
      const to = shards.find(({ name }) => name === shard)
      return to === undefined
        ? { outcome: "no_shard", known: names }
        : answerOf(moves.move(id, to), sums_deadline_ms)
    },
  }
}

const sumOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0)

function named({ shard, answer }: ShardAnswer<Account>): Account {
  return { ...answer, shard: shard.name }
}

/**
 * The shard for a new account: one of those that are open, in an order that depends on the id alone, so that accounts are
 * spread evenly, and two requests with the same id choose the same shard. A new id takes the first one that answers.
 */
async function shardFor(shards: readonly OperatorShard[], id: string, is_new: boolean) {
  const weightOf = ({ name }: OperatorShard) => Bun.hash.xxHash64(`${id} ${name}`)
  const choices = shards
    .filter(({ open }) => open)
    .sort((left, right) => (weightOf(left) < weightOf(right) ? 1 : -1))
  const [chosen = null, ...others] = choices
  if (!is_new || others.length === 0) return chosen
  const answers = await Promise.allSettled(choices.map(({ operators }) => operators.getAccount(id)))
  return choices.find((_, at) => answers[at]?.status === "fulfilled") ?? chosen
}
