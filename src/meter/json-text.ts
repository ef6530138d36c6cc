/*
 * These functions change members in the JSON text of an object without parsing the rest. So all other bytes stay the
 * same, even numbers that a double cannot hold. The text must be valid for `JSON.parse`.
 */

const SPACE = /[\t\n\r ]/
/** Behind a BOM. */
const NOT_BLANK = /[^\t\n\r \uFEFF]/

/** The text of a member's value, the last one as in `JSON.parse`; null if there is no member of this name. */
export function memberText(object: string, name: string): string | null {
  const found = lastMember(object, name)
  return found === null ? null : object.slice(found.start, found.end)
}

/**
 * The object with `value` instead of the member's last value, or added at the end if there is no member of this name.
 */
export function withMember(object: string, name: string, value: string): string {
  const found = lastMember(object, name)
  if (found !== null) return object.slice(0, found.start) + value + object.slice(found.end)
  const close = object.lastIndexOf("}")
  const separator = isEmpty(object) ? "" : ","
  return `${object.slice(0, close)}${separator}${JSON.stringify(name)}:${value}${object.slice(close)}`
}

/** In a path: every element of a list. */
export const EACH = "*"

/**
 * The text with other values at a path: what `edit` makes of each; null removes the member. A path that leads nowhere changes
 * nothing.
 */
export function edited(
  text: string,
  [name, ...rest]: readonly string[],
  edit: (value: string) => string | null,
): string {
  if (name === undefined) return text
  const parts = name === EACH ? elementsOf(text) : membersOf(text)
  let result = text
  // From the last to the first, so that what was found before stays where it is.
  for (const [at, part] of [...parts.entries()].reverse()) {
    if (name !== EACH && part.name !== name) continue
    const value = text.slice(part.start, part.end)
    const changed = rest.length > 0 ? edited(value, rest, edit) : edit(value)
    if (changed === null) result = withoutPart(result, parts[at - 1]?.end ?? null, part)
    else if (changed !== value) result = result.slice(0, part.start) + changed + result.slice(part.end)
  }
  return result
}

/** Removes a member with the comma before it or, if it is the first, with the one behind it. */
function withoutPart(text: string, before_end: number | null, { begins, end }: Part): string {
  if (before_end !== null) return text.slice(0, before_end) + text.slice(end)
  const next = afterSpace(text, end)
  return text.slice(0, begins) + text.slice(text[next] === "," ? afterSpace(text, next + 1) : end)
}

/** A value in the text, with its key if it has one. */
interface Part {
  readonly name: string | null
  readonly begins: number
  readonly start: number
  readonly end: number
}

function lastMember(object: string, name: string): Part | null {
  return membersOf(object).findLast((member) => member.name === name) ?? null
}

/** The members of an object; none of any other value. */
function membersOf(text: string): readonly Part[] {
  return partsOf(text, "{", "}", (at) => {
    const key_end = stringEnd(text, at)
    const start = afterSpace(text, text.indexOf(":", key_end) + 1)
    return { name: JSON.parse(text.slice(at, key_end)), begins: at, start, end: valueEnd(text, start) }
  })
}

/** The elements of a list; none of any other value. */
function elementsOf(text: string): readonly Part[] {
  return partsOf(text, "[", "]", (at) => ({ name: null, begins: at, start: at, end: valueEnd(text, at) }))
}

function partsOf(text: string, open: string, close: string, partAt: (at: number) => Part): readonly Part[] {
  const first = text.search(NOT_BLANK)
  if (text[first] !== open) return []
  const parts: Part[] = []
  let at = afterSpace(text, first + 1)
  while (text[at] !== close) {
    const part = partAt(at)
    parts.push(part)
    at = afterSpace(text, part.end)
    if (text[at] === ",") at = afterSpace(text, at + 1)
  }
  return parts
}

function isEmpty(object: string): boolean {
  return object[afterSpace(object, object.indexOf("{") + 1)] === "}"
}

/** The position after the value that begins at `start`. */
function valueEnd(text: string, start: number): number {
  let depth = 0
  for (let at = start; ; at++) {
    switch (text[at]) {
      case '"':
        at = stringEnd(text, at) - 1
        break
      case "{":
      case "[":
        depth++
        continue
      case "}":
      case "]":
        if (depth === 0) return at
        depth--
        break
      case ",":
        if (depth === 0) return at
        continue
      case undefined:
        throw new Error("a JSON text ends within a value")
      default:
        if (depth > 0 || !SPACE.test(text[at + 1] ?? "")) continue
    }
    if (depth === 0) return at + 1
  }
}

/** The position after the string that opens at `start`: after the first quote with an even number of backslashes before it. */
function stringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let before = end
    while (text[before - 1] === "\\") before--
    if ((end - before) % 2 === 0) return end + 1
  }
  throw new Error("a JSON text ends within a string")
}

function afterSpace(text: string, start: number): number {
  let at = start
  while (SPACE.test(text[at] ?? "")) at++
  return at
}
