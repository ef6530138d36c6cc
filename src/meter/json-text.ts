/*
 * Functions that change members in the JSON text of an object without parsing the rest, so all other bytes stay the same, even numbers that a double cannot hold. `JSON.parse` must accept the text.
 */

const QUOTE = 0x22
const COMMA = 0x2c
const BACKSLASH = 0x5c
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
/** The first character that is not white space or a BOM. */
const NOT_BLANK = /[^\t\n\r \uFEFF]/

/** The text of a member's value, the last one as in `JSON.parse`; null if there is no member of this name. */
export function memberText(object: string, name: string): string | null {
  const found = lastMember(object, name)
  return found === null ? null : object.slice(found.start, found.end)
}

/** The object with `value` as the member's value; a missing member is added at the end. */
export function withMember(object: string, name: string, value: string): string {
  const found = lastMember(object, name)
  if (found !== null) return object.slice(0, found.start) + value + object.slice(found.end)
  const close = object.lastIndexOf("}")
  const separator = isEmpty(object) ? "" : ","
  return `${object.slice(0, close)}${separator}${JSON.stringify(name)}:${value}${object.slice(close)}`
}

/** Maximum number of elements of a list that are changed; an answer has at most 128 choices (D12). */
const MAX_ELEMENTS = 256
/** Part of a path: every element of a list. A set is every member with one of these names. */
export const EACH = "*"

/** The text with `edit` applied to each value at the path; null removes the value. A missing path changes nothing. */
export function edited(
  text: string,
  [name, ...rest]: readonly (string | ReadonlySet<string>)[],
  edit: (value: string) => string | null,
): string {
  if (name === undefined) return text
  const parts = name === EACH ? elementsOf(text) : membersOf(text)
  let result = text.slice(0, parts[0]?.begins)
  let is_first = true
  let is_changed = false
  for (const [at, part] of parts.entries()) {
    const value = text.slice(part.start, part.end)
    const is_meant = name === EACH ? at < MAX_ELEMENTS : isOf(part.name, name)
    const changed = !is_meant ? value : rest.length > 0 ? edited(value, rest, edit) : edit(value)
    is_changed ||= changed !== value
    if (changed === null) continue
    if (!is_first) result += text.slice(parts[at - 1]?.end, part.begins)
    result += text.slice(part.begins, part.start) + changed
    is_first = false
  }
  return is_changed ? result + text.slice(parts.at(-1)?.end) : text
}

function isOf(name: string, names: string | ReadonlySet<string>): boolean {
  return typeof names === "string" ? name === names : names.has(name)
}

interface JsonMember {
  /** Empty for an element. */
  readonly name: string
  readonly begins: number
  readonly start: number
  readonly end: number
}

function lastMember(object: string, name: string): JsonMember | null {
  return membersOf(object).findLast((member) => member.name === name) ?? null
}

/** The members of an object; none of any other value. */
function membersOf(text: string): readonly JsonMember[] {
  return partsOf(text, "{", "}", (at) => {
    const key_end = stringEnd(text, at)
    const start = afterSpace(text, text.indexOf(":", key_end) + 1)
    const key = text.slice(at, key_end)
    const name = key.includes("\\") ? JSON.parse(key) : key.slice(1, -1)
    return { name, begins: at, start, end: valueEnd(text, start) }
  })
}

/** The elements of a list; none of any other value. */
function elementsOf(text: string): readonly JsonMember[] {
  return partsOf(text, "[", "]", (at) => ({ name: "", begins: at, start: at, end: valueEnd(text, at) }))
}

function partsOf(text: string, open: string, close: string, partAt: (at: number) => JsonMember) {
  const first = text.search(NOT_BLANK)
  if (text[first] !== open) return []
  const parts: JsonMember[] = []
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
  for (let at = start; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = stringEnd(text, at) - 1
        break
      case OPEN_OBJECT:
      case OPEN_LIST:
        depth++
        continue
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        if (depth === 0) return at
        depth--
        break
      case COMMA:
        if (depth === 0) return at
        continue
      default:
        if (depth > 0 || !isSpace(text.charCodeAt(at + 1))) continue
    }
    if (depth === 0) return at + 1
  }
  throw new Error("a JSON text ends within a value")
}

/** Up to this length a loop is faster than a native search, and most strings are shorter. */
const NEAR_CHARACTERS = 64

/**
 * The position after the string that opens at `start`. The native search for a backslash is limited to the string,
 * because many searches up to the end of the text would take minutes.
 */
function stringEnd(text: string, start: number): number {
  let quote = -1
  for (let at = start + 1; at < text.length; ) {
    for (const near = Math.min(at + NEAR_CHARACTERS, text.length); at < near; at++) {
      const code = text.charCodeAt(at)
      if (code === QUOTE) return at + 1
      if (code === BACKSLASH) at++
    }
    if (quote < at) quote = text.indexOf('"', at)
    if (quote === -1) break
    const backslash = text.slice(at, quote).indexOf("\\")
    if (backslash === -1) return quote + 1
    at += backslash
  }
  throw new Error("a JSON text ends within a string")
}

function afterSpace(text: string, start: number): number {
  let at = start
  while (isSpace(text.charCodeAt(at))) at++
  return at
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09
}
