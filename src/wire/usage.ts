import type { Bucket } from "../money.ts"
import type { Note } from "./call.ts"

/** Tokens as charged. Cached tokens are part of the prompt tokens, never on top (D3). */
export interface Usage {
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly completion_tokens: number
  /** Tokens of kinds that can have their own price, and searches; absent if there were none (D60). */
  readonly buckets?: Buckets
  /** Runs of the provider's tools that are billed each, by the provider's name of the tool; absent if there were none. */
  readonly tool_runs?: Readonly<Record<string, number>>
}

/** What a usage reports besides what is charged. */
export interface Aside {
  /** Paths of positive numbers that no reader knows: at most 8, each of at most 64 characters. */
  readonly unread: readonly string[]
  /** The total that the provider reported less the parts that explain it; 0 if it reported none. */
  readonly unexplained_tokens: number
  /** What the provider says that the call costs; null if it does not say. */
  readonly provider_cost_nano: bigint | null
}

export const NOTHING_ASIDE: Aside = { unread: [], unexplained_tokens: 0, provider_cost_nano: null }

/** Tokens, or searches. A provider's numbers may overlap; of charged usage no token is in two buckets. */
export type Buckets = Readonly<Partial<Record<Bucket, number>>>

/** The result of reading a `usage` field (D1). */
export type UsageReading =
  | {
      readonly state: "valid"
      readonly usage: Usage
      readonly notes: readonly Note[]
      /** Absent if there is nothing besides what is charged. */
      readonly aside?: Aside
    }
  | { readonly state: "missing" }
  | { readonly state: "invalid" }
  /** More than the request can have caused. */
  | { readonly state: "implausible" }

/** The most tokens of one kind; more makes the usage invalid (D1, D11). */
export const MAX_TOKENS = 100_000_000

/** The most tokens that a request can have caused (D1). */
export type UsageLimits = Pick<Usage, "prompt_tokens" | "completion_tokens">

/** The limits if the request is not known. */
export const NO_LIMITS: UsageLimits = { prompt_tokens: MAX_TOKENS, completion_tokens: MAX_TOKENS }

/** Reads a provider's `usage` value. Nothing is converted (D1, D3). */
export function readUsage(value: unknown, limits: UsageLimits = NO_LIMITS): UsageReading {
  if (value === undefined || value === null) return { state: "missing" }
  if (!isObject(value)) return { state: "invalid" }
  const { prompt_tokens, completion_tokens, prompt_tokens_details } = value
  if (!isCount(prompt_tokens) || !isCount(completion_tokens)) return { state: "invalid" }
  if (prompt_tokens > limits.prompt_tokens || completion_tokens > limits.completion_tokens)
    return { state: "implausible" }
  const { tokens, notes } = readCached(prompt_tokens_details, prompt_tokens)
  const usage = { prompt_tokens, cached_tokens: tokens, completion_tokens }
  const read = readBuckets(value)
  if (read === null) return { state: "valid", usage, notes }
  return { state: "valid", usage: { ...usage, buckets: read.buckets }, notes: [...notes, ...read.notes] }
}

/**
 * Reads the usage of a response object (D66), which has its own names for the same counts. `searches` is the number in
 * its output, used if the provider reports none.
 */
export function readResponseUsage(
  { usage, tool_usage }: JsonObject,
  limits: UsageLimits,
  searches: number,
): UsageReading {
  if (!isObject(usage)) return readUsage(usage, limits)
  const { input_tokens, output_tokens, input_tokens_details, output_tokens_details } = usage
  const { web_search, image_gen } = objectOf(tool_usage)
  const reading = readUsage(
    {
      ...usage,
      prompt_tokens: input_tokens,
      completion_tokens: output_tokens,
      prompt_tokens_details: input_tokens_details,
      completion_tokens_details: output_tokens_details,
      server_tool_use: { web_search_requests: objectOf(web_search).num_requests ?? searches },
    },
    limits,
  )
  if (reading.state !== "valid" || countOf(objectOf(image_gen).total_tokens) === 0) return reading
  return { ...reading, notes: [...reading.notes, "unpriced"] }
}

/** The cached tokens of the prompt. A malformed number does not make the usage invalid (D3). */
function readCached(details: unknown, prompt_tokens: number): { tokens: number; notes: readonly Note[] } {
  if (details === undefined || details === null) return NONE_CACHED
  if (!isObject(details)) return { tokens: 0, notes: ["cached_malformed"] }
  const cached = details.cached_tokens
  if (cached === undefined || cached === null || cached === 0) return NONE_CACHED
  if (!isWhole(cached)) return { tokens: 0, notes: ["cached_malformed"] }
  if (cached > prompt_tokens) return { tokens: prompt_tokens, notes: ["cached_clamped"] }
  return { tokens: cached, notes: NO_NOTES }
}

const NO_NOTES: readonly Note[] = []
const NONE_CACHED = { tokens: 0, notes: NO_NOTES }

const NOTHING: JsonObject = {}

interface BucketReading {
  readonly buckets: Buckets
  readonly notes: readonly Note[]
}

/**
 * The kinds of tokens and the searches in a provider's `usage` (D60), under the names of this convention; null for
 * none. A malformed number does not make the usage invalid.
 */
function readBuckets(value: JsonObject): BucketReading | null {
  const prompt = objectOf(value.prompt_tokens_details)
  const completion = objectOf(value.completion_tokens_details)
  const split = objectOf(value.cache_creation ?? prompt.cache_creation ?? prompt.cache_creation_token_details)
  const written =
    value.cache_creation_input_tokens ?? prompt.cache_write_tokens ?? prompt.cache_creation_tokens
  const { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: long } = split
  const { reasoning_tokens, audio_tokens: audio_output } = completion
  const { audio_tokens: audio_input, image_tokens } = prompt
  const searches =
    objectOf(value.server_tool_use).web_search_requests ?? value.num_search_queries ?? value.num_sources_used
  const said = [written, short, long, reasoning_tokens, audio_input, audio_output, image_tokens]
  if (said.every(isNothing) && isMissing(searches)) return null
  const counts: Record<Bucket, number> = {
    // Writes that the split leaves out are the cheaper ones.
    cache_write: Math.max(countOf(written) - countOf(long), countOf(short)),
    cache_write_1h: countOf(long),
    reasoning: countOf(reasoning_tokens),
    audio_input: countOf(audio_input),
    audio_output: countOf(audio_output),
    image_input: countOf(image_tokens),
    web_search: countOf(searches),
  }
  const is_counted = isWhole(searches)
  const found = Object.entries(counts).filter(
    ([bucket, count]) => count > 0 || (bucket === "web_search" && is_counted),
  )
  return {
    buckets: Object.fromEntries(found),
    notes: [...said, searches].every((count) => isMissing(count) || isWhole(count))
      ? []
      : ["details_malformed"],
  }
}

/** 0 for what is missing or malformed. */
export function countOf(value: unknown): number {
  return isWhole(value) ? value : 0
}

/** The value if it is an object, otherwise an empty object. */
export function objectOf(value: unknown): JsonObject {
  return isObject(value) ? value : NOTHING
}

/** Absent or null. */
export function isMissing(value: unknown): boolean {
  return value === undefined || value === null
}

function isNothing(value: unknown): boolean {
  return isMissing(value) || value === 0
}

/** A safe integer of at least 0. */
export function isWhole(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0
}

/** Whether a value is a valid number of tokens (D1). */
export function isCount(value: unknown): value is number {
  return isWhole(value) && value <= MAX_TOKENS
}

/** Longer names are ignored. */
const MAX_TIER_LENGTH = 64

/** The served service tier that an answer or a chunk reports (D70); undefined if it reports none. */
export function readServiceTier({ service_tier: own, usage }: JsonObject): string | undefined {
  const said = own ?? objectOf(usage).service_tier
  const service_tier = said === "standard" ? "default" : said
  const is_said = typeof service_tier === "string" && service_tier !== "" && service_tier !== "auto"
  return is_said && service_tier.length <= MAX_TIER_LENGTH ? service_tier : undefined
}

/** A JSON object as it was parsed. */
export type JsonObject = Record<string, unknown>

/** Whether a parsed JSON value is an object: neither an array nor null. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}
