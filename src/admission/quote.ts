import type { Model } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { ceilToNano, PICO_PER_NANO, type Price, printUsd } from "../money.ts"
import type { Period } from "../wire/call.ts"
import type { ChatRequest } from "../wire/chat.ts"
import { FieldTexts } from "../wire/field-texts.ts"
import { measurePrompt } from "./prompt.ts"

/** What a chat call must hold, and the bounds it follows from (D12). */
export interface Quote {
  /** At least 1. */
  readonly amount_nano: bigint
  /** UTF-8 bytes of the JSON text of the prompt fields, without media parts. */
  readonly prompt_bytes: number
  /** No prompt has more tokens than bytes; each media part counts the model's `part_tokens`. */
  readonly prompt_tokens_bound: number
  /** Of one choice. */
  readonly output_tokens_bound: number
  /** Choices. */
  readonly n: number
}

/** The most that a bigint column holds: no balance comes near it, so such a hold is refused, not failed. */
const MAX_AMOUNT_NANO = 2n ** 63n - 1n

/**
 * What must be held for `request`: the prompt bound at the highest input price, plus the output bound of every choice
 * at the output price and the price of a call, rounded up once. No usage within the bounds costs more (D12). `texts` are those of the request.
 */
export function quote(request: ChatRequest, model: Model, texts = new FieldTexts(request)): Quote {
  const { bytes, media_parts } = measurePrompt(request, texts)
  const prompt_tokens_bound = bytes + media_parts * model.part_tokens
  const output_tokens_bound = outputBound(request, model)
  const n = request.n ?? 1
  const output_pico = BigInt(output_tokens_bound) * BigInt(n) * model.price.output_pico
  const amount_nano = ceilToNano(costBeforeOutput(prompt_tokens_bound, model.price) + output_pico)
  return {
    amount_nano: holdable(amount_nano),
    prompt_bytes: bytes,
    prompt_tokens_bound,
    output_tokens_bound,
    n,
  }
}

/** The largest `max_tokens` whose hold `available_nano` covers; null when not even 1 would fit. */
export function largestMaxTokens(
  quoted: Quote,
  { price, max_output_tokens }: Model,
  available_nano: bigint,
): number | null {
  const token_pico = price.output_pico * BigInt(quoted.n)
  const left_pico = available_nano * PICO_PER_NANO - costBeforeOutput(quoted.prompt_tokens_bound, price)
  if (token_pico === 0n || left_pico < token_pico) return null
  const tokens = left_pico / token_pico
  return tokens < BigInt(max_output_tokens) ? Number(tokens) : max_output_tokens
}

/** The 402 of a hold that the balance does not cover: what is needed, what there is, and what would fit (D12). */
export function balanceRefusal(quoted: Quote, model: Model, available_nano: bigint): GatewayError {
  const needed = printUsd(quoted.amount_nano)
  const available = printUsd(available_nano)
  const why = `This call needs a hold of ${needed} USD, but only ${available} USD is available`
  return new GatewayError(
    "insufficient_balance",
    whatWouldFit(why, "Add credit", quoted, model, available_nano, { needed, available }),
  )
}

/** The same for a hold that the key's spending limit does not cover (D42). */
export function spendingRefusal(
  quoted: Quote,
  model: Model,
  { remaining_nano, period }: { readonly remaining_nano: bigint; readonly period: Period },
): GatewayError {
  const needed = printUsd(quoted.amount_nano)
  const remaining = printUsd(remaining_nano)
  const why = `This call needs a hold of ${needed} USD, but the key can spend only ${remaining} USD more this ${period}`
  return new GatewayError(
    "spending_limit_reached",
    whatWouldFit(why, `Wait for the next ${period}`, quoted, model, remaining_nano, { needed, remaining }),
  )
}

/** Message and fields of a 402: why, the cure, and the largest `max_tokens` for which `room_nano` is enough, if any is. */
function whatWouldFit(
  why: string,
  cure: string,
  quoted: Quote,
  model: Model,
  room_nano: bigint,
  fields: Record<string, string>,
) {
  const max_tokens = largestMaxTokens(quoted, model, room_nano)
  if (max_tokens === null) return { message: `${why}. ${cure}.`, fields }
  return {
    message: `${why}. ${cure}, or set max_tokens to at most ${max_tokens}.`,
    fields: { ...fields, max_tokens },
  }
}

/** The larger of the client's limits, at most the model's; without a limit, what the model holds by default. */
function outputBound({ max_tokens, max_completion_tokens }: ChatRequest, model: Model): number {
  const asked = Math.max(max_tokens ?? 0, max_completion_tokens ?? 0)
  return asked === 0 ? model.hold_output_tokens : Math.min(asked, model.max_output_tokens)
}

/** In pico-USD, at the highest input price: which of the tokens were cached is not known before the call. */
function costBeforeOutput(tokens: number, price: Price): bigint {
  const cached_is_dearer = price.cached_input_pico > price.input_pico
  const prompt_pico = BigInt(tokens) * (cached_is_dearer ? price.cached_input_pico : price.input_pico)
  return prompt_pico + price.per_call_nano * PICO_PER_NANO
}

function holdable(amount_nano: bigint): bigint {
  if (amount_nano < 1n) return 1n
  return amount_nano > MAX_AMOUNT_NANO ? MAX_AMOUNT_NANO : amount_nano
}
