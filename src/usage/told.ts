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

/** What the number at a place means. */
type Mark =
  | { readonly is: "count"; readonly count: Count; readonly rank: number; readonly beside: boolean }
  | { readonly is: "run" }
  | { readonly is: "cost"; readonly decimals: number; readonly rank: number }
  | { readonly is: "known" }
  | { readonly is: "unpriced" }
  | { readonly is: "text"; readonly plain: ReadonlySet<string> }

/** A name of a usage, and the names below it. */
interface Place {
  mark: Mark | null
  readonly below: Map<string, Place>
  /** Other names, by how they end. */
  readonly others: OtherNames[]
}

interface OtherNames {
  readonly suffix: string
  /** Whether what stands before the suffix is the name of a tool. */
  readonly is_tool: boolean
  readonly place: Place
}

/** A usage is an object of a dozen numbers. What is deeper, or comes after so many, is not read. */
const MAX_DEPTH = 6
const MAX_NUMBERS = 500
/** Of names on a receipt (D87). */
const MAX_NAMES = 8
const MAX_NAME_CHARS = 64

const trees = new Map<Reader, Place>()

/** Null if a number that the usage depends on is no valid count (D1): nothing is converted. */
export function tell(usage: JsonObject, reader: Reader, most: number): Told | null {
  const telling = new Telling(most)
  telling.visit(usage, treeOf(reader), "", 1, null)
  return telling.is_invalid ? null : telling
}

class Telling implements Told {
  readonly counts: Partial<Record<Count, number>> = {}
  runs: Record<string, number> | undefined
  cost_nano: bigint | null = null
  readonly unread: string[] = []
  readonly notes: Note[] = []
  is_invalid = false
  readonly #ranks: Partial<Record<Count, number>> = {}
  readonly #most: number
  #is_beside = false
  #is_fresh = true
  #cost_rank = Number.POSITIVE_INFINITY
  #numbers = 0

  constructor(most: number) {
    this.#most = most
  }

  get cache_beside(): boolean {
    return this.#is_beside && this.#is_fresh
  }

  visit(value: JsonObject, place: Place | null, path: string, depth: number, tool: string | null): void {
    for (const name in value) {
      const item = value[name]
      if (isMissing(item)) continue
      const known = place?.below.get(name)
      if (known !== undefined) {
        this.#take(item, known, path, name, depth, tool)
        continue
      }
      const other = place?.others.find(({ suffix }) => name.endsWith(suffix))
      const named = other?.is_tool === true ? name.slice(0, name.length - other.suffix.length) : tool
      this.#take(item, other?.place ?? null, path, name, depth, named)
    }
  }

  #take(item: unknown, place: Place | null, path: string, name: string, depth: number, tool: string | null) {
    const mark = place?.mark ?? null
    if (typeof item === "number" && (mark !== null || place === null))
      this.#number(item, mark, `${path}${name}`, tool)
    else if (typeof item === "string" && mark?.is === "text") {
      if (!mark.plain.has(item)) this.#note("unpriced")
    } else if (isObject(item) && (mark === null || (place?.below.size ?? 0) > 0)) {
      if (depth < MAX_DEPTH) this.visit(item, place, `${path}${name}.`, depth + 1, tool)
    } else if (place === null && Array.isArray(item)) {
      for (const one of item.slice(0, MAX_NUMBERS))
        if (depth < MAX_DEPTH) this.#take(one, null, path, `${name}[]`, depth + 1, tool)
    } else if (mark !== null) this.#malformed(mark)
    else if (place !== null) this.#note(hasCached(place) ? "cached_malformed" : "details_malformed")
  }

  #number(value: number, mark: Mark | null, path: string, tool: string | null): void {
    this.#numbers += 1
    if (this.#numbers > MAX_NUMBERS) return
    switch (mark?.is) {
      case "count":
        if (!isWhole(value)) this.#malformed(mark)
        else this.#count(value, mark)
        return
      case "run":
        if (isWhole(value) && value > 0 && tool !== null)
          this.runs = { ...this.runs, [tool]: (this.runs?.[tool] ?? 0) + value }
        return
      case "cost":
        if (mark.rank >= this.#cost_rank) return
        this.#cost_rank = mark.rank
        this.cost_nano = costOf(value, mark.decimals)
        return
      case "unpriced":
        if (value > 0) this.#note("unpriced")
        return
      case undefined:
        if (value > 0) this.#name(path)
    }
  }

  #count(value: number, { count, rank, beside }: Extract<Mark, { is: "count" }>): void {
    const known = this.counts[count]
    const is_better =
      known === undefined || (value > 0 && (known === 0 || rank < (this.#ranks[count] ?? rank)))
    if (!is_better) return
    if ((count === "prompt" || count === "output") && value > this.#most) this.is_invalid = true
    this.counts[count] = value
    this.#ranks[count] = rank
    if (count === "prompt") this.#is_fresh = beside
    else if (value > 0 && (count === "cached" || count.startsWith("write"))) this.#is_beside = beside
  }

  /** A malformed detail counts as 0 and is noted (D3, D60). A malformed prompt or output makes the usage invalid. */
  #malformed(mark: Mark): void {
    if (mark.is !== "count" || mark.count === "total") return
    if (mark.count === "prompt" || mark.count === "output") this.is_invalid = true
    else this.#note(mark.count === "cached" ? "cached_malformed" : "details_malformed")
  }

  #note(note: Note): void {
    if (!this.notes.includes(note)) this.notes.push(note)
  }

  #name(path: string): void {
    const name = path.slice(0, MAX_NAME_CHARS)
    if (this.unread.length < MAX_NAMES && !this.unread.includes(name)) this.unread.push(name)
  }
}

/** In whole nano-USD, rounded up. A text that JSON printed names a number exactly, so nothing is computed with a float. */
function costOf(value: number, decimals: number): bigint | null {
  const units = parseJsonNumber(String(value), 18)
  if (units === null) return null
  const per_nano = 10n ** BigInt(9 + decimals)
  return (units + per_nano - 1n) / per_nano
}

function hasCached(place: Place): boolean {
  for (const { mark } of place.below.values())
    if (mark?.is === "count" && mark.count === "cached") return true
  return false
}

function treeOf(reader: Reader): Place {
  let tree = trees.get(reader)
  if (tree === undefined) {
    tree = treeFrom(reader)
    trees.set(reader, tree)
  }
  return tree
}

function treeFrom(reader: Reader): Place {
  const root = emptyPlace()
  const set = (path: string, mark: Mark) => {
    placeAt(root, path).mark ??= mark
  }
  const beside = new Set(reader.beside)
  for (const count of countNames) {
    for (const [rank, path] of reader.counts[count].entries()) {
      const is_beside = count === "prompt" ? path === reader.fresh_prompt : beside.has(topOf(path))
      set(path, { is: "count", count, rank, beside: is_beside })
    }
  }
  for (const [rank, [path, decimals]] of reader.costs.entries()) set(path, { is: "cost", decimals, rank })
  for (const path of reader.known) set(path, { is: "known" })
  for (const path of reader.unpriced) set(path, { is: "unpriced" })
  for (const [path, plain] of Object.entries(reader.plain)) set(path, { is: "text", plain: new Set(plain) })
  for (const path of reader.runs) set(path, { is: "run" })
  return root
}

function topOf(path: string): string {
  return path.split(".")[0] ?? ""
}

function emptyPlace(): Place {
  return { mark: null, below: new Map(), others: [] }
}

function placeAt(root: Place, path: string): Place {
  let place = root
  for (const name of path.split(".")) {
    const is_tool = name.startsWith("{}")
    const next = place.below.get(name) ?? emptyPlace()
    if (is_tool || name === "*")
      place.others.push({ suffix: name.slice(is_tool ? 2 : 1), is_tool, place: next })
    else place.below.set(name, next)
    place = next
  }
  return place
}
