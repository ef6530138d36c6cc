import { FIELDS, type FieldPlace, type FieldRow, type Means } from "./fields.ts"
import { folded } from "./paths.ts"
import { isObject } from "./usage.ts"

export interface FieldMeaning {
  readonly means: Means
  /** Empty for none. */
  readonly argument: string
  /** Values that ask for nothing. */
  readonly idle: readonly string[]
}

export interface Known {
  readonly meanings: ReadonlyMap<string, FieldMeaning>
  /** The known spelling of each name, by the name folded (D18). */
  readonly spellings: ReadonlyMap<string, string>
}

const ROWS: Readonly<Record<FieldPlace, readonly FieldRow[]>> = FIELDS

/** The fields of these places together. Of two rows for a name the later one counts. */
export function knownAt(...places: readonly FieldPlace[]): Known {
  return knownIn(places.flatMap((place) => ROWS[place]))
}

function knownIn(rows: readonly FieldRow[]): Known {
  const meanings = new Map<string, FieldMeaning>()
  for (const [names, means, argument = "", idle = ""] of rows) {
    for (const name of words(names)) meanings.set(name, { means, argument, idle: words(idle) })
  }
  return { meanings, spellings: new Map([...meanings.keys()].map((name) => [folded(name), name])) }
}

export function placeNamed(name: string): Known {
  const known = PLACES.get(name)
  if (known === undefined) throw new Error(`the table of fields has no place ${name}`)
  return known
}

const PLACES = new Map(Object.entries(ROWS).map(([place, rows]) => [place, knownIn(rows)]))

/** The known names of a list in the table, each with its meaning. */
export function namesIn<Rest extends readonly unknown[]>(
  rows: readonly (readonly [names: string, ...rest: Rest])[],
): ReadonlyMap<string, Rest> {
  return new Map(rows.flatMap(([names, ...rest]) => words(names).map((name) => [name, rest] as const)))
}

function words(text: string): readonly string[] {
  return text === "" ? [] : text.split(" ")
}

/** True if a value asks for nothing: nothing at all, or one that the row says. */
export function isIdle({ idle }: FieldMeaning, value: unknown): boolean {
  if (value === null || value === undefined || value === false) return true
  if (Array.isArray(value)) return value.length === 0
  return idle.length > 0 && idle.some((word) => saysIdle(word, value))
}

function saysIdle(word: string, value: unknown): boolean {
  if (word.endsWith("*")) return typeof value === "string" && value.startsWith(word.slice(0, -1))
  const [name, meant] = word.split("=")
  if (meant === undefined) return String(value) === name
  return isObject(value) && name !== undefined && String(value[name]) === meant
}
