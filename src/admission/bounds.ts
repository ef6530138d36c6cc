import type { Model } from "../config/config.ts"
import type { Bucket } from "../kinds.ts"
import { PICO_PER_NANO, type Price, type Rate } from "../money.ts"
import { type AskedFor, OWN_TIER } from "./asked.ts"
import type { Media, MediaKind, Prompt } from "./prompt.ts"

/** The fewest bytes of audio that a provider counts as one token: 6 kbit/s at 32 tokens per second, rounded down. */
const AUDIO_BYTES_PER_TOKEN = 16

/** Bytes of text that a likely hold counts as one token (D68). */
const LIKELY_BYTES_PER_TOKEN = 2

/** The most tokens of a prompt (D12); with a likely hold, the most that almost any prompt has (D68). */
export function promptBound({ bytes, tokens, media }: Prompt, model: Model): number {
  let parts = 0
  for (const part of media) parts += partBound(part, model)
  const text = model.hold === "likely" ? Math.ceil(bytes / LIKELY_BYTES_PER_TOKEN) : bytes
  return Math.min(text + tokens + parts, model.context_tokens ?? Number.POSITIVE_INFINITY)
}

/** The most tokens of a media part (D12). */
export function partBound({ kind, bytes }: Media, { part_tokens, context_tokens }: Model): number {
  if (kind === "image") return part_tokens
  if (bytes === null) return context_tokens ?? part_tokens
  return Math.max(part_tokens, kind === "audio" ? Math.ceil(bytes / AUDIO_BYTES_PER_TOKEN) : bytes)
}

/** The bytes that an estimate of the prompt counts (D6). */
export function estimateBytes(
  { bytes, tokens, media }: Prompt,
  { part_tokens, bytes_per_token }: Model,
): number {
  let estimate = bytes + tokens * bytes_per_token
  for (const part of media) estimate += part.kind === "file" && part.bytes !== null ? part.bytes : part_tokens
  return estimate
}

/** The most that a call can cost (D12): its prompt, its searches and the call itself; and each token of a choice. */
export interface MostCost {
  readonly before_output_pico: bigint
  readonly output_pico: bigint
}

/**
 * The highest cost at each price that may apply: the model's own, those of its larger prompts up to `bound` tokens
 * (D62), and those of the service tiers that may serve it (D70).
 */
export function mostCosts(prompt: Prompt, bound: number, asked: AskedFor, model: Model): readonly MostCost[] {
  const own = mostAt(model, prompt, bound, asked, model)
  if (model.service_tiers.length === 0 || asked.service_tier === OWN_TIER) return own
  const { service_tier } = asked
  const reached = model.service_tiers.filter(({ name }) => service_tier === null || service_tier === name)
  return [...own, ...reached.flatMap((tier) => mostAt(tier, prompt, bound, asked, model))]
}

function mostAt(
  { price, tiers }: Rate,
  prompt: Prompt,
  bound: number,
  asked: AskedFor,
  model: Model,
): readonly MostCost[] {
  if (tiers.length === 0) return [mostCost(prompt, asked, model, price, bound)]
  const reached = [{ above_tokens: 0, price }, ...tiers].filter(
    ({ above_tokens }, at) => at === 0 || bound > above_tokens,
  )
  return reached.map((tier, at) =>
    mostCost(prompt, asked, model, tier.price, reached[at + 1]?.above_tokens ?? bound),
  )
}

/**
 * The highest cost of a prompt of at most `room` tokens. Which tokens are cached, written to a cache or reasoning is
 * not known before the call, so the highest price counts (D60).
 */
function mostCost(prompt: Prompt, asked: AskedFor, model: Model, price: Price, room: number): MostCost {
  const call_pico = price.per_call_nano * PICO_PER_NANO
  if (price.buckets === undefined) {
    const prompt_pico = BigInt(room) * max(price.input_pico, price.cached_input_pico)
    return { before_output_pico: prompt_pico + call_pico, output_pico: price.output_pico }
  }
  const { reasoning = 0n, image_output = 0n, audio_output = 0n, web_search = 0n } = price.buckets
  const searches = asked.web_search === null ? 0 : model.hold_searches
  return {
    before_output_pico: promptPico(prompt, model, price, room) + BigInt(searches) * web_search + call_pico,
    output_pico: max(
      price.output_pico,
      reasoning,
      image_output,
      asked.audio_output === null ? 0n : audio_output,
    ),
  }
}

/** The buckets that a token of each kind of media can be charged in. */
const MEDIA_BUCKETS: Readonly<Record<MediaKind, readonly Bucket[]>> = {
  image: ["image_input"],
  audio: ["audio_input", "cached_audio_input"],
  /** A document can have images, a video has audio. */
  file: ["image_input", "audio_input", "cached_audio_input"],
}

/** The highest cost of a prompt of these parts. If they exceed `room` tokens, the cheapest parts are left out. */
function promptPico(prompt: Prompt, model: Model, price: Price, room: number): bigint {
  const named = (buckets: readonly Bucket[]) => buckets.map((bucket) => price.buckets?.[bucket] ?? 0n)
  const text_pico = max(
    price.input_pico,
    price.cached_input_pico,
    ...named(["cache_write", "cache_write_1h"]),
  )
  const shares = [
    { tokens: prompt.bytes + prompt.tokens, token_pico: text_pico },
    ...prompt.media.map((part) => ({
      tokens: partBound(part, model),
      token_pico: max(text_pico, ...named(MEDIA_BUCKETS[part.kind])),
    })),
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
