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

/** A reader's paths. Those with a name that may vary are known by what stands before and after it. */
interface Paths {
  readonly marks: ReadonlyMap<string, Mark>
  readonly varying: readonly Varying[]
}

interface Varying {
  readonly before: string
  readonly after: string
  readonly mark: Mark
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
  const telling = new Telling(pathsOf(reader), most)
  telling.visit(usage, "", 1)
  return telling.is_invalid ? null : telling
}

class Telling implements Told {
  readonly counts: Partial<Record<Count, number>> = {}
  runs: Record<string, number> | undefined
  cost_nano: bigint | null = null
  readonly unread: string[] = []
  readonly notes: Note[] = []
  is_invalid = false
  readonly #paths: Paths
  readonly #most: number
  readonly #ranks: Partial<Record<Count | "cost", number>> = {}
  #is_beside = false
  #is_fresh = true
  #values = 0

  constructor(paths: Paths, most: number) {
    this.#paths = paths
    this.#most = most
  }

  get cache_beside(): boolean {
    return this.#is_beside && this.#is_fresh
  }

  visit(value: JsonObject, above: string, depth: number): void {
    for (const name in value) {
      if (++this.#values > MAX_VALUES) return
      this.#take(value[name], above + name, depth)
    }
  }

  #take(item: unknown, path: string, depth: number): void {
    if (isMissing(item)) return
    const known = this.#paths.marks.get(path)
    const [tool, mark] = known === undefined ? this.#matched(path) : [undefined, known]
    if (mark?.is === "text") {
      if (typeof item === "string" && !mark.plain.includes(item)) this.#note("unpriced")
    } else if (isObject(item) && mark?.is !== "count") {
      if (depth < MAX_DEPTH) this.visit(item, `${path}.`, depth + 1)
    } else if (mark === undefined && Array.isArray(item)) {
      for (const one of item.slice(0, MAX_VALUES))
        if (depth < MAX_DEPTH && ++this.#values <= MAX_VALUES) this.#take(one, `${path}[]`, depth + 1)
    } else if (mark?.is === "group") this.#note(mark.note)
    else if (mark?.is === "count") this.#count(item, mark)
    else if (typeof item === "number" && item > 0) this.#number(item, mark, path, tool)
  }

  #matched(path: string): readonly [tool: string | undefined, mark: Mark | undefined] {
    for (const { before, after, mark } of this.#paths.varying) {
      if (!path.startsWith(before) || !path.endsWith(after)) continue
      const name = path.slice(before.length, path.length - after.length)
      if (NAME.test(name)) return [name, mark]
    }
    return [undefined, undefined]
  }

  #number(value: number, mark: Mark | undefined, path: string, tool: string | undefined): void {
    if (mark === undefined) this.#name(path)
    else if (mark.is === "unpriced") this.#note("unpriced")
    else if (mark.is === "run" && tool !== undefined && isWhole(value))
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
    if (!this.notes.includes(note)) this.notes.push(note)
  }

  #name(path: string): void {
    const name = path.slice(0, MAX_NAME_CHARS).replace(UNUSUAL, "?")
    if (this.unread.length < MAX_NAMES && !this.unread.includes(name)) this.unread.push(name)
  }
}

/** In whole nano-USD, rounded up. The text of a JSON number names it exactly, so nothing is computed with a float. */
function costOf(value: number, decimals: number): bigint | null {
  const units = parseJsonNumber(String(value), 18)
  const per_nano = 10n ** BigInt(9 + decimals)
  return units === null ? null : (units + per_nano - 1n) / per_nano
}

const known_paths = new Map<Reader, Paths>()

function pathsOf(reader: Reader): Paths {
  const paths = known_paths.get(reader) ?? compiled(reader)
  known_paths.set(reader, paths)
  return paths
}

function compiled(reader: Reader): Paths {
  const marks = new Map<string, Mark>()
  const varying: Varying[] = []
  const add = (path: string, mark: Mark) => {
    const [before = "", after] = path.split(/\*|\{\}/)
    if (after !== undefined) varying.push({ before, after, mark })
    else if (!marks.has(path) || marks.get(path)?.is === "group") marks.set(path, mark)
    const parent = path.slice(0, Math.max(0, path.lastIndexOf(".")))
    const note = mark.is === "count" && mark.count === "cached" ? "cached_malformed" : "details_malformed"
    if (parent !== "" && !/[*{]/.test(parent) && !marks.has(parent)) add(parent, { is: "group", note })
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
  return { marks, varying }
}
