import { FIELDS, type FieldRow, type FieldScope, type Means } from "./fields.ts"
import { folded } from "./paths.ts"
import { isObject, isWritten } from "./usage.ts"

export interface FieldMeaning {
  readonly means: Means
  /** Empty for none. */
  readonly argument: string
  /** Values that enable nothing. */
  readonly off_values: readonly string[]
}

export interface KnownFields {
  readonly meanings: ReadonlyMap<string, FieldMeaning>
  /** The known spelling of each name, by the name folded (D18). */
  readonly spellings: ReadonlyMap<string, string>
}

const ROWS: Readonly<Record<FieldScope, readonly FieldRow[]>> = FIELDS

/** The fields of these scopes together. Of two rows for a name the later one counts. */
export function knownFields(...scopes: readonly FieldScope[]): KnownFields {
  return fieldsIn(scopes.flatMap((scope) => ROWS[scope]))
}

function fieldsIn(rows: readonly FieldRow[]): KnownFields {
  const meanings = new Map<string, FieldMeaning>()
  for (const [names, means, argument = "", off = ""] of rows) {
    for (const name of words(names)) meanings.set(name, { means, argument, off_values: words(off) })
  }
  return { meanings, spellings: new Map([...meanings.keys()].map((name) => [folded(name), name])) }
}

export function fieldsOfScope(name: string): KnownFields {
  const known = FIELDS_OF_SCOPE.get(name)
  if (known === undefined) throw new Error(`the table of fields has no scope ${name}`)
  return known
}

const FIELDS_OF_SCOPE = new Map(Object.entries(ROWS).map(([scope, rows]) => [scope, fieldsIn(rows)]))

/** The known names of a list in the table, each with its meaning. */
export function rowsByName<Rest extends readonly unknown[]>(
  rows: readonly (readonly [names: string, ...rest: Rest])[],
): ReadonlyMap<string, Rest> {
  return new Map(rows.flatMap(([names, ...rest]) => words(names).map((name) => [name, rest] as const)))
}

function words(text: string): readonly string[] {
  return text === "" ? [] : text.split(" ")
}

/** True if a value enables nothing: nothing at all, or one that the row says. */
export function isOff({ off_values }: FieldMeaning, value: unknown): boolean {
  if (value === null || value === undefined || value === false) return true
  if (Array.isArray(value)) return value.length === 0
  return off_values.length > 0 && off_values.some((word) => matchesOff(word, value))
}

function matchesOff(word: string, value: unknown): boolean {
  if (word.endsWith("*")) return typeof value === "string" && value.startsWith(word.slice(0, -1))
  const [name = "", meant] = word.split("=")
  if (meant === undefined) return isWritten(value, name)
  return isObject(value) && isWritten(value[name], meant)
}
