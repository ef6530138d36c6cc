import { type Bucket, buckets } from "../kinds.ts"
import {
  isMissing,
  type JsonObject,
  MAX_TOKENS,
  NO_LIMITS,
  objectOf,
  type UsageLimits,
  type UsageReading,
} from "../wire/usage.ts"
import { Counted, count, merged } from "./counted.ts"
import { readers, type UsageReader } from "./readers.ts"

/** The reader of a call's usage, and the most that the request can have caused (D1, D87). */
export interface UsageRules {
  readonly reader: UsageReader
  readonly limits: UsageLimits
  /** True if cache writes count as writes for one hour if the provider does not report their lifetime (D60). */
  readonly writes_for_an_hour: boolean
}

/** For usage of an unknown provider and an unknown request. */
export const ANY_USAGE: UsageRules = { reader: readers.default, limits: NO_LIMITS, writes_for_an_hour: false }

/** The counts that a usage must have to be valid. */
export interface Expected {
  /** True if it counts output: embeddings have none, and the first event of a message does not count it yet. */
  readonly output: boolean
  /** Searches and runs of the provider's tools in the answer, for a usage that does not count them. */
  readonly searches?: number | undefined
  readonly runs?: Readonly<Record<string, number>> | undefined
}

export const WITH_OUTPUT: Expected = { output: true }

const INVALID: UsageReading = { state: "invalid" }

/** The counts in the form that is charged (D87): every token in one part only, and none beyond what is plausible (D1). */
function readingOf(counted: Counted, rules: UsageRules, expected: Expected): UsageReading {
  const { limits, writes_for_an_hour } = rules
  const { counts, cache_beside, reasoning_beside, unexplained_tokens, unread, cost_nano } = counted
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
  // Tokens beyond what is plausible are taken from the cheapest, so that no more is charged for less.
  const excess = reported_prompt - prompt_tokens
  const cached_tokens = Math.max(0, Math.min(cached, reported_prompt) - excess)
  const notes = [...counted.notes]
  if (excess > 0 || completion_tokens < reported_output) notes.push("usage_implausible")
  if (cached > reported_prompt) notes.push("cached_clamped")
  if (write_5m + write_1h > write) notes.push("details_clamped")
  if (unexplained_tokens !== 0) notes.push("total_unexplained")
  if (unread.length > 0) notes.push("usage_unread")
  const charged = bucketsOf(counts, write - long, long, expected)
  const tool_runs = counted.runs ?? expected.runs
  const has_aside = unread.length > 0 || unexplained_tokens !== 0 || cost_nano !== null
  return {
    state: "valid",
    usage: { prompt_tokens, cached_tokens, completion_tokens, buckets: charged, tool_runs },
    notes,
    aside: has_aside ? { unread, unexplained_tokens, provider_cost_nano: cost_nano } : undefined,
    output_unknown: counted.output_unknown,
  }
}

function bucketsOf(counts: Counted["counts"], write_5m: number, write_1h: number, expected: Expected) {
  const { audio_input = 0, cached_audio, searches = expected.searches } = counts
  const found: Readonly<Record<Bucket, number | undefined>> = {
    cache_write: write_5m,
    cache_write_1h: write_1h,
    audio_input: audio_input - (cached_audio ?? 0),
    cached_audio_input: cached_audio,
    image_input: counts.image_input,
    reasoning: expected.output ? counts.reasoning : 0,
    audio_output: counts.audio_output,
    image_output: counts.image_output,
    page: counts.pages,
    web_search: searches,
  }
  let charged: Partial<Record<Bucket, number>> | undefined
  for (const bucket of buckets) {
    const count = found[bucket] ?? 0
    // Searches that are counted as none are kept, so that those of the request are not charged (D60).
    const is_none = bucket === "web_search" && searches === 0 && expected.output
    if (count > 0 || is_none) charged = { ...charged, [bucket]: count }
  }
  return charged
}

/** The usage of one value on its own (D1). */
export function readUsage(value: unknown, rules = ANY_USAGE, expected = WITH_OUTPUT): UsageReading {
  return readingIn({ usage: value }, rules, expected)
}

/** The usage of an answer, from its first valid place. */
export function readingIn(payload: JsonObject, rules: UsageRules, expected = WITH_OUTPUT): UsageReading {
  const counted = firstCounted(usagesOf(payload), rules)
  return counted instanceof Counted ? readingOf(counted, rules, expected) : { state: counted }
}

const NONE: readonly never[] = []

/** The values in the places of usage of a payload, in their order (D87). */
export function usagesOf({ usage, choices, x_groq }: JsonObject): readonly unknown[] {
  const groq = objectOf(x_groq).usage
  const of_choices = Array.isArray(choices) && choices.some(hasUsage) ? choices.filter(hasUsage) : NONE
  if (of_choices.length === 0 && isMissing(groq)) return isMissing(usage) ? NONE : [usage]
  const others = of_choices.map((choice: JsonObject) => choice.usage).reverse()
  return [usage, ...others, groq].filter((value) => !isMissing(value))
}

function hasUsage(choice: unknown): boolean {
  return !isMissing(objectOf(choice).usage)
}

/** The counts of a usage; why there are none otherwise. */
export type ReportedUsage = Counted | "missing" | "invalid"

export function firstCounted(usages: readonly unknown[], { reader }: UsageRules): ReportedUsage {
  for (const usage of usages) {
    const counted = count(usage, reader)
    if (counted !== null) return counted
  }
  return usages.length === 0 ? "missing" : "invalid"
}

/** The usage of a stream so far: from event to event the last valid number wins (D4, D87). */
export class StreamUsage {
  readonly rules: UsageRules
  #counted: Counted | null = null
  /** The usage that counts; why there is none otherwise. */
  reading: UsageReading = { state: "missing" }

  constructor(rules: UsageRules) {
    this.rules = rules
  }

  /** Takes valid counts of an event, which need not be valid alone if it `adds`. Returns whether it took them (D4). */
  take(next: ReportedUsage, expected: Expected, adds: boolean): boolean {
    if (next instanceof Counted) {
      const counted = merged(this.#counted, next)
      const reading = readingOf(counted, this.rules, expected)
      const is_known = adds || counted === next || readingOf(next, this.rules, expected).state === "valid"
      if (reading.state === "valid" && is_known) {
        this.#counted = counted
        this.reading = reading
        return true
      }
    }
    if (next !== "missing" && this.reading.state !== "valid") this.reading = INVALID
    return false
  }
}
