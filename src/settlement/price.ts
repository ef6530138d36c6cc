import type { Model } from "../config/config.ts"
import {
  type Bucket,
  buckets,
  fallbackOf,
  isBucket,
  type Kind,
  parentOf,
  recordOf,
  toolNames,
} from "../kinds.ts"
import { ceilToNano, costWithin, isFree, PICO_PER_NANO, type Price, type ServiceTier } from "../money.ts"
import type { Note } from "../wire/call.ts"
import { OWN_TIERS_SERVED } from "../wire/fields.ts"
import type { Buckets, Usage } from "../wire/usage.ts"
import type { Verdict } from "./decide.ts"

export interface Priced {
  readonly charge_nano: bigint
  /** Reported and estimated tokens, as charged; null if nothing is charged. */
  readonly usage: Usage | null
  readonly notes: readonly Note[]
}

type Settled = Extract<Verdict, { outcome: "settled" }>

/**
 * Prices a verdict: one sum, times the price multiplier of the account (D69), rounded up once. Reported usage is
 * charged in full; a charge above the hold is noted as `overage` (D11). Estimated tokens are charged only as far as the
 * hold `amount_nano` covers them (D6), and only charged tokens are recorded. `searches`: their number if the provider
 * does not count them (D60).
 */
export function priceVerdict(
  verdict: Verdict,
  price: Price,
  amount_nano: bigint,
  searches = 0,
  price_multiplier_bp?: number,
): Priced {
  if (verdict.outcome === "released") return { charge_nano: 0n, usage: null, notes: verdict.notes }
  const reported = withPricedBuckets(verdict.reported ?? NOTHING, price, searches)
  const { prompt_tokens, completion_tokens } = verdict.estimated
  const usage =
    prompt_tokens === 0 && completion_tokens === 0
      ? reported.usage
      : withEstimate(reported.usage, verdict.estimated, price, costWithin(amount_nano, price_multiplier_bp))
  const charge_nano = isZero(usage) ? 0n : ceilToNano(costPico(usage, price), price_multiplier_bp)
  const notes = reported.notes.length === 0 ? verdict.notes : [...verdict.notes, ...reported.notes]
  return { charge_nano, usage, notes: charge_nano > amount_nano ? [...notes, "overage"] : notes }
}

/** Usage of 0 charges nothing, the price of a call included (D2, D44). */
function isZero({ prompt_tokens, completion_tokens }: Usage): boolean {
  return prompt_tokens === 0 && completion_tokens === 0
}

/** The exact cost in pico-USD. Cached tokens and buckets are parts of prompt and completion (D3, D44, D60). */
export function costPico(usage: Usage, price: Price): bigint {
  const uncached = BigInt(usage.prompt_tokens - usage.cached_tokens)
  const cached = BigInt(usage.cached_tokens)
  const completion = BigInt(usage.completion_tokens)
  const tokens =
    uncached * price.input_pico + cached * price.cached_input_pico + completion * price.output_pico
  const difference = usage.buckets === undefined ? 0n : bucketsPico(usage.buckets, price)
  const runs = usage.tool_runs === undefined ? 0n : runsPico(usage.tool_runs, price)
  return tokens + difference + runs + price.per_call_nano * PICO_PER_NANO
}

function runsPico(runs: ChargedToolRuns, { tool_runs: prices = {} }: Price): bigint {
  return Object.entries(runs).reduce((sum, [tool, count]) => sum + BigInt(count) * (prices[tool] ?? 0n), 0n)
}

/** The extra cost of tokens of buckets, above other tokens of the prompt or the completion. */
function bucketsPico(counts: Buckets, price: Price): bigint {
  let sum_pico = 0n
  for (const bucket of buckets) {
    const price_pico = price.buckets?.[bucket]
    if (price_pico === undefined) continue
    sum_pico += BigInt(counts[bucket] ?? 0) * (price_pico - parentPico(bucket, price))
  }
  return sum_pico
}

function parentPico(bucket: Bucket, price: Price): bigint {
  const parent = parentOf(bucket)
  return parent === null ? 0n : price[`${parent}_pico`]
}

/** The reported usage, and as much of the estimate as `amount_pico` covers, the prompt first. */
function withEstimate(base: Usage, estimated: Settled["estimated"], price: Price, amount_pico: bigint) {
  const prompt = affordableTokens(
    estimated.prompt_tokens,
    price.input_pico,
    amount_pico - costPico(base, price),
  )
  const increased = { ...base, prompt_tokens: base.prompt_tokens + prompt }
  const completion = affordableTokens(
    estimated.completion_tokens,
    price.output_pico,
    amount_pico - costPico(increased, price),
  )
  return { ...increased, completion_tokens: increased.completion_tokens + completion }
}

const NOTHING: Usage = { prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0 }

/** The part of `tokens` that `room_pico` covers. */
function affordableTokens(tokens: number, price_pico: bigint, room_pico: bigint): number {
  if (BigInt(tokens) * price_pico <= room_pico) return tokens
  return room_pico > 0n ? Number(room_pico / price_pico) : 0
}

/** The most searches, pages and runs of one tool that one answer is charged for (D60). */
const MAX_UNITS = 1_000

const NO_NOTES: readonly Note[] = []

/**
 * Usage with the buckets and tool runs that have a price (D60). No bucket is larger than the rest of its parent. Other
 * tokens are charged as their parent, with a note if they need a price. `searches` are charged if the provider counts
 * none.
 */
function withPricedBuckets(
  usage: Usage,
  price: Price,
  searches: number,
): Omit<Priced, "charge_nano"> & { usage: Usage } {
  if (usage.buckets === undefined && usage.tool_runs === undefined && searches === 0)
    return { usage, notes: NO_NOTES }
  const { buckets: counts_of_bucket = {}, tool_runs, ...counts } = usage
  const prices = price.buckets ?? {}
  const notes = new Set<Note>()
  const { cached_tokens: cached_input, prompt_tokens, completion_tokens: output } = counts
  const remaining = { input: prompt_tokens - cached_input, cached_input, output }
  const charged: Partial<Record<Bucket, number>> = {}
  const charge = (bucket: Bucket, count: number) => {
    const parent = parentOf(bucket)
    const fitting = Math.min(count, parent === null ? MAX_UNITS : remaining[parent])
    if (fitting < count) notes.add("details_clamped")
    if (parent !== null) remaining[parent] -= fitting
    if (fitting > 0) charged[bucket] = (charged[bucket] ?? 0) + fitting
  }
  for (const bucket of buckets) {
    const count = counts_of_bucket[bucket] ?? 0
    if (count === 0) continue
    const fallback = fallbackOf(bucket)
    const named = prices[bucket] === undefined && fallback !== null ? fallback : bucket
    if (isBucket(named) && prices[named] !== undefined) charge(named, count)
    else if (fallback === null && !isFree(price)) notes.add("unpriced")
  }
  if (counts_of_bucket.web_search === undefined && searches > 0 && prices.web_search !== undefined) {
    charge("web_search", searches)
    notes.add("searches_estimated")
  }
  const runs = tool_runs === undefined ? null : pricedRuns(tool_runs, price, notes)
  return {
    usage: {
      ...counts,
      ...(Object.keys(charged).length > 0 && { buckets: charged }),
      ...(runs !== null && { tool_runs: runs }),
    },
    notes: [...notes],
  }
}

/** The runs of each priced tool, also 0, because the journal has no names. Null if none ran. */
function pricedRuns(reported: ChargedToolRuns, price: Price, notes: Set<Note>): ChargedToolRuns | null {
  const prices = price.tool_runs ?? {}
  for (const [tool, count] of Object.entries(reported)) {
    if (count > MAX_UNITS && prices[tool] !== undefined) notes.add("details_clamped")
    if (count > 0 && prices[tool] === undefined && !isFree(price)) notes.add("unpriced")
  }
  const runs = recordOf(toolNames(prices), (tool) => Math.min(reported[tool] ?? 0, MAX_UNITS))
  return Object.values(runs).some((count) => count > 0) ? runs : null
}

type ChargedToolRuns = NonNullable<Usage["tool_runs"]>

/** A line of a receipt (D60): one kind of token, its count, its price and the product. */
export interface ChargeLine {
  readonly kind: Kind
  /** Of `tool_run`: the provider's name of the tool. */
  readonly tool?: string
  /** Tokens, or other units; 1 of `per_call`. */
  readonly count: number
  /** Of one. */
  readonly price_pico: bigint
  readonly cost_pico: bigint
}

/**
 * The lines whose sum, rounded up once, is the charge. Kinds with a count of 0 are left out. Usage of 0 has no lines
 * (D2).
 */
export function linesOf(usage: Usage, price: Price): readonly ChargeLine[] {
  const { prompt_tokens, cached_tokens, completion_tokens } = usage
  if (prompt_tokens === 0 && completion_tokens === 0) return []
  const counts = usage.buckets ?? {}
  const within = (parent: "input" | "cached_input" | "output") =>
    buckets.reduce((sum, bucket) => sum + (parentOf(bucket) === parent ? (counts[bucket] ?? 0) : 0), 0)
  const line = (kind: Kind, count: number, price_pico: bigint): ChargeLine[] =>
    count === 0 ? [] : [{ kind, count, price_pico, cost_pico: BigInt(count) * price_pico }]
  const { tool_runs: runs = {} } = usage
  return [
    ...line("input", prompt_tokens - cached_tokens - within("input"), price.input_pico),
    ...line("cached_input", cached_tokens - within("cached_input"), price.cached_input_pico),
    ...line("output", completion_tokens - within("output"), price.output_pico),
    ...buckets.flatMap((bucket) => line(bucket, counts[bucket] ?? 0, price.buckets?.[bucket] ?? 0n)),
    ...toolNames(runs).flatMap((tool) =>
      line("tool_run", runs[tool] ?? 0, price.tool_runs?.[tool] ?? 0n).map((one) => ({ ...one, tool })),
    ),
    ...(price.per_call_nano === 0n ? [] : line("per_call", 1, price.per_call_nano * PICO_PER_NANO)),
  ]
}

/** The service tier whose price counts; null for the model's own price. */
interface ServedTier {
  readonly tier: ServiceTier | null
  /** True if it is the requested tier, and the provider does not confirm it. */
  readonly is_presumed: boolean
  /** True if the provider served a tier that has no price. */
  readonly is_unpriced: boolean
}

const OWN: ServedTier = { tier: null, is_presumed: false, is_unpriced: false }

/** The service tier whose price counts (D70): the served one, else the requested one, else none. */
export function servedTier(model: Model, requested: string | null, served: string | null): ServedTier {
  if (served !== null) {
    const tier = tierOf(model, served)
    if (tier !== null) return { tier, is_presumed: false, is_unpriced: false }
    if (OWN_TIERS_SERVED.has(served)) return OWN
  }
  const tier = requested === null ? null : tierOf(model, requested)
  return { tier, is_presumed: tier !== null, is_unpriced: served !== null && !isFree(model.price) }
}

function tierOf({ service_tiers }: Model, name: string): ServiceTier | null {
  for (const tier of service_tiers) if (tier.name === name) return tier
  return null
}
