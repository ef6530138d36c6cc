import { Call } from "../call/call.ts"
import type { Config, Model } from "../config/config.ts"
import { catalogue, GatewayError } from "../errors.ts"
import type {
  BudgetUse,
  CallLedger,
  Hold,
  HoldResult,
  Idempotency,
  Labelled,
  Labels,
  Owner,
  Standing,
} from "../ledger/entries.ts"
import { atMultiplier, heldFor } from "../money.ts"
import type { NamedModel, OperationOn, Passed } from "../operations/operation.ts"
import type { BudgetUnit } from "../wire/budget.ts"
import type { FieldTexts } from "../wire/json.ts"
import { type Accepted, type Accepting, standingOf, usableKey } from "./accept.ts"
import type { Catalog } from "./catalog.ts"
import { customerPriceOf, soldNow } from "./customer-prices.ts"
import type { Described } from "./described.ts"
import { type ClientLabels, labelledOf } from "./labels.ts"
import { applyModelPolicy } from "./model-policy.ts"
import { budgetRefusal, moneyRefusal, type Quote, quote } from "./quote.ts"

interface CountedBudget extends BudgetUse {
  readonly is_hard: boolean
}

interface BudgetReports<Counted> {
  budgets(owner: Owner, model: string, labelled: Labelled | null): Promise<readonly Counted[]>
}

/** The parts of the gateway that admission uses. */
interface Admitting extends Accepting {
  readonly ledger: CallLedger
  readonly catalog: Catalog
  /** True if any of these routes may be tried now (D33). */
  readonly breakers: { ready(routes: Model["routes"], account_id: string): boolean }
  readonly config: Pick<Config, "limits" | "tags">
  readonly reports: BudgetReports<CountedBudget>
  readonly metrics: { budgetReached(budget: BudgetUse): void; pricesChanged(): void }
}

export interface ParsedRequest<Request> {
  readonly body: Request
  readonly texts: FieldTexts
  readonly described: Described
  readonly idempotency: Idempotency | null
  readonly passed: Passed | null
  readonly client_labels: ClientLabels | null
}

/** Holds a call whose key was accepted. Checks in the order of D30: model, upstreams, then what the hold checks. */
export async function admit<Request extends NamedModel>(
  gateway: Admitting,
  operation: OperationOn<Request>,
  id: string,
  accepted: Accepted,
  { body: request, texts, described, idempotency, passed, client_labels }: ParsedRequest<Request>,
): Promise<Call> {
  const { ledger, catalog, in_flight, breakers } = gateway
  const { key_hash } = accepted
  const found = catalog.find(request.model, operation.name)
  if (found instanceof GatewayError) throw found
  const allowed = applyModelPolicy(operation.name, request, texts, described, found, passed?.headers)
  if (allowed instanceof GatewayError) {
    checkAllowed(await usableKey(ledger, key_hash), found)
    throw allowed
  }
  in_flight.startRunning()
  try {
    const quoted = quote(operation, allowed, found)
    if (!breakers.ready(found.routes, accepted.owner.account_id))
      throw await refusalWithoutUpstream(gateway, key_hash, found, client_labels, (model) =>
        model === found ? quoted : quote(operation, allowed, model),
      )
    const session = passed?.session ?? null
    const holdAs = async (owner: Owner) => {
      const is_plain = client_labels === null && owner.tag_rules === undefined
      const [by, labels] = is_plain ? [owner, null] : await labelsFor(gateway, key_hash, owner, client_labels)
      const price = by.prices && customerPriceOf(by.prices, found)
      const is_listed = price === undefined || price.prices === null
      const { model, terms_ids } = is_listed
        ? catalog.listed(found, operation.name, by.shard)
        : await catalog.sold(found, operation.name, by.shard, price, (terms) =>
            ledger.shard(by.shard).customerTerms(terms),
          )
      const bounds = is_listed ? quoted : quote(operation, allowed, model)
      const hold: Hold = {
        id,
        account_id: by.account_id,
        key_id: by.key_id,
        amount_nano: bounds.amount_nano,
        cost_pico: bounds.cost_pico,
        tokens: bounds.tokens,
        terms_id: terms_ids[0],
        stream: operation.streams(request),
        idempotency,
        ...(session !== null && { session }),
        ...(labels !== null && { labels }),
        ...(!is_listed && { is_limited: true }),
        ...(by.tag_rules !== undefined && { labels_version: by.tag_rules.version }),
      }
      const result = await ledger.shard(by.shard).hold(hold)
      if (result.outcome === "prices_changed") {
        gateway.metrics.pricesChanged()
        if (!is_listed) catalog.forgetSold(operation.name, by.shard, price)
      }
      return { owner: by, model, terms_ids, bounds, hold, result }
    }
    let attempt = await holdAs(accepted.owner)
    for (let again = 0; again < MAX_RETRIES && OUTDATED.has(attempt.result.outcome); again += 1)
      attempt = await holdAs(await usableKey(ledger, key_hash))
    const moved =
      attempt.result.outcome === "invalid_api_key" ? await ledger.elsewhere(key_hash, attempt.owner) : null
    if (moved !== null) attempt = await holdAs(moved)
    const { owner, model, terms_ids, bounds, hold, result } = attempt
    if (result.outcome !== "held") {
      if (REREAD_AFTER.has(result.outcome)) ledger.forget(key_hash)
      throw refusalOf(gateway, result, bounds, model)
    }
    const call = new Call(
      operation,
      atMultiplier(hold, result.price_multiplier_bp),
      model,
      terms_ids,
      bounds,
      in_flight,
      accepted,
      owner.shard,
    )
    call.rates = result.rates
    return call
  } catch (error) {
    in_flight.refuse()
    throw error
  }
}

/** A call's labels (D94), and the owner whose rules they obey. Faults are judged by the current rules. */
async function labelsFor(
  { ledger, config }: Admitting,
  key_hash: string,
  owner: Owner,
  client: ClientLabels | null,
): Promise<readonly [Owner, Labels | null]> {
  let by = owner
  let labelled: Labelled | null
  try {
    labelled = labelledOf(by, client, config.tags)
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    by = await usableKey(ledger, key_hash)
    labelled = labelledOf(by, client, config.tags)
  }
  return [by, labelled === null ? null : await ledger.shard(by.shard).labels(labelled)]
}

/** Outcomes of a hold with outdated tag rules or prices (D94, D100). The hold is retried with the current ones. */
const OUTDATED: ReadonlySet<HoldResult["outcome"]> = new Set(["labels_changed", "prices_changed"])
const MAX_RETRIES = 2

/** Outcomes after which the next request of the key waits for the ledger before its body is read (D30). */
const REREAD_AFTER: ReadonlySet<HoldResult["outcome"]> = new Set([
  "invalid_api_key",
  "key_suspended",
  "account_suspended",
])

export type Refused = Exclude<HoldResult, { readonly outcome: "held" }>

/** The error for a call that was not held. Counts refusals by budgets. */
function refusalOf({ metrics }: Pick<Admitting, "metrics">, result: Refused, quoted: Quote, model: Model) {
  switch (result.outcome) {
    case "insufficient_balance":
    case "spending_limit_reached":
      return moneyRefusal(quoted, model, result)
    case "budget_reached":
      metrics.budgetReached(result.budget)
      return budgetRefusal(quoted, model, result)
    case "idempotency_key_used":
    case "idempotency_key_reused":
      return new GatewayError(result.outcome, {
        message: `${catalogue[result.outcome].message} The earlier call is ${result.call_id}: GET /v1/calls/${result.call_id} returns its receipt.`,
        fields: { call: result.call_id },
      })
    case "model_not_allowed":
      return new GatewayError(result.outcome, { param: "model" })
    case "labels_changed":
    case "prices_changed":
      return new GatewayError("ledger_unavailable")
    default:
      return new GatewayError(result.outcome)
  }
}

/** The error for a call that no upstream would take. What a hold would refuse comes first (D30). */
async function refusalWithoutUpstream(
  gateway: Admitting,
  key_hash: string,
  found: Model,
  client_labels: ClientLabels | null,
  quotedFor: (model: Model) => Quote,
): Promise<GatewayError> {
  const { model, standing } = soldNow(found, await usableKey(gateway.ledger, key_hash))
  const quoted = quotedFor(model)
  const budgets = await budgetsFor(gateway, standing, model, client_labels)
  const refused = predictRefusal(standing, budgets, model.name, quoted)
  return refused === null
    ? new GatewayError("upstream_unavailable")
    : refusalOf(gateway, refused, quoted, model)
}

/** The budgets in which a call with these labels would count (D97). Throws if the key's rules forbid the labels (D94). */
export async function budgetsFor<Counted extends CountedBudget>(
  { reports, config }: Pick<Admitting, "config"> & { readonly reports: BudgetReports<Counted> },
  standing: Standing,
  model: Model,
  client_labels: ClientLabels | null,
): Promise<readonly Counted[]> {
  const labelled = labelledOf(standing, client_labels, config.tags)
  return standing.is_limited ? reports.budgets(standing, model.name, labelled) : []
}

/** The refusal of a hold of this cost, in the order of the holding statement's checks; null if it would be held. */
export function predictRefusal(
  standing: Standing,
  budgets: readonly CountedBudget[],
  model: string,
  { cost_pico, tokens }: Pick<Quote, "cost_pico" | "tokens">,
): Exclude<Refused, { readonly outcome: "labels_changed" | "prices_changed" }> | null {
  const { models, available_nano, spending, price_multiplier_bp } = standing
  const multiplied = price_multiplier_bp === undefined ? {} : { price_multiplier_bp }
  if (standing.key_suspended) return { outcome: "key_suspended" }
  if (models !== null && !models.includes(model)) return { outcome: "model_not_allowed" }
  if (standing.account_suspended) return { outcome: "account_suspended" }
  const amount_nano = heldFor(cost_pico, price_multiplier_bp)
  if (spending !== null && spending.remaining_nano < amount_nano)
    return { outcome: "spending_limit_reached", ...spending, ...multiplied }
  const reached = reachedOf(budgets, { usd: amount_nano, tokens: BigInt(tokens), requests: 1n })
  if (available_nano < amount_nano && (reached === undefined || reached.wait_ms !== undefined))
    return { outcome: "insufficient_balance", available_nano, ...multiplied }
  return reached === undefined ? null : { outcome: "budget_reached", ...reached, ...multiplied }
}

/**
 * The hard budget that refuses the call; of several the one that the holding statement names (`exceeded`). Budgets for
 * which waiting does not help come first, then those that have room when open calls end, then budgets per minute, by
 * the longest wait. Among equals the tightest counts.
 */
function reachedOf(budgets: readonly CountedBudget[], needs: Readonly<Record<BudgetUnit, bigint>>) {
  const ranked = budgets
    .filter(({ is_hard, unit, amount, spent, held }) => is_hard && amount - spent - held < needs[unit])
    .map((budget) => {
      const { period, unit, amount, spent, held } = budget
      const needed = needs[unit]
      const left = amount - spent - held
      const is_rate = period === "minute" && needed <= amount
      const wait_ms = is_rate ? Number(((needed - left) * 60_000n) / (amount || 1n)) : undefined
      return {
        budget: { ...budget, needed },
        wait_ms,
        rank: is_rate ? 2 : amount - spent >= needed ? 1 : 0,
        share: Number(left) / Math.max(Number(needed), 1),
      }
    })
    .sort(
      (one, other) =>
        one.rank - other.rank ||
        (other.wait_ms ?? 0) - (one.wait_ms ?? 0) ||
        one.share - other.share ||
        (one.budget.id < other.budget.id ? -1 : 1),
    )
  const [first] = ranked
  if (first === undefined) return undefined
  const { budget, wait_ms } = first
  return { budget, ...(wait_ms !== undefined && { wait_ms }) }
}

/** Throws if the key of a call that holds nothing may not make it: suspended, or limited to other models (D15, D42). */
export function checkAllowed(standing: Standing, { name }: Model): void {
  const refused = predictRefusal({ ...standing, spending: null }, [], name, { cost_pico: 0n, tokens: 0 })
  if (refused?.outcome === "model_not_allowed") throw new GatewayError(refused.outcome, { param: "model" })
  if (refused !== null && refused.outcome !== "insufficient_balance") throw new GatewayError(refused.outcome)
}

/** The standing of a valid key (D26), for a request that holds nothing. Throws `rate_limited` too (D38). */
export async function activeKey(
  gateway: Omit<Accepting, "in_flight">,
  key_hash: string,
  request: Request,
): Promise<Standing> {
  const { ledger, key_loads, config } = gateway
  const { limits } = config
  const known = ledger.owner(key_hash)
  if (known !== null) key_loads.checkRate(known.key_id, limits.per_key)
  const standing = await standingOf(gateway, key_hash, request)
  if (standing === null || !standing.active) throw new GatewayError("invalid_api_key")
  key_loads.count(standing.key_id, limits.per_key)
  return standing
}
