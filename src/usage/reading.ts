import type { Bucket } from "../kinds.ts"
import type { Note } from "../wire/call.ts"
import {
  type Aside,
  type Buckets,
  isMissing,
  isObject,
  type JsonObject,
  MAX_TOKENS,
  NO_LIMITS,
  type Usage,
  type UsageLimits,
  type UsageReading,
} from "../wire/usage.ts"
import { type Count, type Reader, readers } from "./readers.ts"
import { MAX_NAMES, type Told, tell } from "./told.ts"

/** How the usage of a call is read: the provider's names, and the most that the request can have caused (D1, D87). */
export interface UsageRules {
  readonly reader: Reader
  readonly limits: UsageLimits
  /** Whether cache writes count as writes for one hour if the provider does not report their lifetime (D60). */
  readonly writes_for_an_hour: boolean
}

/** For usage of an unknown provider and an unknown request. */
export const ANY_USAGE: UsageRules = {
  reader: readers.default,
  limits: NO_LIMITS,
  writes_for_an_hour: false,
}

/** The numbers of a usage, compared with its total, which decides what is a part of what (D87). */
export interface Counted {
  readonly counts: Readonly<Partial<Record<Count, number>>>
  /** Whether cached and written tokens are beside the prompt, and reasoning beside the output. */
  readonly cache_beside: boolean
  readonly reasoning_beside: boolean
  /** Whether neither an output nor a total above the prompt was reported, so that the output is estimated. */
  readonly output_unknown: boolean
  /** The total less its parts; 0 if there is no total. */
  readonly unexplained_tokens: number
  readonly runs: Readonly<Record<string, number>> | undefined
  readonly cost_nano: bigint | null
  readonly unread: readonly string[]
  readonly notes: readonly Note[]
}

/** The counts of one usage object; null if it is invalid (D1). */
export function count(usage: JsonObject, { reader }: UsageRules): Counted | null {
  const told = tell(usage, reader, MAX_TOKENS)
  if (told === null) return null
  const counted = reconciled(told, reader)
  return isMissing(usage.iterations) ? counted : withIterations(counted, usage.iterations, reader)
}

/** Tries which counts are beside their parents, first as their names say, until the parts add up to the total. */
function reconciled(told: Told, { rest }: Reader): Counted {
  const { counts, cache_beside, runs, cost_nano, unread, notes } = told
  const { prompt, output, total = 0, reasoning = 0 } = counts
  const by_name = {
    counts,
    cache_beside,
    reasoning_beside: false,
    output_unknown: false,
    unexplained_tokens: 0,
    runs,
    cost_nano,
    unread,
    notes,
  }
  if (total === 0 || prompt === undefined) return by_name
  if (output === undefined) {
    const left = total - prompt - (cache_beside ? cacheOf(counts) : 0)
    if (left < 0) return by_name
    // Nothing was said where thinking took all of it.
    const thought = rest === "output" ? { reasoning: left } : {}
    return { ...by_name, counts: { ...counts, output: left, ...thought }, output_unknown: left === 0 }
  }
  const cache = cacheOf(counts)
  const parts = prompt + output + (cache_beside ? cache : 0)
  if (parts === total && (cache_beside || cache <= prompt)) return by_name
  for (const is_beside of [cache_beside, !cache_beside]) {
    for (const reasoning_beside of [false, true]) {
      const sum = prompt + output + (is_beside ? cache : 0) + (reasoning_beside ? reasoning : 0)
      if (sum === total && (is_beside || cache <= prompt))
        return { ...by_name, cache_beside: is_beside, reasoning_beside }
    }
  }
  const unexplained_tokens = total - parts
  if (rest === "unknown" || unexplained_tokens < 0) return { ...by_name, unexplained_tokens }
  const whole = {
    ...counts,
    output: output + unexplained_tokens,
    reasoning: reasoning + unexplained_tokens,
  }
  return { ...by_name, counts: whole }
}

/** Tokens that were read from a cache and written to one. */
function cacheOf({ cached = 0, write, write_5m = 0, write_1h = 0 }: Told["counts"]): number {
  return cached + (write ?? write_5m + write_1h)
}

/** Counts that are a part of the prompt, or beside it. */
const OF_PROMPT = [
  "prompt",
  "cached",
  "cached_audio",
  "write",
  "write_5m",
  "write_1h",
  "audio_input",
  "image_input",
] as const satisfies readonly Count[]

/**
 * The counts of a stream so far with those of its next event: the last number wins (D4). What is absent changes nothing,
 * and a 0 erases nothing, unless the parts of the prompt in its event are together at least what they were.
 */
export function merged(known: Counted | null, next: Counted): Counted {
  if (known === null) return next
  const zeros_count = promptOf(next) >= promptOf(known)
  const counts: Partial<Record<Count, number>> = { ...known.counts }
  for (const [name, tokens] of Object.entries(next.counts) as [Count, number][]) {
    const is_kept = tokens === 0 && !(zeros_count && isOfPrompt(name))
    if (!is_kept || counts[name] === undefined) counts[name] = tokens
  }
  const tells_cache = cacheOf(next.counts) > 0
  return {
    counts,
    cache_beside: tells_cache ? next.cache_beside : known.cache_beside,
    reasoning_beside: (next.counts.reasoning ?? 0) > 0 ? next.reasoning_beside : known.reasoning_beside,
    output_unknown: next.counts.output === undefined ? known.output_unknown : next.output_unknown,
    unexplained_tokens: next.counts.total === undefined ? known.unexplained_tokens : next.unexplained_tokens,
    runs: next.runs === undefined ? known.runs : { ...known.runs, ...next.runs },
    cost_nano: next.cost_nano ?? known.cost_nano,
    unread: union(known.unread, next.unread).slice(0, MAX_NAMES),
    notes: union(known.notes, next.notes),
  }
}

function isOfPrompt(name: Count): boolean {
  return OF_PROMPT.some((one) => one === name)
}

function promptOf({ counts, cache_beside }: Counted): number {
  return (counts.prompt ?? 0) + (cache_beside ? cacheOf(counts) : 0)
}

function union<T>(some: readonly T[], more: readonly T[]): readonly T[] {
  return more.every((one) => some.includes(one)) ? some : [...new Set([...some, ...more])]
}

/** What the top level of a usage leaves out: passes that summarise the prompt, and parts by other models (D64). */
function withIterations(top: Counted, iterations: unknown, reader: Reader): Counted {
  if (!Array.isArray(iterations)) return noted(top, "details_malformed")
  let sum = top
  for (const iteration of iterations) {
    const { type } = isObject(iteration) ? iteration : { type: null }
    if (type === "message") continue
    const part = isObject(iteration) ? tell(iteration, reader, MAX_TOKENS) : null
    if (part === null) sum = noted(sum, "details_malformed")
    else if (type === "fallback_message") sum = noted(sum, "unpriced")
    else sum = plus(type === "compaction" ? sum : noted(sum, "unpriced"), reconciled(part, reader))
  }
  return sum
}

function noted(counted: Counted, note: Note): Counted {
  return { ...counted, notes: union(counted.notes, [note]) }
}

function plus(top: Counted, part: Counted): Counted {
  const counts: Partial<Record<Count, number>> = { ...top.counts }
  for (const [name, tokens] of Object.entries(part.counts) as [Count, number][])
    counts[name] = (counts[name] ?? 0) + tokens
  return {
    ...top,
    counts,
    cache_beside: top.cache_beside || part.cache_beside,
    unread: union(top.unread, part.unread).slice(0, MAX_NAMES),
    notes: union(top.notes, part.notes),
  }
}

/** What a usage must have to be valid. */
export interface Expected {
  /** Whether it counts output: embeddings have none, and the first event of a message does not count it yet. */
  readonly output: boolean
  /** Searches and runs of the provider's tools in the answer, for a usage that does not count them. */
  readonly searches?: number | undefined
  readonly runs?: Readonly<Record<string, number>> | undefined
}

export const WITH_OUTPUT: Expected = { output: true }

/** The counts in the form that is charged (D87): every token in one part only, and none beyond what is plausible (D1). */
export function readingOf(counted: Counted, rules: UsageRules, expected: Expected): UsageReading {
  const { limits, writes_for_an_hour } = rules
  const { counts, cache_beside, reasoning_beside, unexplained_tokens, unread } = counted
  const { prompt, output = expected.output ? undefined : 0, cached = 0, reasoning = 0 } = counts
  if (prompt === undefined || output === undefined) return INVALID
  const { write_5m = 0, write_1h = 0, write = write_5m + write_1h } = counts
  const is_split = counts.write_5m !== undefined || counts.write_1h !== undefined
  const long = is_split || !writes_for_an_hour ? Math.min(write_1h, write) : write
  const reported_prompt = prompt + (cache_beside ? cached + write : 0)
  const reported_output = expected.output ? output + (reasoning_beside ? reasoning : 0) : 0
  if (reported_prompt > MAX_TOKENS || reported_output > MAX_TOKENS) return INVALID
  const prompt_tokens = Math.min(reported_prompt, limits.prompt_tokens)
  const completion_tokens = Math.min(reported_output, limits.completion_tokens)
  const is_implausible = prompt_tokens < reported_prompt || completion_tokens < reported_output
  // Tokens beyond what is plausible are taken from the cheapest, so that no more is charged for less.
  const excess = reported_prompt - prompt_tokens
  const cached_tokens = Math.max(0, Math.min(cached, reported_prompt) - excess)
  const buckets = bucketsOf(counts, write - long, long, expected)
  const runs = counted.runs ?? expected.runs
  let notes = counted.notes
  if (is_implausible) notes = union(notes, ["usage_implausible"])
  if (cached > reported_prompt) notes = union(notes, ["cached_clamped"])
  if (write_5m + write_1h > write) notes = union(notes, ["details_clamped"])
  if (unexplained_tokens !== 0) notes = union(notes, ["total_unexplained"])
  if (unread.length > 0) notes = union(notes, ["usage_unread"])
  const tokens = { prompt_tokens, cached_tokens, completion_tokens }
  const usage: Usage = buckets === null ? tokens : { ...tokens, buckets }
  return {
    state: "valid",
    usage: runs === undefined ? usage : { ...usage, tool_runs: runs },
    notes,
    ...(counted.output_unknown && { output_unknown: true }),
    ...asideOf(counted),
  }
}

const INVALID: UsageReading = { state: "invalid" }

/** The kinds of price that a count is of; cache writes and audio are split further. */
const BUCKETS = [
  ["reasoning", "reasoning"],
  ["audio_output", "audio_output"],
  ["image_input", "image_input"],
  ["image_output", "image_output"],
  ["cached_audio_input", "cached_audio"],
  ["page", "pages"],
] as const satisfies readonly (readonly [Bucket, Count])[]

function bucketsOf(
  counts: Counted["counts"],
  write_5m: number,
  write_1h: number,
  { output, searches }: Expected,
): Buckets | null {
  const { audio_input = 0, cached_audio = 0 } = counts
  const buckets: Partial<Record<Bucket, number>> = {}
  if (write_5m > 0) buckets.cache_write = write_5m
  if (write_1h > 0) buckets.cache_write_1h = write_1h
  if (audio_input > cached_audio) buckets.audio_input = audio_input - cached_audio
  for (const [bucket, name] of BUCKETS) {
    const tokens = counts[name] ?? 0
    if (tokens > 0 && (output || name !== "reasoning")) buckets[bucket] = tokens
  }
  const searched = counts.searches ?? searches
  if (searched !== undefined && (output || searched > 0)) buckets.web_search = searched
  for (const _ in buckets) return buckets
  return null
}

const NO_ASIDE = {}

function asideOf({ unread, unexplained_tokens, cost_nano }: Counted): { readonly aside?: Aside } {
  if (unread.length === 0 && unexplained_tokens === 0 && cost_nano === null) return NO_ASIDE
  return { aside: { unread, unexplained_tokens, provider_cost_nano: cost_nano } }
}

/** Reads one usage value on its own (D1). */
export function readUsage(
  value: unknown,
  rules: UsageRules = ANY_USAGE,
  expected: Expected = WITH_OUTPUT,
): UsageReading {
  if (isMissing(value)) return { state: "missing" }
  const counted = isObject(value) ? count(value, rules) : null
  return counted === null ? INVALID : readingOf(counted, rules, expected)
}

/** The places of a usage object in an answer, a chunk or an event. */
type PlaceOf = (payload: JsonObject) => unknown

/** In this order: the first with valid usage decides (D87). */
const PLACES: readonly PlaceOf[] = [
  ({ usage }) => usage,
  ({ choices }) => (Array.isArray(choices) ? choices.findLast(isObject)?.usage : undefined), // Moonshot
  ({ x_groq }) => (isObject(x_groq) ? x_groq.usage : undefined), // Groq
]

/** What stands there, in their order. */
export function usageValuesOf(payload: JsonObject): readonly unknown[] {
  return PLACES.map((placeOf) => placeOf(payload))
}

/** The counts of the first valid usage of a payload; why there are none otherwise. */
export function usageIn(payload: JsonObject, rules: UsageRules): Counted | "missing" | "invalid" {
  let fault: "missing" | "invalid" = "missing"
  for (const placeOf of PLACES) {
    const value = placeOf(payload)
    if (isMissing(value)) continue
    const counted = isObject(value) ? count(value, rules) : null
    if (counted !== null) return counted
    fault = "invalid"
  }
  return fault
}

/** The usage of an answer of the chat family. */
export function readingIn(payload: JsonObject, rules: UsageRules): UsageReading {
  const counted = usageIn(payload, rules)
  return typeof counted === "string" ? { state: counted } : readingOf(counted, rules, WITH_OUTPUT)
}
