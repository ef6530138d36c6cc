import { isObject, type JsonObject } from "./usage.ts"

/**
 * Dotted paths to fields of a JSON object: `provider.order`. Names are compared folded, because some providers read
 * them in any spelling (D18).
 */

const PATH = /^[^.=\s]{1,64}(?:\.[^.=\s]{1,64}){0,7}$/

/** True if a text is a path: up to eight names of up to 64 characters, without blanks, separated by dots. */
export function isPath(text: string): boolean {
  return PATH.test(text)
}

/** Blanks, and what separates the words of a name. */
const SEPARATORS = /[\s_-]+/gu

/** A name as some providers compare it: in its compatible form (NFKC), without case, `_`, `-` and blanks. */
export function folded(name: string): string {
  return name.normalize("NFKC").toLowerCase().replace(SEPARATORS, "")
}

/** True if one of the paths begins with this name, in any spelling. */
export function isAtAny(paths: readonly string[]): (name: string) => boolean {
  const meant = new Set(paths.map((path) => folded(path.split(".", 1)[0] ?? "")))
  return (name) => meant.has(folded(name))
}

/** The values at a path, in any spelling of its names; of an array, those of its elements. */
export function valuesAt(value: unknown, path: string): readonly unknown[] {
  let found: readonly unknown[] = [value]
  for (const name of path.split(".")) {
    const meant = folded(name)
    found = found
      .flatMap((one) => (Array.isArray(one) ? one : [one]))
      .flatMap((one) => (isObject(one) ? spellings(one, meant).map((key) => one[key]) : []))
  }
  return found
}

/** A copy of the object with this value at a path. It replaces every spelling of the names, and what is no object. */
export function withValue(object: JsonObject, path: string, value: unknown): JsonObject {
  const [name = "", ...rest] = path.split(".")
  if (rest.length === 0) return { ...without(object, name), [name]: value }
  const inner = object[name]
  return {
    ...without(object, name),
    [name]: withValue(isObject(inner) ? inner : {}, rest.join("."), value),
  }
}

/** A copy of the object without the field at a path, in any spelling; the object itself if it has none. */
export function withoutValue(object: JsonObject, path: string): JsonObject {
  const [name = "", ...rest] = path.split(".")
  if (rest.length === 0) return without(object, name)
  const changed = spellings(object, folded(name)).flatMap((key) => {
    const inner = object[key]
    const left = isObject(inner) ? withoutValue(inner, rest.join(".")) : inner
    return left === inner ? [] : [[key, left] as const]
  })
  return changed.length === 0 ? object : { ...object, ...Object.fromEntries(changed) }
}

function without(object: JsonObject, name: string): JsonObject {
  const meant = folded(name)
  const others = Object.entries(object).filter(([key]) => folded(key) !== meant)
  return others.length === Object.keys(object).length ? object : Object.fromEntries(others)
}

function spellings(object: JsonObject, meant: string): readonly string[] {
  return Object.keys(object).filter((key) => folded(key) === meant)
}
