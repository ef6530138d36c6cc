import type { CostBounds } from "../call/call.ts"
import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { type Bucket, bucketsHeldFor, isBucket, unitOf } from "../kinds.ts"
import type { HoldResult } from "../ledger/entries.ts"
import { costWithin, heldFor, PICO_PER_NANO, type Price, printUsd, type Rate } from "../money.ts"
import type { Operation } from "../operations/operation.ts"
import { printAmount } from "../wire/budget.ts"
import { OWN_TIER, TOOL_RUN, TOOLS } from "../wire/fields.ts"
import type { Media, MediaKind } from "../wire/media.ts"
import { printTime } from "../wire/time.ts"
import { MAX_TOKENS } from "../wire/usage.ts"
import { type Described, openingField } from "./described.ts"

/** The hold of a call, and the bounds from which it follows (D12). */
export interface Quote extends CostBounds {
  /** The most that the call can cost, at least 1, before the price multiplier and the one rounding (D69). */
  readonly cost_pico: bigint
  /** The hold at a price multiplier of 1. */
  readonly amount_nano: bigint
  /** UTF-8 bytes of the JSON text of the prompt fields, without the data of media. */
  readonly prompt_bytes: number
  /**
   * The most tokens of the prompt: text, media and tools, at most `context_tokens`; for an open prompt `context_tokens`
   * for each round.
   */
  readonly prompt_tokens_bound: number
  /** The most output tokens of one choice. */
  readonly output_tokens_bound: number
  /** Output tokens of a choice that no limit bounds (D12). */
  readonly unlimited_tokens: number
  /** The least output limit that is held, whatever the operation's own limit is. */
  readonly least_limit: number
  /** The field of the request that limits its output tokens; null where there are none. */
  readonly limit_field: string | null
  /** The most tokens that the call can use, for budgets of tokens (D97). */
  readonly tokens: number
  /** The highest cost at each price that may apply; `cost_pico` is the largest of them (D62, D70). */
  readonly costs: readonly MostCost[]
}

/** The most that a request can cost: prompt and outputs at their bounds and highest prices, and fees (D12). */
export function quote({ generates, limit_field }: Operation, described: Described, model: Model): Quote {
  const { max_tokens, other_limit, predicted_bytes, choices: n, switches } = described
  const prompt_tokens_bound = promptBound(described, model)
  const unlimited_tokens = thinkingBound(described, model) + predicted_bytes
  const limit = Math.max(max_tokens || model.hold_output_tokens, other_limit)
  const most_output = largestOutput(described, model)
  const output_tokens_bound = generates ? Math.min(limit + unlimited_tokens, most_output) : 0
  const costs = mostCosts(described, prompt_tokens_bound, model)
  const cost_pico = mostOf(costs, BigInt(output_tokens_bound) * BigInt(n))
  return {
    cost_pico,
    amount_nano: heldFor(cost_pico),
    prompt_bytes: described.bytes,
    estimate_bytes: estimateBytes(described, model),
    prompt_tokens_bound,
    output_tokens_bound,
    unlimited_tokens,
    least_limit: other_limit,
    n,
    tokens: prompt_tokens_bound + output_tokens_bound * n,
    limit_field,
    limits: {
      prompt_tokens: plausiblePrompt(described, model),
      completion_tokens: generates ? plausibleOutput(max_tokens, most_output) * n : 0,
    },
    searches: switches.has("web_search") ? 1 : 0,
    service_tier: described.service_tier,
    is_hiding: described.uses_reasoning || hidesPrompt(described, model),
    writes_for_an_hour: switches.has("cache_write_1h"),
    costs,
  }
}

/** The most output tokens of a choice, without the request's limit. A beta allows more than the model's own limit (D12). */
function largestOutput({ switches, max_tokens }: Described, { max_output_tokens }: Model): number {
  return switches.has("larger_output")
    ? Math.max(max_output_tokens, Math.min(max_tokens, MAX_TOKENS))
    : max_output_tokens
}

/** The most reasoning tokens beyond the output limit: the requested ones, or those that the model uses by default (D12). */
function thinkingBound(
  { thinking_tokens, disables_thinking }: Described,
  { unlimited_thinking }: Model,
): number {
  if (thinking_tokens !== null) return thinking_tokens
  return unlimited_thinking && !disables_thinking ? Number.POSITIVE_INFINITY : 0
}

function mostOf(costs: readonly MostCost[], output_tokens: bigint): bigint {
  let most_pico = 1n
  for (const { before_output_pico, output_pico } of costs) {
    const cost_pico = before_output_pico + output_tokens * output_pico
    if (cost_pico > most_pico) most_pico = cost_pico
  }
  return most_pico
}

/** Output is plausible up to `factor` times what was asked for, and up to `tokens` in any case (D1). */
const PLAUSIBLE_OUTPUT = { factor: 8, tokens: 32_768 }

/** Plausible output tokens of a choice. A provider that ignores `max_tokens` still generates at most what the model can. */
function plausibleOutput(max_tokens: number, most_output: number): number {
  const limit = Math.min(max_tokens || most_output, most_output)
  return Math.max(PLAUSIBLE_OUTPUT.factor * limit, most_output, PLAUSIBLE_OUTPUT.tokens)
}

/** The largest `max_tokens` whose hold `available_nano` covers; null if not even 1 fits, or without output. */
export function largestMaxTokens(
  quoted: Quote,
  model: Model,
  available_nano: bigint,
  price_multiplier_bp?: number,
): number | null {
  const { n, costs } = quoted
  const most_pico = costWithin(available_nano, price_multiplier_bp)
  let largest = Number.POSITIVE_INFINITY
  for (const { before_output_pico, output_pico } of costs) {
    const token_pico = output_pico * BigInt(n)
    const left_pico = most_pico - before_output_pico
    if (left_pico < token_pico) return null
    if (token_pico > 0n) largest = Math.min(largest, Number(left_pico / token_pico))
  }
  return Number.isFinite(largest) ? limitWithin(quoted, model, largest) : null
}

/**
 * The largest `max_tokens` for a hold of at most so many output tokens of a choice; null if none fits, or without
 * output.
 */
function limitWithin(
  { limit_field, unlimited_tokens, least_limit }: Quote,
  { max_output_tokens }: Model,
  tokens: number,
): number | null {
  if (limit_field === null) return null
  if (tokens >= max_output_tokens) return max_output_tokens
  const limit = tokens - unlimited_tokens
  return limit < Math.max(least_limit, 1) ? null : limit
}

type BudgetReached = Extract<HoldResult, { outcome: "budget_reached" }>

/** `retry-after` while open holds take the budget: about the duration of a short call. */
const RETRY_AFTER_S = 2

/**
 * The 402 of a hold that does not fit in a budget (D97). It is retryable if the budget has room once the open calls
 * have ended. If the call fits in a budget per minute later, it is a 429 with the time (D99).
 */
export function budgetRefusal(
  quoted: Quote,
  model: Model,
  { budget, price_multiplier_bp, wait_ms, rates }: BudgetReached,
): GatewayError {
  const { id, name, selector, selected, unit, period, amount, spent, held, needed, resets_at } = budget
  const print = (value: bigint) => (unit === "usd" ? `${printUsd(value)} USD` : `${value} ${unit}`)
  const is_rate = wait_ms !== undefined
  const left = amount - spent - held
  const waits = is_rate || (period !== "minute" && amount - spent >= needed)
  const max_tokens =
    unit === "usd"
      ? largestMaxTokens(quoted, model, left, price_multiplier_bp)
      : unit === "tokens"
        ? tokensWithin(quoted, model, left)
        : null
  const within = period === "total" ? "in total" : `per ${period}`
  const retry_after_s = is_rate ? Math.max(Math.ceil(wait_ms / 1_000), 1) : RETRY_AFTER_S
  const why = is_rate
    ? held > 0n && `${print(held)} are kept for a call that was refused before`
    : `${print(spent)} are spent, and open calls hold ${print(held)}`
  const cures = [
    needed > amount
      ? "The call needs more than the whole budget, so waiting does not help"
      : is_rate
        ? `Retry after ${retry_after_s} s`
        : waits
          ? "Retry when calls in progress have finished"
          : resets_at === null
            ? "Ask the operator for a higher budget"
            : `Wait until ${printTime(resets_at)}`,
    ...(max_tokens === null ? [] : [`set ${quoted.limit_field} to at most ${max_tokens}`]),
  ]
  return new GatewayError(is_rate ? "rate_limited" : "budget_reached", {
    message: `This call needs ${print(needed)}, but the budget "${name}" of ${print(amount)} ${within} has only ${print(left < 0n ? 0n : left)} left${why ? `: ${why}` : ""}. ${cures.join(", or ")}.`,
    ...(rates !== undefined && { rates }),
    fields: {
      budget: { id, name, selector, selected, unit, per: period },
      limit: printAmount(unit, amount),
      spent: printAmount(unit, spent),
      held: printAmount(unit, held),
      needed: printAmount(unit, needed),
      remaining: printAmount(unit, left),
      resets_at: resets_at && printTime(resets_at),
      retryable: waits,
      ...(max_tokens !== null && { max_tokens }),
    },
    ...(waits && { headers: { "retry-after": String(retry_after_s), "x-should-retry": "true" } }),
  })
}

/** The largest `max_tokens` of a call that can use this many tokens; null if not even 1 fits, or without output. */
function tokensWithin(quoted: Quote, model: Model, left: bigint): number | null {
  return limitWithin(quoted, model, Math.floor((Number(left) - quoted.prompt_tokens_bound) / quoted.n))
}

/** A hold that the balance, or the rest of the key's spending limit, does not cover. */
type OutOfMoney = Extract<HoldResult, { outcome: "insufficient_balance" | "spending_limit_reached" }>

/**
 * The 402 of such a hold: the needed and the remaining amount, and the largest `max_tokens` that fits, if any (D12,
 * D42).
 */
export function moneyRefusal(quoted: Quote, model: Model, refused: OutOfMoney): GatewayError {
  const { price_multiplier_bp } = refused
  const is_balance = refused.outcome === "insufficient_balance"
  const left_nano = is_balance ? refused.available_nano : refused.remaining_nano
  const [needed, left] = [printUsd(heldFor(quoted.cost_pico, price_multiplier_bp)), printUsd(left_nano)]
  const [why, cure] = is_balance
    ? [`only ${left} USD is available`, "Add credit"]
    : [
        `the key can spend only ${left} USD more this ${refused.period}`,
        `Wait for the next ${refused.period}`,
      ]
  const max_tokens = largestMaxTokens(quoted, model, left_nano, price_multiplier_bp)
  const or_less = max_tokens === null ? "" : `, or set ${quoted.limit_field} to at most ${max_tokens}`
  return new GatewayError(refused.outcome, {
    message: `This call needs a hold of ${needed} USD, but ${why}. ${cure}${or_less}.`,
    fields: {
      needed,
      [is_balance ? "available" : "remaining"]: left,
      ...(max_tokens !== null && { max_tokens }),
    },
  })
}

/** Bytes of text that a likely hold counts as one token (D68). */
const LIKELY_BYTES_PER_TOKEN = 2
/** Least tokens of a picture if the model does not set `part_tokens`. */
const PICTURE_TOKENS = 4_096

/** The most tokens of a prompt (D12); with a likely hold, the most of almost any prompt (D68). */
export function promptBound(described: Described, model: Model): number {
  const { bytes, tokens, tool_tokens, media } = described
  const { context_tokens, open, hold } = model
  if (context_tokens !== null && openingField(described, model) !== null)
    return Math.min(context_tokens * Math.min(open.hold_rounds, described.rounds), MAX_TOKENS)
  const text = hold === "likely" ? Math.ceil(bytes / LIKELY_BYTES_PER_TOKEN) : bytes
  const most = media.reduce((sum, part) => sum + partBound(part, model), text + tokens + tool_tokens)
  return Math.min(most, context_tokens ?? MAX_TOKENS)
}

/** The most tokens of a medium that has a bound (D12). */
function partBound({ kind, tokens }: Media, { part_tokens }: Model): number {
  if (kind === "image" && part_tokens !== null) return part_tokens
  return Math.max(part_tokens ?? PICTURE_TOKENS, tokens ?? 0)
}

/** Tokens that a provider may add to a prompt, and tokens of a medium, up to which usage is plausible (D1). */
const UNSEEN_PROMPT_TOKENS = 131_072
const PLAUSIBLE_PART_TOKENS = 65_536

/** The most prompt tokens that a provider can have counted (D1), even if only a part of them is held. */
function plausiblePrompt(described: Described, model: Model): number {
  const { bytes, tokens, media, repeats } = described
  const { context_tokens, open } = model
  const is_open = openingField(described, model) !== null
  if (context_tokens === null && is_open) return MAX_TOKENS
  const parts = media.reduce((sum, part) => sum + Math.max(PLAUSIBLE_PART_TOKENS, partBound(part, model)), 0)
  const added = is_open ? (context_tokens ?? 0) * (repeats ? open.max_rounds : 1) : 0
  return bytes + tokens + parts + added + UNSEEN_PROMPT_TOKENS
}

/** The bytes that an estimate of the prompt counts (D6). */
function estimateBytes({ bytes, tokens, media, embedded }: Described, model: Model): number {
  let estimate = bytes + tokens * model.bytes_per_token
  for (const part of media) estimate += estimateOf(part, model)
  for (const { media: part, characters } of embedded) estimate += estimateOf(part, model) - characters
  return estimate
}

function estimateOf({ kind, bytes }: Media, { part_tokens }: Model): number {
  return kind === "file" && bytes !== null ? bytes : (part_tokens ?? PICTURE_TOKENS)
}

/** True if only the provider knows the size of the prompt: it is open, or an estimate may undercount a medium (D9). */
function hidesPrompt(described: Described, model: Model): boolean {
  const isHiding = (part: Media) => {
    const most = (part.kind === "image" ? model.part_tokens : null) ?? part.tokens ?? Number.POSITIVE_INFINITY
    return part.kind !== "file" && most > estimateOf(part, model) / model.bytes_per_token
  }
  if (openingField(described, model) !== null) return true
  return described.media.length > 0 && described.media.some(isHiding)
}

/** The most that a call can cost (D12): prompt, searches and the price of a call; and each output token of a choice. */
interface MostCost {
  readonly before_output_pico: bigint
  readonly output_pico: bigint
}

/** The highest cost at each price that may apply: by sizes up to `bound` tokens (D62) and tiers (D70). */
function mostCosts(described: Described, bound: number, model: Model): readonly MostCost[] {
  const own = mostAt(model, described, bound, model)
  const { service_tier } = described
  if (model.service_tiers.length === 0 || service_tier === OWN_TIER) return own
  const reached = model.service_tiers.filter(({ name }) => service_tier === null || service_tier === name)
  return [...own, ...reached.flatMap((tier) => mostAt(tier, described, bound, model))]
}

function mostAt({ price, tiers }: Rate, described: Described, bound: number, model: Model) {
  if (tiers.length === 0) return [mostCost(described, model, price, bound)]
  const reached = [{ above_tokens: 0, price }, ...tiers].filter(
    ({ above_tokens }, at) => at === 0 || bound > above_tokens,
  )
  return reached.map((tier, at) =>
    mostCost(described, model, tier.price, reached[at + 1]?.above_tokens ?? bound),
  )
}

/** The highest cost of a prompt of at most `room` tokens. Of prices for parts of it, the highest counts (D60). */
function mostCost(described: Described, model: Model, price: Price, room: number): MostCost {
  const call_pico = price.per_call_nano * PICO_PER_NANO
  const fees_pico = described.switches.size === 0 ? 0n : feesPico(described, model, price)
  if (price.buckets === undefined) {
    const prompt_pico = BigInt(room) * max(price.input_pico, price.cached_input_pico)
    return { before_output_pico: prompt_pico + fees_pico + call_pico, output_pico: price.output_pico }
  }
  const requested = REQUESTED_TOKENS.filter((bucket) => described.switches.has(bucket))
  return {
    before_output_pico: promptPico(described, model, price, room) + fees_pico + call_pico,
    output_pico: max(price.output_pico, ...pricesOf(price, HELD_FOR_OUTPUT), ...pricesOf(price, requested)),
  }
}

const HELD_FOR_OUTPUT = bucketsHeldFor("output")
const REQUESTED_TOKENS = bucketsHeldFor("request").filter((bucket) => unitOf(bucket) === "token")

function pricesOf({ buckets }: Price, named: readonly Bucket[]): readonly bigint[] {
  return named.map((bucket) => buckets?.[bucket] ?? 0n)
}

const MOST_PAGES = 1_000

/** The tools that a request can name. Other runs are parts of these, such as the posts that a search of xAI reads. */
const TOOLS_BY_NAME: ReadonlySet<string> = new Set(TOOLS.map(([, who]) => who))

/** The fees of the requested tools and pages: `hold_searches` runs of each tool, and every page. */
function feesPico({ switches, repeats }: Described, { hold, hold_searches }: Model, price: Price): bigint {
  const runs = BigInt(hold_searches)
  let sum_pico = 0n
  for (const [tool, run_pico] of Object.entries(price.tool_runs ?? {}))
    if (switches.has(TOOL_RUN + tool) || (repeats && !TOOLS_BY_NAME.has(TOOL_RUN + tool)))
      sum_pico += runs * run_pico
  for (const name of switches.keys()) {
    if (!isBucket(name) || unitOf(name) === "token") continue
    const most = name === "page" && hold !== "likely" ? BigInt(MOST_PAGES) : runs
    sum_pico += most * (price.buckets?.[name] ?? 0n)
  }
  return sum_pico
}

const HELD_FOR_TEXT = bucketsHeldFor("text")
const [HELD_FOR_IMAGE, HELD_FOR_AUDIO] = [bucketsHeldFor("image"), bucketsHeldFor("audio")]
const MEDIA_BUCKETS: Readonly<Record<MediaKind, readonly Bucket[]>> = {
  image: HELD_FOR_IMAGE,
  audio: HELD_FOR_AUDIO,
  /** A document can have images, a video has audio. What a provider adds can be anything. */
  file: [...HELD_FOR_IMAGE, ...HELD_FOR_AUDIO],
}

/** The highest cost of a prompt of these parts. If they exceed `room` tokens, the cheapest parts are left out. */
function promptPico(described: Described, model: Model, price: Price, room: number): bigint {
  const text_pico = max(price.input_pico, price.cached_input_pico, ...pricesOf(price, HELD_FOR_TEXT))
  const pricedAs = (kind: MediaKind) => max(text_pico, ...pricesOf(price, MEDIA_BUCKETS[kind]))
  const shares = [
    { tokens: described.bytes + described.tokens + described.tool_tokens, token_pico: text_pico },
    ...described.media.map((part) => ({
      tokens: partBound(part, model),
      token_pico: pricedAs(part.kind),
    })),
    { tokens: openingField(described, model) === null ? 0 : room, token_pico: pricedAs("file") },
  ].sort((one, other) => Number(other.token_pico - one.token_pico))
  let left = room
  let sum_pico = 0n
  for (const { tokens, token_pico } of shares) {
    const counted = Math.min(tokens, left)
    left -= counted
    sum_pico += BigInt(counted) * token_pico
  }
  return sum_pico
}

function max(first: bigint, ...others: readonly bigint[]): bigint {
  let most = first
  for (const one of others) if (one > most) most = one
  return most
}
