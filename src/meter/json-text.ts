/**
 * JSON text of an object, read and changed without parsing it whole: other members stay byte for byte, even numbers
 * that a double cannot hold. The text must be valid for `JSON.parse`.
 */

const SPACE = /[\t\n\r ]/

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

/** Where a value stands. */
interface Span {
  readonly start: number
  readonly end: number
}

function lastMember(object: string, name: string): Span | null {
  let found: Span | null = null
  let at = afterSpace(object, object.indexOf("{") + 1)
  while (object[at] !== "}") {
    const key_end = stringEnd(object, at)
    const start = afterSpace(object, object.indexOf(":", key_end) + 1)
    const end = valueEnd(object, start)
    if (JSON.parse(object.slice(at, key_end)) === name) found = { start, end }
    at = afterSpace(object, end)
    if (object[at] === ",") at = afterSpace(object, at + 1)
  }
  return found
}

function isEmpty(object: string): boolean {
  return object[afterSpace(object, object.indexOf("{") + 1)] === "}"
}

/** Behind the value that begins at `start`. */
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

/** Behind the string that opens at `start`: after the first quote that stands behind an even number of backslashes. */
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
