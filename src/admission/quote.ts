import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import type { Margined } from "../ledger/entries.ts"
import { costWithin, heldFor, printUsd } from "../money.ts"
import type { Operation } from "../operation.ts"
import type { Period } from "../wire/call.ts"
import type { UsageLimits } from "../wire/usage.ts"
import { estimateBytes, type MostCost, mostCosts, plausiblePrompt, promptBound } from "./bounds.ts"
import type { Described } from "./described.ts"

/** What a call must hold, and the bounds it follows from (D12). */
export interface Quote {
  /** The most that the call can cost, at least 1, before the margin and the one rounding (D69). */
  readonly cost_pico: bigint
  /** What is held for that at a margin of 1. */
  readonly amount_nano: bigint
  /** UTF-8 bytes of the JSON text of the prompt fields, without the data of media. */
  readonly prompt_bytes: number
  /** For an estimate of the prompt: its text, its files, and `part_tokens` for every other media part (D6). */
  readonly estimate_bytes: number
  /** At most the bytes of the prompt, and at most the model's context. */
  readonly prompt_tokens_bound: number
  /** Of one choice. */
  readonly output_tokens_bound: number
  /** Choices. */
  readonly n: number
  /** The field of the request that limits its output tokens; null where there are none. */
  readonly limit_field: string | null
  /** The most usage that the call can cause (D1). */
  readonly limits: UsageLimits
  /** Searches that are charged if the provider counts none (D60). */
  readonly searches: number
  /** The service tier that is asked for; null where the provider chooses (D70). */
  readonly service_tier: string | null
  /** Whether it asks for reasoning (D9). */
  readonly reasons: boolean
  /** The highest cost at each price that may apply; `cost_pico` is the largest of them (D62, D70). */
  readonly costs: readonly MostCost[]
}

/**
 * The amount to hold for a request: the prompt bound at the highest input price, plus the output bound of every choice
 * at the output price, plus the price per call. No usage within the bounds costs more (D12).
 */
export function quote({ generates, limit_field }: Operation, described: Described, model: Model): Quote {
  const { max_tokens, choices: n, asks } = described
  const prompt_tokens_bound = promptBound(described, model)
  const output_tokens_bound = generates ? outputBound(max_tokens, model) : 0
  const costs = mostCosts(described, prompt_tokens_bound, model)
  const cost_pico = mostOf(costs, BigInt(output_tokens_bound) * BigInt(n))
  return {
    cost_pico,
    amount_nano: heldFor(cost_pico),
    prompt_bytes: described.bytes,
    estimate_bytes: estimateBytes(described, model),
    prompt_tokens_bound,
    output_tokens_bound,
    n,
    limit_field,
    limits: {
      prompt_tokens: plausiblePrompt(described, model),
      completion_tokens: generates ? plausibleOutput(max_tokens, model) * n : 0,
    },
    searches: asks.has("web_search") ? 1 : 0,
    service_tier: described.service_tier,
    reasons: described.reasons,
    costs,
  }
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

/** Per choice. A provider that ignores `max_tokens` still generates at most what the model can. */
function plausibleOutput(max_tokens: number, { max_output_tokens }: Model): number {
  const asked = Math.min(max_tokens || max_output_tokens, max_output_tokens)
  return Math.max(PLAUSIBLE_OUTPUT.factor * asked, max_output_tokens, PLAUSIBLE_OUTPUT.tokens)
}

/**
 * The largest `max_tokens` whose hold `available_nano` covers at this margin; null when not even 1 would fit, or when there is
 * no output.
 */
export function largestMaxTokens(
  { n, costs, limit_field }: Quote,
  { max_output_tokens }: Model,
  available_nano: bigint,
  margin_bp?: number,
): number | null {
  if (limit_field === null) return null
  const most_pico = costWithin(available_nano, margin_bp)
  let largest = Number.POSITIVE_INFINITY
  for (const { before_output_pico, output_pico } of costs) {
    const token_pico = output_pico * BigInt(n)
    const left_pico = most_pico - before_output_pico
    if (left_pico < token_pico) return null
    if (token_pico > 0n) largest = Math.min(largest, Number(left_pico / token_pico))
  }
  return Number.isFinite(largest) ? Math.min(largest, max_output_tokens) : null
}

/** The 402 of a hold that the balance does not cover: what is needed, what is available, and what would fit (D12). */
export function balanceRefusal(
  quoted: Quote,
  model: Model,
  { available_nano, margin_bp }: Margined & { readonly available_nano: bigint },
): GatewayError {
  const needed = printUsd(heldFor(quoted.cost_pico, margin_bp))
  const available = printUsd(available_nano)
  const why = `This call needs a hold of ${needed} USD, but only ${available} USD is available`
  return new GatewayError(
    "insufficient_balance",
    whatWouldFit(why, "Add credit", quoted, largestMaxTokens(quoted, model, available_nano, margin_bp), {
      needed,
      available,
    }),
  )
}

/** The same for a hold that the key's spending limit does not cover (D42). */
export function spendingRefusal(
  quoted: Quote,
  model: Model,
  {
    remaining_nano,
    period,
    margin_bp,
  }: Margined & { readonly remaining_nano: bigint; readonly period: Period },
): GatewayError {
  const needed = printUsd(heldFor(quoted.cost_pico, margin_bp))
  const remaining = printUsd(remaining_nano)
  const why = `This call needs a hold of ${needed} USD, but the key can spend only ${remaining} USD more this ${period}`
  return new GatewayError(
    "spending_limit_reached",
    whatWouldFit(
      why,
      `Wait for the next ${period}`,
      quoted,
      largestMaxTokens(quoted, model, remaining_nano, margin_bp),
      { needed, remaining },
    ),
  )
}

/**
 * Message and fields of a 402: the reason, what to do, and the largest `max_tokens` that fits, if any.
 */
function whatWouldFit(
  why: string,
  cure: string,
  { limit_field }: Quote,
  max_tokens: number | null,
  fields: Record<string, string>,
) {
  if (max_tokens === null) return { message: `${why}. ${cure}.`, fields }
  return {
    message: `${why}. ${cure}, or set ${limit_field} to at most ${max_tokens}.`,
    fields: { ...fields, max_tokens },
  }
}

/** The client's limit, at most the model's; without a limit (0), what the model holds by default. */
function outputBound(max_tokens: number, model: Model): number {
  return max_tokens === 0 ? model.hold_output_tokens : Math.min(max_tokens, model.max_output_tokens)
}
