import { parseJsonNumber } from "../money.ts"
import type { Note } from "../wire/call.ts"
import { isMissing, isObject, isWhole, type JsonObject } from "../wire/usage.ts"
import { type Count, countNames, type Reader } from "./readers.ts"

/** What one usage object says, before its numbers are compared (D87). */
export interface Told {
  readonly counts: Readonly<Partial<Record<Count, number>>>
  /** Whether cached and written tokens are beside the prompt by their names. */
  readonly cache_beside: boolean
  readonly runs: Readonly<Record<string, number>> | undefined
  readonly cost_nano: bigint | null
  readonly unread: readonly string[]
  readonly notes: readonly Note[]
}

/** What the value at a path means. A `group` only has others below it. */
type Mark =
  | { readonly is: "count"; readonly count: Count; readonly rank: number; readonly beside: boolean }
  | { readonly is: "cost"; readonly decimals: number; readonly rank: number }
  | { readonly is: "text"; readonly plain: readonly string[] }
  | { readonly is: "run" | "known" | "unpriced" }
  | { readonly is: "group"; readonly note: Note }

/** The known names at a path of a usage, and below it. */
interface Known {
  mark: Mark | undefined
  readonly below: Map<string, Known>
  /** Names that may vary are known by what stands before and after. */
  readonly varying: { readonly before: string; readonly after: string; readonly known: Known }[]
}

const NAME = /^[\w-]{1,64}$/

/** A usage is an object of a dozen numbers. What is deeper, or comes after so many, is not read. */
const MAX_DEPTH = 6
const MAX_VALUES = 500
/** Of names on a receipt (D87). */
export const MAX_NAMES = 8
const MAX_NAME_CHARS = 64
/** A provider's name may be any text. */
const UNUSUAL = /[^\w.[\]-]/g

/** Null if a number that the usage depends on is no valid count of at most `most` (D1): nothing is converted. */
export function tell(usage: JsonObject, reader: Reader, most: number): Told | null {
  const telling = new Telling(most)
  telling.visit(usage, knownBy(reader), "", 1)
  return telling.is_invalid ? null : telling
}

const NONE: readonly never[] = []

class Telling implements Told {
  readonly counts: Partial<Record<Count, number>> = {}
  runs: Record<string, number> | undefined
  cost_nano: bigint | null = null
  unread: readonly string[] = NONE
  notes: readonly Note[] = NONE
  is_invalid = false
  readonly #most: number
  readonly #ranks: Partial<Record<Count | "cost", number>> = {}
  #is_beside = false
  #is_fresh = true
  #values = 0

  constructor(most: number) {
    this.#most = most
  }

  get cache_beside(): boolean {
    return this.#is_beside && this.#is_fresh
  }

  /** `tool` is the name that varies in the path. */
  visit(value: JsonObject, known: Known | undefined, above: string, depth: number, tool = ""): void {
    for (const name in value) {
      if (++this.#values > MAX_VALUES) return
      const exact = known?.below.get(name)
      const matched = exact === undefined ? matchedBy(known, name) : undefined
      this.#take(value[name], matched?.known ?? exact, above + name, depth, matched?.part ?? tool)
    }
  }

  #take(item: unknown, known: Known | undefined, path: string, depth: number, tool: string): void {
    if (isMissing(item)) return
    const mark = known?.mark
    if (mark?.is === "text") {
      if (typeof item === "string" && !mark.plain.includes(item)) this.#note("unpriced")
    } else if (isObject(item) && mark?.is !== "count") {
      if (depth < MAX_DEPTH) this.visit(item, known, `${path}.`, depth + 1, tool)
    } else if (mark === undefined && Array.isArray(item)) {
      for (const one of item.slice(0, MAX_VALUES))
        if (depth < MAX_DEPTH && ++this.#values <= MAX_VALUES)
          this.#take(one, undefined, `${path}[]`, depth + 1, tool)
    } else if (mark?.is === "group") this.#note(mark.note)
    else if (mark?.is === "count") this.#count(item, mark)
    else if (typeof item === "number" && item > 0) this.#number(item, mark, path, tool)
  }

  #number(value: number, mark: Mark | undefined, path: string, tool: string): void {
    if (mark === undefined) this.#name(path)
    else if (mark.is === "unpriced") this.#note("unpriced")
    else if (mark.is === "run" && isWhole(value))
      this.runs = { ...this.runs, [tool]: (this.runs?.[tool] ?? 0) + value }
    else if (mark.is === "cost" && mark.rank < (this.#ranks.cost ?? Number.POSITIVE_INFINITY)) {
      this.#ranks.cost = mark.rank
      this.cost_nano = costOf(value, mark.decimals)
    }
  }

  /** The first place with a positive number decides. A malformed detail counts as 0 and is noted (D3, D60). A malformed prompt or output makes the usage invalid. */
  #count(value: unknown, { count, rank, beside }: Extract<Mark, { is: "count" }>): void {
    const is_main = count === "prompt" || count === "output"
    if (!isWhole(value) || (is_main && value > this.#most)) {
      if (is_main) this.is_invalid = true
      else if (count !== "total") this.#note(count === "cached" ? "cached_malformed" : "details_malformed")
      return
    }
    const known = this.counts[count]
    const is_better = value > 0 && (known === 0 || rank < (this.#ranks[count] ?? rank))
    if (known !== undefined && !is_better) return
    this.counts[count] = value
    this.#ranks[count] = rank
    if (count === "prompt") this.#is_fresh = beside
    else if (value > 0 && (count === "cached" || count.startsWith("write"))) this.#is_beside = beside
  }

  #note(note: Note): void {
    if (!this.notes.includes(note)) this.notes = [...this.notes, note]
  }

  #name(path: string): void {
    const name = path.slice(0, MAX_NAME_CHARS).replace(UNUSUAL, "?")
    if (this.unread.length < MAX_NAMES && !this.unread.includes(name)) this.unread = [...this.unread, name]
  }
}

/** In whole nano-USD, rounded up. The text of a JSON number names it exactly, so nothing is computed with a float. */
function costOf(value: number, decimals: number): bigint | null {
  const units = parseJsonNumber(String(value), 18)
  const per_nano = 10n ** BigInt(9 + decimals)
  return units === null ? null : (units + per_nano - 1n) / per_nano
}

function matchedBy(known: Known | undefined, name: string) {
  if (known === undefined) return undefined
  for (const { before, after, known: found } of known.varying) {
    if (!name.startsWith(before) || !name.endsWith(after)) continue
    const part = name.slice(before.length, name.length - after.length)
    if (NAME.test(part)) return { known: found, part }
  }
  return undefined
}

const known_by = new Map<Reader, Known>()

function knownBy(reader: Reader): Known {
  const known = known_by.get(reader) ?? compiled(reader)
  known_by.set(reader, known)
  return known
}

function compiled(reader: Reader): Known {
  const root = nothingKnown()
  const add = (path: string, mark: Mark) => {
    const names = path.split(".")
    const note = mark.is === "count" && mark.count === "cached" ? "cached_malformed" : "details_malformed"
    let known = root
    for (const [at, name] of names.entries()) {
      known = knownBelow(known, name)
      const is_last = at === names.length - 1
      if (is_last && (known.mark === undefined || known.mark.is === "group")) known.mark = mark
      else if (!is_last && !VARIES.test(name)) known.mark ??= { is: "group", note }
    }
  }
  for (const count of countNames) {
    for (const [rank, path] of reader.counts[count].entries()) {
      const is_fresh = count === "prompt" && path === reader.fresh_prompt
      const beside = is_fresh || reader.beside.includes(path.split(".")[0] ?? "")
      add(path, { is: "count", count, rank, beside })
    }
  }
  for (const [rank, [path, decimals]] of reader.costs.entries()) add(path, { is: "cost", decimals, rank })
  for (const path of reader.known) add(path, { is: "known" })
  for (const path of reader.unpriced) add(path, { is: "unpriced" })
  for (const [path, plain] of Object.entries(reader.plain)) add(path, { is: "text", plain })
  for (const path of reader.runs) add(path, { is: "run" })
  return root
}

/** A name in a path that may vary, or a part of it. */
const VARIES = /\*|\{\}/

function knownBelow({ below, varying }: Known, name: string): Known {
  const [before = "", after] = name.split(VARIES)
  if (after === undefined) {
    const known = below.get(name) ?? nothingKnown()
    below.set(name, known)
    return known
  }
  const same = varying.find((one) => one.before === before && one.after === after)
  const known = same?.known ?? nothingKnown()
  if (same === undefined) varying.push({ before, after, known })
  return known
}

function nothingKnown(): Known {
  return { mark: undefined, below: new Map(), varying: [] }
}
