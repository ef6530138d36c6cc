import { KindGuard, type TSchema } from "@sinclair/typebox"
import { type Fault, pathOf } from "../wire/fault.ts"
import { isObject } from "../wire/usage.ts"

/** Readers of configured values: durations, sizes, URLs, defaults, and references to variables and files. */

/** A duration with its unit. The digits limit it to some days, because a longer timer would fire immediately. */
export const DURATION = /^(?:\d{1,8}ms|\d{1,6}s|\d{1,4}m|\d{1,2}h)$/

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  B: 1,
  KB: 1_000,
  KiB: 1_024,
  MB: 1_000_000,
  MiB: 1_048_576,
  GB: 1_000_000_000,
  GiB: 1_073_741_824,
}

/** A size: a whole number above zero and a unit. Below 1 GiB, the limit of a string. */
export const SIZE = /^(?!0+[BKM])(?:\d{1,9}B|\d{1,6}Ki?B|\d{1,3}Mi?B)$/

/** The same for memory, which can be larger. */
export const MEMORY_SIZE = /^(?!0+[BKMG])(?:\d{1,9}B|\d{1,6}Ki?B|\d{1,3}[MG]i?B)$/

export type FaultReport = (path: string, expected: string) => void

/** The reporter of a part of the file, whose paths begin at that part: `key`, `[0]`, or `""` for the part itself. */
export function under(report: FaultReport, part: string): FaultReport {
  const dot = (path: string) => (path === "" || path.startsWith("[") ? path : `.${path}`)
  return (path, expected) => report(`${part}${dot(path)}`, expected)
}

/** `50ms`, `15s`, `5m`, `1h` in milliseconds. Throws where the schema should have refused it. */
export function ms(text: string): number {
  return quantity(text, DURATION)
}

/** `20MiB`, `512KiB`, `4GiB`, `64B` in bytes. Throws where the schema should have refused it. */
export function bytes(text: string): number {
  return quantity(text, MEMORY_SIZE)
}

function quantity(text: string, form: RegExp): number {
  return checked(
    form.test(text) ? Number.parseInt(text, 10) * (UNITS[text.replace(/^\d+/, "")] ?? NaN) : null,
  )
}

/** A value that was read from a text which the schema accepted. */
export function checked<Value>(value: Value | null): Value {
  if (value === null) throw new Error("the schema of the file accepted a value that cannot be parsed")
  return value
}

/** Removes trailing slashes. A loop, because a regular expression can take quadratic time here. */
export function withoutSlashes(url: string): string {
  let end = url.length
  while (url[end - 1] === "/") end--
  return url.slice(0, end)
}

/** Fills in defaults. Invalid values stay, so that the check reports them; TypeBox's `Default` replaces them. */
export function complete(schema: TSchema, value: unknown): unknown {
  // A field that `set` sets to null is sent as null.
  if (KindGuard.IsUnknown(schema)) return value
  const given = value ?? schema.default
  if (KindGuard.IsArray(schema)) {
    return Array.isArray(given) ? given.map((item) => complete(schema.items, item)) : given
  }
  if (!isObject(given)) return given
  if (KindGuard.IsRecord(schema)) {
    const [item] = Object.values(schema.patternProperties)
    return item === undefined ? given : mapEntries(given, (entry) => complete(item, entry))
  }
  if (KindGuard.IsObject(schema)) {
    return {
      ...given,
      ...mapEntries(schema.properties, (property, key) =>
        complete(property, Object.hasOwn(given, key) ? given[key] : undefined),
      ),
    }
  }
  return given
}

/** The same keys with other values; a key named `__proto__` stays a key. */
function mapEntries<T>(
  mapping: Readonly<Record<string, T>>,
  change: (value: T, key: string) => unknown,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(mapping).map(([key, value]) => [key, change(value, key)]))
}

export interface Sources {
  readonly env: Environ
  /** The text of a file; throws if it cannot be read. The caller decides what a relative path is relative to. */
  readonly readFile: (path: string) => string
}

/** Environment variables, as in `process.env`. */
export type Environ = Readonly<Record<string, string | undefined>>

const REFERENCE = /\$\{([^}]*)(\}?)/g
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/
const FILE = "file:"

/** Replaces `${NAME}` and `${file:PATH}` in every string, once. Empty ones are missing. Faults have no values. */
export function resolve(value: unknown, sources: Sources): { value: unknown; faults: readonly Fault[] } {
  const faults: Fault[] = []
  const at = (keys: readonly string[], value: unknown, around: readonly unknown[]): unknown => {
    const refuse = (expected: string) => faults.push({ path: pathOf(keys), expected })
    if (typeof value === "string") {
      return value.replace(REFERENCE, (whole, name: string, end: string) => {
        const found = end === "" ? malformed : lookUp(name, sources)
        if ("text" in found) return found.text
        refuse(found.expected)
        return whole
      })
    }
    if (around.includes(value)) {
      refuse("no alias to a value that contains it")
      return null
    }
    const inside = (item: unknown, key: string | number) =>
      at([...keys, String(key)], item, [...around, value])
    if (Array.isArray(value)) return value.map(inside)
    return isObject(value) ? mapEntries(value, inside) : value
  }
  return { value: at([], value, []), faults }
}

type FoundText = { readonly text: string } | { readonly expected: string }

// biome-ignore lint/suspicious/noTemplateCurlyInString: the message shows what people write
const malformed: FoundText = { expected: "a reference of the form ${NAME} or ${file:PATH}" }

function lookUp(name: string, sources: Sources): FoundText {
  if (name.startsWith(FILE)) return fileText(name.slice(FILE.length), sources)
  if (!VARIABLE.test(name)) return malformed
  const variable = readVariable(name, sources)
  switch (variable.state) {
    case "set":
      return variable
    case "unset":
      return { expected: `the environment variable ${name} to be set and not empty` }
    case "unreadable":
      return { expected: `the file that ${name}_FILE names to be readable and not empty` }
    case "set twice":
      return { expected: `the environment variable ${name} to be unset when ${name}_FILE is set` }
  }
}

function fileText(path: string, { readFile }: Sources): FoundText {
  const text = textOf(path, readFile)
  if (text !== null) return { text }
  const named = path.startsWith("/") ? path : `${path} (relative to the working directory of the gateway)`
  return { expected: `the file ${named} to be readable and not empty` }
}

/** `unset`: also if empty. `unreadable`: `NAME_FILE` names no readable, non-empty file. `set twice`: both are set. */
type Variable =
  | { readonly state: "set"; readonly text: string }
  | { readonly state: "unset" | "unreadable" | "set twice" }

/** A variable that can be a secret: `NAME`, or the content of the file in `NAME_FILE`. Empty counts as unset. */
function readVariable(name: string, { env, readFile }: Sources): Variable {
  const text = envOf(name, env)
  const path = envOf(`${name}_FILE`, env)
  if (path === null) return text === null ? { state: "unset" } : { state: "set", text }
  if (text !== null) return { state: "set twice" }
  const content = textOf(path, readFile)
  return content === null ? { state: "unreadable" } : { state: "set", text: content }
}

/** The text of a variable that can be a secret; null if it is unset. Reports one that cannot be read. */
export function secretIn(name: string, sources: Sources, report: FaultReport): string | null {
  const variable = readVariable(name, sources)
  if (variable.state === "set") return variable.text
  if (variable.state === "set twice") report(name, `to be unset when ${name}_FILE is set`)
  if (variable.state === "unreadable") report(`${name}_FILE`, "the path of a readable, non-empty file")
  return null
}

/** The trimmed text of a file; null if it is empty or cannot be read. */
export function textOf(path: string, readFile: Sources["readFile"]): string | null {
  try {
    return readFile(path).trim() || null
  } catch {
    return null
  }
}

function envOf(name: string, env: Sources["env"]): string | null {
  return (Object.hasOwn(env, name) && env[name]) || null
}
