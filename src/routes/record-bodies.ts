import { type Bucket, buckets, FIRST_RUN, toolNames } from "../kinds.ts"
import type { Account } from "../ledger/accounts/accounts.ts"
import type { Budget } from "../ledger/accounts/budgets.ts"
import type { Credit, CreditStanding } from "../ledger/accounts/credits.ts"
import type { CustomerPriceRecord } from "../ledger/accounts/customer-prices.ts"
import type { Key } from "../ledger/accounts/keys.ts"
import type { ChangeRecord } from "../ledger/accounts/operator-log.ts"
import type { OperatorRecord } from "../ledger/accounts/operators.ts"
import type { AssignedList, PriceListRecord } from "../ledger/accounts/price-lists.ts"
import type { PageOf } from "../ledger/database/page.ts"
import type { CallRecord } from "../ledger/reports/calls.ts"
import {
  dimensionsOf,
  MAX_ALL_GROUPS,
  MAX_GROUPS,
  type SummedUsage,
  type TakeGroups,
  type UsageGroup,
  type UsageTotals,
} from "../ledger/reports/usage-sums.ts"
import {
  ceilToNano,
  PAR_BP,
  PICO_PER_NANO,
  type Price,
  printMultiplier,
  printPico,
  printPrice,
  printPriceOf,
  printUsd,
} from "../money.ts"
import { type ChargeLine, linesOf } from "../settlement/price.ts"
import { mapInTurns } from "../turns.ts"
import { AccountBody, CallBody, CreatedKeyBody, KeyBody } from "../wire/admin.ts"
import { printAmount } from "../wire/budget.ts"
import { BudgetBody, OwnBudget } from "../wire/budget-bodies.ts"
import type { ProviderIds } from "../wire/call.ts"
import type { callDetails } from "../wire/call-details.ts"
import { CreditBody, GrantBody } from "../wire/credit-bodies.ts"
import { CustomerPriceBody } from "../wire/customer-prices.ts"
import { ChangeBody, changeOutcome, OperatorBody } from "../wire/operators.ts"
import { AssignmentBody, PriceListBody } from "../wire/price-lists.ts"
import type { Prices } from "../wire/prices.ts"
import { bodyOf } from "../wire/record.ts"
import { printTime } from "../wire/time.ts"
import type { Usage } from "../wire/usage.ts"
import {
  type Grouping,
  type OperatorUsageReport,
  OperatorUsageSums,
  type UsageRange,
  type UsageReport,
  UsageSums,
} from "../wire/usage-report.ts"
import { asMade, type MadeAnswer } from "./list-formats.ts"

/** Records of the ledger as bodies of the API, with the fields of their schemas. */

export async function pageBody<Row, Body>({ data, next }: PageOf<Row>, bodyOf: (row: Row) => Body) {
  return { data: await mapInTurns(data, (row) => bodyOf(row)), next }
}

export function accountBody(account: Account): AccountBody {
  const { balance_nano, held_nano, price_multiplier_bp, suspended_at } = account
  const credit_limit_nano = account.credit_limit_nano ?? 0n
  return bodyOf(AccountBody, {
    ...account,
    credit_limit_nano,
    available_nano: balance_nano + credit_limit_nano - held_nano,
    price_multiplier: printMultiplier(price_multiplier_bp),
    suspended: suspended_at !== null,
  })
}

export const creditBody = (credit: Credit): CreditBody => bodyOf(CreditBody, credit)

export const grantBody = (credit: CreditStanding): GrantBody => bodyOf(GrantBody, credit)

/** A new key. This is the only answer that contains the key itself. */
export function createdKeyBody(made: Key, key: string): CreatedKeyBody {
  return bodyOf(CreatedKeyBody, { ...commonOf(made), key })
}

export function keyBody(key: Key): KeyBody {
  return bodyOf(KeyBody, { ...commonOf(key), spent_nano: key.spending?.spent_nano ?? null })
}

function commonOf(key: Key) {
  const { spending } = key
  return {
    ...key,
    suspended: key.suspended_at !== null,
    labels: key.labels ?? {},
    required_tags: key.required_tags ?? [],
    client_tags: key.ignores_client_tags ? "ignored" : "accepted",
    spending_limit: spending && { amount: printUsd(spending.limit_nano), per: spending.period },
    group: key.group_path,
    // No secret of a revoked key works.
    previous_until: key.revoked_at === null ? key.previous_until : null,
  }
}

export function budgetBody(budget: Budget): BudgetBody {
  return bodyOf(BudgetBody, {
    ...budget,
    ...ownBudget(budget),
    each: budget.is_each,
    amount: printAmount(budget.unit, budget.usual_amount),
    raise: raiseBody(budget),
  })
}

interface Raise<Time> {
  readonly unit: BudgetBody["unit"]
  readonly raised_amount: bigint | string | null
  readonly raised_until: Time | null
}

export function raiseBody<Time>({ unit, raised_amount, raised_until }: Raise<Time>) {
  if (raised_amount === null || raised_until === null) return null
  return { amount: printAmount(unit, BigInt(raised_amount)), until: raised_until }
}

/** A budget as its keys see it. */
export function ownBudget(budget: Budget): OwnBudget {
  const { unit, amount, spent, held, most_used, period, is_hard } = budget
  return bodyOf(OwnBudget, {
    ...budget,
    per: period,
    mode: is_hard ? "hard" : "alert",
    limit: printAmount(unit, amount),
    spent: printAmount(unit, spent),
    held: printAmount(unit, held),
    left: printAmount(unit, amount - most_used),
  })
}

/** A customer price as operators see it (D100). */
export function customerPriceBody(price: CustomerPriceRecord): CustomerPriceBody {
  const { price_multiplier_bp, end } = price
  return bodyOf(CustomerPriceBody, {
    ...price,
    ...setBody(price),
    price_multiplier: printOwn(price_multiplier_bp),
    ended: end && { at: end.at, by: end.actor, reason: end.reason, made_at: end.made_at },
  })
}

/** A call and its refunds (D106), as shown to operators. */
export function refundedCallBody(call: CallRecord, refunded_nano: bigint | null): CallBody {
  return bodyOf(CallBody, { ...callBody(call), refunded_nano })
}

/** A price list as operators see it (D110). */
export function priceListBody(list: PriceListRecord): PriceListBody {
  return bodyOf(PriceListBody, {
    ...list,
    prices: list.prices.map(({ model, price_multiplier_bp, prices }) => ({
      model,
      price_multiplier: printOwn(price_multiplier_bp),
      prices,
    })),
    set_by: list.actor,
    changed_at: list.made_at,
  })
}

export function assignmentBody(assignment: AssignedList): AssignmentBody {
  return bodyOf(AssignmentBody, { ...assignment, ...setBody(assignment) })
}

type SetPrice = Pick<AssignedList, "from_at" | "until_at" | "actor" | "made_at">

function setBody({ from_at, until_at, actor, made_at }: SetPrice) {
  return { from: from_at, until: until_at, set_by: actor, created_at: made_at }
}

const printOwn = (price_multiplier_bp: number | null) =>
  price_multiplier_bp === null ? null : printMultiplier(price_multiplier_bp)

/** A call as shown to operators; with `price_multiplier_bp`, its prices and lines are multiplied by that (D69). */
export function callBody(call: CallRecord, price_multiplier_bp: number = PAR_BP): CallBody {
  const price = priceOf(call)
  return bodyOf(CallBody, {
    ...call,
    tags: call.tags ?? {},
    held_nano: call.amount_nano,
    ...outcomeOf(call, price, price_multiplier_bp),
    ...detailsBody(call),
    price_multiplier: printMultiplier(call.price_multiplier_bp ?? PAR_BP),
    prices: pricesBody(price, call.above_tokens, call.service_tier, price_multiplier_bp),
    list_prices:
      call.list_terms === undefined
        ? null
        : pricesBody(priceOf(call.list_terms), call.above_tokens, call.service_tier),
    started_at: call.held_at,
    settled_at: call.ended_at,
  })
}

function detailsBody({
  details,
  attempts = [],
}: Pick<CallRecord, "details" | "attempts">): Pick<CallBody, keyof typeof callDetails> {
  const {
    estimate = null,
    unread = [],
    unexplained_tokens = 0,
    provider_cost_nano,
    ...asking
  } = details ?? {}
  return {
    estimate,
    unread: [...unread],
    unexplained_tokens,
    provider_cost: provider_cost_nano === undefined ? null : printUsd(BigInt(provider_cost_nano)),
    ...askingBody(asking),
    attempts: attempts.map((attempt) => ({
      upstream: attempt.upstream,
      ...askingBody(attempt),
      status: attempt.status ?? null,
      failure: attempt.failure ?? null,
      ms: attempt.ms,
    })),
  }
}

function askingBody({ key, request_id }: ProviderIds) {
  return { upstream_key: key ?? null, provider_request_id: request_id ?? null }
}

/** The fields of a call's outcome; null before its charge. */
function outcomeOf(call: CallRecord, price: Price, price_multiplier_bp: number) {
  const { amount_nano, charge_nano, basis, ending, failure } = call
  if (charge_nano === null) {
    return {
      basis: "none",
      ending: null,
      failure: null,
      charge: null,
      overage: null,
      cost: null,
      usage: null,
      lines: [],
    }
  }
  const usage = usageOf(call)
  const lines = usage === null ? [] : linesOf(usage, price)
  const listed =
    usage === null || call.list_terms === undefined ? lines : linesOf(usage, priceOf(call.list_terms))
  return {
    basis: basis ?? "none",
    ending,
    failure,
    charge: printUsd(charge_nano),
    overage: printUsd(charge_nano > amount_nano ? charge_nano - amount_nano : 0n),
    cost: printUsd(ceilToNano(listed.reduce((sum_pico, { cost_pico }) => sum_pico + cost_pico, 0n))),
    usage: usage && countsOf(usage),
    lines: lines.map((line) => lineBody(line, price_multiplier_bp)),
  }
}

function usageOf({
  prompt_tokens,
  cached_tokens,
  completion_tokens,
  buckets: kept,
  tool_runs: tools,
}: CallRecord): Usage | null {
  if (prompt_tokens === null || cached_tokens === null || completion_tokens === null) return null
  const counts = { prompt_tokens, cached_tokens, completion_tokens }
  if (kept === null) return counts
  const runs = (tools ?? []).map((tool, at) => [tool, kept[FIRST_RUN + at] ?? 0])
  return {
    ...counts,
    buckets: Object.fromEntries(buckets.map((bucket, at) => [bucket, kept[at] ?? 0])),
    tool_runs: Object.fromEntries(runs),
  }
}

function countsOf({ prompt_tokens, cached_tokens, completion_tokens }: Usage) {
  return { prompt_tokens, cached_tokens, completion_tokens }
}

type PriceColumns = Pick<
  NonNullable<CallRecord["list_terms"]>,
  | "input_pico"
  | "cached_input_pico"
  | "output_pico"
  | "per_call_nano"
  | "tool_runs"
  | "tool_run_pico"
  | `${Bucket}_pico`
>

function priceOf(call: PriceColumns): Price {
  const { input_pico, cached_input_pico, output_pico, per_call_nano, tool_runs, tool_run_pico } = call
  const named = buckets.flatMap((bucket) => {
    const price_pico = call[`${bucket}_pico`]
    return price_pico === null ? [] : [[bucket, price_pico]]
  })
  const plain = { input_pico, cached_input_pico, output_pico, per_call_nano }
  const price = { ...plain, buckets: Object.fromEntries(named) }
  if (tool_runs === null) return price
  const runs = tool_runs.map((tool, at) => [tool, tool_run_pico?.[at] ?? 0n])
  return { ...price, tool_runs: Object.fromEntries(runs) }
}

/** Reads usage with at most `most` groups. */
type ReadUsage = (most: number, take: TakeGroups) => Promise<UsageTotals>

/** A usage report for clients (D48). */
export function usageReport(
  range: UsageRange,
  rows: MadeAnswer | null,
  read: ReadUsage,
): Promise<UsageReport> {
  return reportOf(range, rows, read, (sums) => bodyOf(UsageSums, sums))
}

/** The same for operators, with the cost (D69). */
export function operatorUsageReport(
  range: UsageRange,
  rows: MadeAnswer | null,
  read: ReadUsage,
): Promise<OperatorUsageReport> {
  return reportOf(range, rows, read, (sums) =>
    bodyOf(OperatorUsageSums, { ...sums, cost_nano: sums.charge_nano - sums.profit_nano }),
  )
}

/** The groups with the highest charges and the total; as rows, all groups without a total (D105). */
async function reportOf<Sums>(
  range: UsageRange,
  rows: MadeAnswer | null,
  read: ReadUsage,
  sumsOf: (sums: SummedUsage) => Sums,
) {
  const dimensions = dimensionsOf(range)
  const rowOf = (sums: UsageGroup) => ({ ...valuesOf(sums, dimensions), ...sumsOf(sums) })
  const data: ReturnType<typeof rowOf>[] = []
  const reading = read(rows === null ? MAX_GROUPS : MAX_ALL_GROUPS, async (groups) => {
    const some = await mapInTurns(groups, rowOf)
    if (rows === null) data.push(...some)
    else await rows.add(some)
  })
  const { left_out, total } = await reading.catch((error: unknown) => {
    rows?.drop()
    throw error
  })
  const report = {
    from: printTime(range.from),
    to: printTime(range.to),
    by: dimensions.join(","),
    data,
    left_out,
    total: sumsOf(total),
  }
  return rows === null ? report : asMade(report, rows)
}

const NAMED: readonly Grouping[] = ["key", "account", "end_user"]

function valuesOf({ values, names }: UsageGroup, dimensions: readonly Grouping[]) {
  const groups = values.map((value, at) => printGroup(value, dimensions[at] ?? "day"))
  const first = { group: groups[0] ?? "", name: names[0] ?? null }
  if (values.length === 1) return first
  const named = dimensions.flatMap((by, at) => (NAMED.includes(by) ? [[by, names[at] ?? null]] : []))
  return {
    ...first,
    groups: Object.fromEntries(dimensions.map((by, at) => [by, groups[at] ?? ""])),
    names: Object.fromEntries(named),
  }
}

/** A day as its date, an hour as its start. */
function printGroup(group: string | Date, by: Grouping): string {
  if (typeof group === "string") return group
  const time = printTime(group)
  return by === "day" ? time.slice(0, "2026-11-21".length) : time
}

/** The prices of a model times a price multiplier, with the service tier and the prompt size that they apply to (D60, D62, D69, D70). */
export function pricesBody(
  price: Price,
  above_tokens = 0,
  service_tier: string | null = null,
  price_multiplier_bp: number = PAR_BP,
): Prices {
  const named = buckets.flatMap((bucket) => {
    const price_pico = price.buckets?.[bucket]
    return price_pico === undefined ? [] : [[bucket, printPriceOf(bucket, price_pico, price_multiplier_bp)]]
  })
  return {
    input: printPrice(price.input_pico, price_multiplier_bp),
    cached_input: printPrice(price.cached_input_pico, price_multiplier_bp),
    output: printPrice(price.output_pico, price_multiplier_bp),
    per_call: printPico(price.per_call_nano * PICO_PER_NANO, price_multiplier_bp),
    ...Object.fromEntries(named),
    ...(price.tool_runs !== undefined && { tool_run: feesBody(price.tool_runs, price_multiplier_bp) }),
    ...(service_tier !== null && { service_tier }),
    ...(above_tokens > 0 && { above_tokens }),
  }
}

function feesBody(fees: Readonly<Record<string, bigint>>, price_multiplier_bp: number) {
  const printed = (tool: string) => [tool, printPriceOf("tool_run", fees[tool] ?? 0n, price_multiplier_bp)]
  return Object.fromEntries(toolNames(fees).map(printed))
}

function lineBody({ price_pico, cost_pico, ...line }: ChargeLine, price_multiplier_bp: number) {
  return {
    ...line,
    price: printPriceOf(line.kind, price_pico, price_multiplier_bp),
    cost: printPico(cost_pico, price_multiplier_bp),
  }
}

export const operatorBody = (operator: OperatorRecord): OperatorBody => bodyOf(OperatorBody, operator)

/** An entry of the log as operators see it. */
export function changeBody({ change, end }: ChangeRecord): ChangeBody {
  const { made_id = null, after = null, status = null } = end ?? {}
  return bodyOf(ChangeBody, { ...change, made_id, after, status, outcome: changeOutcome(status) })
}
