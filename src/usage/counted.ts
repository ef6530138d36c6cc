import { parseJsonNumber } from "../money.ts"
import type { Note } from "../wire/call.ts"
import {
  isMissing,
  isObject,
  isWhole,
  type JsonObject,
  MAX_PROVIDER_COST_NANO,
  MAX_TOKENS,
  objectOf,
} from "../wire/usage.ts"
import * as table from "./readers.ts"
import { type CountName, DETAILS, type UsageReader } from "./readers.ts"

/** The numbers of a usage, compared with its total, which decides what is a part of what (D87). */
export class Counted {
  counts: Partial<Record<CountName, number>> = {}
  /** True if cached and written tokens are beside the prompt, and reasoning beside the output. */
  cache_beside = false
  reasoning_beside = false
  /** Neither an output nor a total above the prompt was reported, so the output is estimated. */
  output_unknown: true | undefined
  /** The total less its parts; 0 if there is no total. */
  unexplained_tokens = 0
  runs: Readonly<Record<string, number>> | undefined
  cost_nano: bigint | null = null
  unread: readonly string[] = NONE
  notes: readonly Note[] = NONE

  note(note: Note): void {
    if (!this.notes.includes(note)) this.notes = [...this.notes, note]
  }

  /** Adds the path of a number that nobody reads, which may be any text of the provider. */
  name(path: string): void {
    const name = path.slice(0, MAX_NAME_CHARS).replace(UNUSUAL, "?")
    if (this.unread.length < MAX_NAMES && !this.unread.includes(name)) this.unread = [...this.unread, name]
  }

  /** Tokens that were read from a cache and written to one. */
  get cache(): number {
    const { cached = 0, write, write_5m = 0, write_1h = 0 } = this.counts
    return cached + (write ?? write_5m + write_1h)
  }

  get whole_prompt(): number {
    return (this.counts.prompt ?? 0) + (this.cache_beside ? this.cache : 0)
  }
}

const NONE: readonly never[] = []

/** A usage is an object of a dozen numbers. What is deeper, or comes after so many, is not read. */
const MAX_DEPTH = 6
const MAX_VALUES = 500
/** Of names on a receipt (D87). */
const MAX_NAMES = 8
const MAX_NAME_CHARS = 64
const UNUSUAL = /[^\w.[\]-]/g
const TOOL_NAME = /^[\w-]{1,64}$/

/** At least the names of one object of details. */
const MAX_PARENTS = 4

interface UsagePath {
  readonly is: "count" | "cost" | "run" | "known" | "unpriced" | "text"
  readonly count: CountName | null
  /** In the order of the places of the count, or of the costs. */
  readonly rank: number
  /** As the table writes it, with `in` or `out` for several names. */
  readonly path: string
}

/** The table, by the path of an object and the names in it. `varying` has paths with a `*`: the text before and after it. */
const { places: PLACES, varying: VARYING } = compiled()

function compiled() {
  const places: Record<string, Record<string, UsagePath>> = Object.create(null)
  const varying: (readonly [before: string, after: string, place: UsagePath])[] = []
  const add = (paths: readonly string[], is: UsagePath["is"], count: CountName | null = null) => {
    for (const [rank, path] of paths.entries()) {
      const [first = "", ...rest] = path.split(".")
      for (const [at, parent] of (DETAILS[first] ?? [first]).entries()) {
        const [before = "", after] = [parent, ...rest].join(".").split("*")
        const names = before.split(".")
        const parents = names.map((_, at) => (places[names.slice(0, at).join(".")] ??= Object.create(null)))
        const place = { is, count, rank: rank * MAX_PARENTS + at, path }
        if (after !== undefined) varying.push([before, after, place])
        else Object.assign(parents.at(-1) ?? {}, { [names.at(-1) ?? ""]: place })
      }
    }
  }
  for (const is of ["known", "unpriced", "run"] as const) add(table.OTHERS[is].split(/\s+/), is)
  add(Object.keys(table.PLAIN), "text")
  add(Object.keys(table.COSTS), "cost")
  for (const [count, paths] of Object.entries(table.COUNTS) as [CountName, string][])
    add(paths.split(/\s+/), "count", count)
  return { places, varying }
}

/** The counts of one usage object; null if a number that it depends on is no valid count (D1): nothing is converted. */
export function count(usage: unknown, { rest }: UsageReader): Counted | null {
  if (!isObject(usage)) return null
  const visit = new UsageVisit()
  visit.object(usage, "", 1)
  if (visit.is_invalid) return null
  const { counted } = visit
  counted.cache_beside = visit.isCacheBeside()
  reconcile(counted, rest)
  if (!isMissing(usage.iterations)) addIterations(counted, usage.iterations, rest)
  return counted
}

/** Reads one usage object by the table. */
class UsageVisit {
  readonly counted = new Counted()
  is_invalid = false
  readonly #places: Partial<Record<CountName | "cost", UsagePath>> = {}
  #values = 0

  object(value: JsonObject, path: string, depth: number): void {
    const known = PLACES[path]
    for (const name in value) {
      if (++this.#values > MAX_VALUES) return
      const item = value[name]
      if (item === null || item === undefined) continue
      const place = known?.[name]
      if (place !== undefined && place.count !== null) this.#count(item, place.count, place)
      else this.#value(item, place, path === "" ? name : `${path}.${name}`, depth)
    }
  }

  #value(value: unknown, place: UsagePath | undefined, path: string, depth: number): void {
    if (isMissing(value)) return
    if (place?.is === "text") {
      const plain = table.PLAIN[place.path] ?? NONE
      if (typeof value === "string" && !plain.includes(value)) this.counted.note("unpriced")
    } else if (isObject(value)) {
      if (depth < MAX_DEPTH) this.object(value, path, depth + 1)
    } else if (place !== undefined) this.#number(value, place, "")
    else if (path in PLACES)
      this.counted.note(DETAILS.in?.includes(path) ? "cached_malformed" : "details_malformed")
    else if (typeof value === "number" && value > 0) this.#unknown(value, path)
    else if (Array.isArray(value))
      for (const item of value.slice(0, MAX_VALUES))
        if (depth < MAX_DEPTH && ++this.#values <= MAX_VALUES)
          this.#value(item, undefined, `${path}[]`, depth + 1)
  }

  /** A malformed detail counts as 0 and is noted (D3, D60). A malformed prompt or output makes the usage invalid. */
  #count(value: unknown, count: CountName, place: UsagePath): void {
    const is_main = count === "prompt" || count === "output"
    if (!isWhole(value) || (is_main && value > MAX_TOKENS)) {
      if (is_main) this.is_invalid = true
      else if (count !== "total")
        this.counted.note(count === "cached" ? "cached_malformed" : "details_malformed")
      return
    }
    const { counts } = this.counted
    const known = counts[count]
    const is_better = value > 0 && (known === 0 || place.rank < (this.#places[count]?.rank ?? 0))
    if (known !== undefined && !is_better) return
    counts[count] = value
    this.#places[count] = place
  }

  #unknown(value: number, path: string): void {
    for (const [before, after, place] of VARYING) {
      if (!path.startsWith(before) || !path.endsWith(after)) continue
      const tool = path.slice(before.length, path.length - after.length)
      if (!TOOL_NAME.test(tool)) continue
      this.#number(value, place, tool)
      return
    }
    this.counted.name(path)
  }

  #number(value: unknown, place: UsagePath, tool: string): void {
    if (typeof value !== "number" || value <= 0) return
    const { is, rank, path } = place
    if (is === "unpriced") this.counted.note("unpriced")
    else if (is === "run" && isWhole(value))
      this.counted.runs = { ...this.counted.runs, [tool]: (this.counted.runs?.[tool] ?? 0) + value }
    else if (is === "cost" && rank < (this.#places.cost?.rank ?? Number.POSITIVE_INFINITY)) {
      this.#places.cost = place
      this.counted.cost_nano = costOf(value, table.COSTS[path] ?? 0)
      if (this.counted.cost_nano === null) this.counted.name(path)
    }
  }

  /** True if cached and written tokens are beside the prompt by their names. */
  isCacheBeside(): boolean {
    const { prompt } = this.#places
    if (prompt !== undefined && prompt.path !== table.FRESH_PROMPT) return false
    return table.OF_CACHE.some(
      (name) =>
        (this.counted.counts[name] ?? 0) > 0 && this.#places[name]?.path.startsWith(table.BESIDE) === true,
    )
  }
}

/** In whole nano-USD, rounded up; null for more than any call costs. The text of a JSON number names it exactly, so nothing is computed with a float. */
function costOf(value: number, decimals: number): bigint | null {
  const units = parseJsonNumber(String(value), 18)
  const per_nano = 10n ** BigInt(9 + decimals)
  const cost_nano = units === null ? null : (units + per_nano - 1n) / per_nano
  return cost_nano !== null && cost_nano <= MAX_PROVIDER_COST_NANO ? cost_nano : null
}

/** Tries which counts are beside their parents, first as their names say, until the parts add up to the total. */
function reconcile(counted: Counted, rest: UsageReader["rest"]): void {
  const { counts, cache_beside, cache } = counted
  const { prompt, output, total = 0, reasoning = 0 } = counts
  if (total === 0 || prompt === undefined) return
  if (output === undefined) {
    const left = total - counted.whole_prompt
    if (left < 0) return
    counts.output = left
    // Nothing was said where thinking took all of it.
    if (rest === "output") counts.reasoning = left
    if (left === 0) counted.output_unknown = true
    return
  }
  for (const is_beside of [cache_beside, !cache_beside]) {
    if (!is_beside && cache > prompt) continue
    const parts = prompt + output + (is_beside ? cache : 0)
    if (parts !== total && parts + reasoning !== total) continue
    counted.cache_beside = is_beside
    counted.reasoning_beside = parts !== total
    return
  }
  const unexplained_tokens = total - counted.whole_prompt - output
  if (rest === "unknown" || unexplained_tokens < 0) counted.unexplained_tokens = unexplained_tokens
  else {
    counts.output = output + unexplained_tokens
    counts.reasoning = reasoning + unexplained_tokens
  }
}

/** Adds what the top level of a usage leaves out: passes that summarise the prompt, and parts by other models (D64). */
function addIterations(top: Counted, iterations: unknown, rest: UsageReader["rest"]): void {
  if (!Array.isArray(iterations)) {
    top.note("details_malformed")
    return
  }
  for (const iteration of iterations) {
    const { type, iterations: _, ...usage } = objectOf(iteration)
    if (type === "message") continue
    const part = isObject(iteration) ? count(usage, { rest }) : null
    if (part === null) top.note("details_malformed")
    else if (type === "fallback_message") top.note("unpriced")
    else {
      if (type !== "compaction") top.note("unpriced")
      for (const [name, tokens] of Object.entries(part.counts) as [CountName, number][])
        top.counts[name] = (top.counts[name] ?? 0) + tokens
      top.cache_beside ||= part.cache_beside
      addAside(top, part)
    }
  }
}

function addAside(to: Counted, { unread, notes }: Counted): void {
  for (const note of notes) to.note(note)
  for (const name of unread) to.name(name)
}

/** The counts of a stream so far with those of its next event: the last number wins, and what is absent changes nothing (D4). */
export function merged(known: Counted | null, next: Counted): Counted {
  if (known === null) return next
  const sum = Object.assign(new Counted(), known, { counts: { ...known.counts } })
  // A 0 erases nothing, unless the parts of the prompt in its event are together at least what they were.
  const zeros_count = next.whole_prompt >= known.whole_prompt
  for (const [name, tokens] of Object.entries(next.counts) as [CountName, number][])
    if (tokens > 0 || sum.counts[name] === undefined || (zeros_count && table.OF_PROMPT.includes(name)))
      sum.counts[name] = tokens
  if (next.cache > 0) sum.cache_beside = next.cache_beside
  if ((next.counts.reasoning ?? 0) > 0) sum.reasoning_beside = next.reasoning_beside
  if (next.counts.output !== undefined) sum.output_unknown = next.output_unknown
  if (next.counts.total !== undefined) sum.unexplained_tokens = next.unexplained_tokens
  if (next.runs !== undefined) sum.runs = { ...known.runs, ...next.runs }
  sum.cost_nano = next.cost_nano ?? known.cost_nano
  addAside(sum, next)
  return sum
}
