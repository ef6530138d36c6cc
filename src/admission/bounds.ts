import type { Model } from "../config/config.ts"
import { type Bucket, bucketsHeldFor, isBucket, unitOf } from "../kinds.ts"
import { PICO_PER_NANO, type Price, type Rate } from "../money.ts"
import { OWN_TIER, TOOL_RUN, TOOLS } from "../wire/fields.ts"
import type { Media, MediaKind } from "../wire/media.ts"
import { MAX_TOKENS } from "../wire/usage.ts"
import { type Described, openingField } from "./described.ts"

/** Bytes of text that a likely hold counts as one token (D68). */
const LIKELY_BYTES_PER_TOKEN = 2
/** Tokens of a picture whose model does not set `part_tokens`: at least, and where nothing else is known. */
const PICTURE_TOKENS = 4_096

/** The most tokens of a prompt (D12); with a likely hold, the most that almost any prompt has (D68). */
export function promptBound(described: Described, model: Model): number {
  const { bytes, tokens, tool_tokens, media } = described
  const { context_tokens, open, hold } = model
  if (context_tokens !== null && openingField(described, model) !== null)
    return context_tokens * Math.min(open.hold_rounds, described.rounds)
  const text = hold === "likely" ? Math.ceil(bytes / LIKELY_BYTES_PER_TOKEN) : bytes
  const most = media.reduce((sum, part) => sum + partBound(part, model), text + tokens + tool_tokens)
  return Math.min(most, context_tokens ?? Number.POSITIVE_INFINITY)
}

/** The most tokens of a medium that has a bound (D12). */
function partBound({ kind, tokens }: Media, { part_tokens }: Model): number {
  if (kind === "image" && part_tokens !== null) return part_tokens
  return Math.max(part_tokens ?? PICTURE_TOKENS, tokens ?? 0)
}

/** Plausible beyond the prompt bound: tokens that a provider may add, and tokens of a medium (D1). */
const UNSEEN_PROMPT_TOKENS = 131_072
const PLAUSIBLE_PART_TOKENS = 65_536

/** The most prompt tokens that a provider can have counted (D1), even if only a part of them is held. */
export function plausiblePrompt(described: Described, model: Model): number {
  const { bytes, tokens, media, repeats } = described
  const { context_tokens, open } = model
  const is_open = openingField(described, model) !== null
  if (context_tokens === null && is_open) return MAX_TOKENS
  const parts = media.reduce((sum, part) => sum + Math.max(PLAUSIBLE_PART_TOKENS, partBound(part, model)), 0)
  const added = is_open ? (context_tokens ?? 0) * (repeats ? open.max_rounds : 1) : 0
  return bytes + tokens + parts + added + UNSEEN_PROMPT_TOKENS
}

/** The bytes that an estimate of the prompt counts (D6). */
export function estimateBytes({ bytes, tokens, media, embedded }: Described, model: Model): number {
  let estimate = bytes + tokens * model.bytes_per_token
  for (const part of media) estimate += estimateOf(part, model)
  for (const { media: part, characters } of embedded) estimate += estimateOf(part, model) - characters
  return estimate
}

function estimateOf({ kind, bytes }: Media, { part_tokens }: Model): number {
  return kind === "file" && bytes !== null ? bytes : (part_tokens ?? PICTURE_TOKENS)
}

/** True if only the provider knows the size of the prompt: it is open, or an estimate may undercount a medium (D9). */
export function hidesPrompt(described: Described, model: Model): boolean {
  const isHiding = (part: Media) => {
    const most = (part.kind === "image" ? model.part_tokens : null) ?? part.tokens ?? Number.POSITIVE_INFINITY
    return part.kind !== "file" && most > estimateOf(part, model) / model.bytes_per_token
  }
  if (openingField(described, model) !== null) return true
  return described.media.length > 0 && described.media.some(isHiding)
}

/** The most that a call can cost (D12): its prompt, its searches and the call itself; and each token of a choice. */
export interface MostCost {
  readonly before_output_pico: bigint
  readonly output_pico: bigint
}

/** The highest cost at each price that may apply: by sizes up to `bound` tokens (D62) and tiers (D70). */
export function mostCosts(described: Described, bound: number, model: Model): readonly MostCost[] {
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

/** The tools that a request can ask for. Other runs are parts of theirs, such as the posts that a search of xAI reads. */
const TOOLS_BY_NAME: ReadonlySet<string> = new Set(TOOLS.map(([, who]) => who))

/** The fees of what is asked for: so many searches, and runs of each tool, as the model holds; and every page. */
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
