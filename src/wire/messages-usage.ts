import type { Note } from "./call.ts"
import {
  type Buckets,
  countOf,
  isCount,
  isMissing,
  isObject,
  isWhole,
  type JsonObject,
  MAX_TOKENS,
  NO_LIMITS,
  objectOf,
  type UsageLimits,
  type UsageReading,
} from "./usage.ts"

/**
 * Reads the `usage` of a messages answer (D64). The prompt is its input plus what was read from a cache and written to
 * one. Nothing is converted (D1, D3). Usage that is not `final` has no output yet, and its searches count only if there
 * were any.
 */
export function readMessagesUsage(
  value: unknown,
  limits: UsageLimits = NO_LIMITS,
  final = true,
): UsageReading {
  if (isMissing(value)) return { state: "missing" }
  if (!isObject(value)) return { state: "invalid" }
  const { input_tokens, output_tokens, iterations } = value
  if (!isCount(input_tokens) || (final && !isCount(output_tokens))) return { state: "invalid" }
  const notes = new Set<Note>()
  const sum = new Sum(notes)
  sum.add(value, final)
  if (final) addIterations(iterations, sum, notes)
  if (ASIDE.some(([name, plain]) => !plain.has(value[name]))) notes.add("unpriced")
  const { prompt_tokens, cached_tokens, completion_tokens } = sum
  if (prompt_tokens > MAX_TOKENS || completion_tokens > MAX_TOKENS) return { state: "invalid" }
  if (prompt_tokens > limits.prompt_tokens || completion_tokens > limits.completion_tokens)
    return { state: "implausible" }
  const buckets = bucketsOf(sum, objectOf(value.server_tool_use).web_search_requests, final, notes)
  const usage = { prompt_tokens, cached_tokens, completion_tokens }
  return { state: "valid", usage: buckets === null ? usage : { ...usage, buckets }, notes: [...notes] }
}

/** The fields of a usage that are read. */
const FIELDS = [
  "input_tokens",
  "output_tokens",
  "cache_read_input_tokens",
  "cache_creation_input_tokens",
  "cache_creation",
  "output_tokens_details",
  "server_tool_use",
  "iterations",
  "service_tier",
  "speed",
  "inference_geo",
] as const

/**
 * The usage of a stream so far, merged with that of the next event: a present field replaces the earlier one; null and
 * absent fields change nothing. Only fields that are read are kept, so a stream with many field names takes no memory.
 */
export function mergeUsage(known: JsonObject, said: JsonObject): JsonObject {
  const merged = { ...known }
  for (const name of FIELDS) if (!isMissing(said[name])) merged[name] = said[name]
  return merged
}

/** Further fields that a price depends on, and their values without an extra cost. */
const ASIDE: readonly (readonly [name: string, plain: ReadonlySet<unknown>])[] = [
  ["speed", new Set([undefined, null, "standard"])],
  ["inference_geo", new Set([undefined, null, "", "global", "not_available"])],
]

/** The tokens of an answer: those of its usage, and of iterations that the usage leaves out. */
class Sum {
  prompt_tokens = 0
  cached_tokens = 0
  completion_tokens = 0
  cache_write = 0
  cache_write_1h = 0
  reasoning = 0
  readonly #notes: Set<Note>

  constructor(notes: Set<Note>) {
    this.#notes = notes
  }

  add(usage: JsonObject, with_output: boolean): void {
    const { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens } = usage
    const cached = this.#count(cache_read_input_tokens, "cached_malformed")
    const split = objectOf(usage.cache_creation)
    const short = this.#count(split.ephemeral_5m_input_tokens, "details_malformed")
    const long = this.#count(split.ephemeral_1h_input_tokens, "details_malformed")
    const is_told = isWhole(cache_creation_input_tokens)
    const written = is_told
      ? cache_creation_input_tokens
      : this.#count(cache_creation_input_tokens, "details_malformed") + short + long
    // What the split leaves out was written for five minutes.
    const long_written = Math.min(long, written)
    if (short + long > written) this.#notes.add("details_clamped")
    this.prompt_tokens += countOf(input_tokens) + cached + written
    this.cached_tokens += cached
    this.cache_write += written - long_written
    this.cache_write_1h += long_written
    if (!with_output) return
    this.completion_tokens += countOf(output_tokens)
    this.reasoning += this.#count(objectOf(usage.output_tokens_details).thinking_tokens, "details_malformed")
  }

  #count(value: unknown, note: Note): number {
    if (!isMissing(value) && !isWhole(value)) this.#notes.add(note)
    return countOf(value)
  }
}

/**
 * Adds what the usage leaves out: the tokens of a compaction, and those of other models, whose prices are not known.
 * They count as the model's own, and are noted.
 */
function addIterations(iterations: unknown, sum: Sum, notes: Set<Note>): void {
  if (isMissing(iterations)) return
  if (!Array.isArray(iterations)) {
    notes.add("details_malformed")
    return
  }
  for (const iteration of iterations) {
    if (!isObject(iteration)) notes.add("details_malformed")
    else if (iteration.type === "fallback_message") notes.add("unpriced")
    else if (iteration.type !== "message") {
      sum.add(iteration, true)
      if (iteration.type !== "compaction") notes.add("unpriced")
    }
  }
}

/** Final usage without searches means that there were none. */
function bucketsOf(sum: Sum, searches: unknown, final: boolean, notes: Set<Note>): Buckets | null {
  const { cache_write, cache_write_1h, reasoning } = sum
  if (!isMissing(searches) && !isWhole(searches)) notes.add("details_malformed")
  const web_search = countOf(searches)
  if (!final && cache_write + cache_write_1h + web_search === 0) return null
  return {
    ...(cache_write > 0 && { cache_write }),
    ...(cache_write_1h > 0 && { cache_write_1h }),
    ...(reasoning > 0 && { reasoning }),
    ...((final || web_search > 0) && { web_search }),
  }
}
