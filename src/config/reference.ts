import { type Fault, pathOf } from "../wire/fault.ts"
import { isMapping, mapEntries } from "./values.ts"

/** Where references in the configuration file are resolved. */
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

/** A value with its references resolved, and the errors: paths and names, never values. */
interface Resolved {
  readonly value: unknown
  readonly faults: readonly Fault[]
}

/**
 * Replaces references in every string of `value`: `${NAME}` by the environment variable (or the file that `NAME_FILE` names), and
 * `${file:PATH}` by the trimmed content of the file. Replacements are not expanded again. Empty variables and files count as missing.
 */
export function resolve(value: unknown, sources: Sources): Resolved {
  const faults: Fault[] = []
  return { value: resolveAt([], value, [], sources, faults), faults }
}

function resolveAt(
  keys: readonly string[],
  value: unknown,
  around: readonly unknown[],
  sources: Sources,
  faults: Fault[],
): unknown {
  if (typeof value === "string") {
    return value.replace(REFERENCE, (whole, name: string, end: string) => {
      const found = end === "" ? malformed : lookUp(name, sources)
      if ("text" in found) return found.text
      faults.push({ path: pathOf(keys), expected: found.expected })
      return whole
    })
  }
  if (around.includes(value)) {
    faults.push({ path: pathOf(keys), expected: "no alias to a value that contains it" })
    return null
  }
  const within = [...around, value]
  if (Array.isArray(value)) {
    return value.map((item, at) => resolveAt([...keys, String(at)], item, within, sources, faults))
  }
  if (isMapping(value)) {
    return mapEntries(value, (entry, key) => resolveAt([...keys, key], entry, within, sources, faults))
  }
  return value
}

type Found = { readonly text: string } | { readonly expected: string }

// biome-ignore lint/suspicious/noTemplateCurlyInString: the message shows what people write
const malformed: Found = { expected: "a reference of the form ${NAME} or ${file:PATH}" }

function lookUp(name: string, sources: Sources): Found {
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

function fileText(path: string, { readFile }: Sources): Found {
  const text = textOf(path, readFile)
  return text === null ? { expected: `the file ${path} to be readable and not empty` } : { text }
}

/** The state of an environment variable. */
type Variable =
  | { readonly state: "set"; readonly text: string }
  /** `NAME` is unset or empty, and so is `NAME_FILE`. */
  | { readonly state: "unset" }
  /** `NAME_FILE` does not name a readable, non-empty file. */
  | { readonly state: "unreadable" }
  /** Both `NAME` and `NAME_FILE` are set, which is ambiguous. */
  | { readonly state: "set twice" }

/**
 * The value of a variable that can be a secret: `NAME`, or the trimmed content of the file that `NAME_FILE` names. An empty
 * variable counts as unset.
 */
export function readVariable(name: string, { env, readFile }: Sources): Variable {
  const text = envOf(name, env)
  const path = envOf(`${name}_FILE`, env)
  if (path === null) return text === null ? { state: "unset" } : { state: "set", text }
  if (text !== null) return { state: "set twice" }
  const content = textOf(path, readFile)
  return content === null ? { state: "unreadable" } : { state: "set", text: content }
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
