import type { CostBounds } from "../call/call.ts"
import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import type { HoldResult } from "../ledger/entries.ts"
import { costWithin, heldFor, printUsd } from "../money.ts"
import type { Operation } from "../operations/operation.ts"
import {
  estimateBytes,
  hidesPrompt,
  type MostCost,
  mostCosts,
  plausiblePrompt,
  promptBound,
} from "./bounds.ts"
import type { Described } from "./described.ts"

/** The hold of a call, and the bounds that it follows from (D12). */
export interface Quote extends CostBounds {
  /** The most that the call can cost, at least 1, before the price multiplier and the one rounding (D69). */
  readonly cost_pico: bigint
  /** The hold for that at a price multiplier of 1. */
  readonly amount_nano: bigint
  /** UTF-8 bytes of the JSON text of the prompt fields, without the data of media. */
  readonly prompt_bytes: number
  /** At most the bytes of the prompt, and at most the model's context. */
  readonly prompt_tokens_bound: number
  /** Of one choice. */
  readonly output_tokens_bound: number
  /** The field of the request that limits its output tokens; null where there are none. */
  readonly limit_field: string | null
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
    is_hiding: described.reasons || hidesPrompt(described, model),
    writes_for_an_hour: asks.has("cache_write_1h"),
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
 * The largest `max_tokens` whose hold `available_nano` covers at this price multiplier; null when not even 1 would fit, or when there is
 * no output.
 */
export function largestMaxTokens(
  { n, costs, limit_field }: Quote,
  { max_output_tokens }: Model,
  available_nano: bigint,
  price_multiplier_bp?: number,
): number | null {
  if (limit_field === null) return null
  const most_pico = costWithin(available_nano, price_multiplier_bp)
  let largest = Number.POSITIVE_INFINITY
  for (const { before_output_pico, output_pico } of costs) {
    const token_pico = output_pico * BigInt(n)
    const left_pico = most_pico - before_output_pico
    if (left_pico < token_pico) return null
    if (token_pico > 0n) largest = Math.min(largest, Number(left_pico / token_pico))
  }
  return Number.isFinite(largest) ? Math.min(largest, max_output_tokens) : null
}

/** A hold that the balance, or what is left of the key's spending limit, does not cover. */
type OutOfMoney = Extract<HoldResult, { outcome: "insufficient_balance" | "spending_limit_reached" }>

/** The 402 of such a hold: what is needed, what is left, and the largest `max_tokens` that would fit, if any (D12, D42). */
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

/** The client's limit, at most the model's; without a limit (0), what the model holds by default. */
function outputBound(max_tokens: number, model: Model): number {
  return max_tokens === 0 ? model.hold_output_tokens : Math.min(max_tokens, model.max_output_tokens)
}
