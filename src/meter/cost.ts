import { printUsd } from "../money.ts"

/** Adds the charge of a call to the `usage` of its answer, if the client asked for it (D49). */

const encoder = new TextEncoder()
/** Keeps a BOM, because everything but the cost stays as the provider sent it. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** A JSON answer with a usage object, with the cost added to it. */
export function bodyWithCost(body: Uint8Array, charge_nano: bigint): Uint8Array {
  return encoder.encode(withCost(decoder.decode(body), charge_nano))
}

/**
 * The final usage of a stream. It is held back until the end of the stream, when the charge is known, and is then sent in a
 * chunk of its own.
 */
export class FinalUsage {
  #chunk: string | null = null

  /**
   * Takes the usage out of a chunk that has one; the last one is kept. Returns the rest of the chunk, to be forwarded, or
   * null if there is none.
   */
  take(data: string, usage_only: boolean): Uint8Array | null {
    this.#chunk = usage_only ? data : withMember(data, "choices", "[]")
    return usage_only ? null : eventOf(withMember(data, "usage", "null"))
  }

  /** The chunk with the cost, or without it if `charge_nano` is null. Null if there was no final usage. */
  event(charge_nano: bigint | null): Uint8Array | null {
    if (this.#chunk === null) return null
    return eventOf(charge_nano === null ? this.#chunk : withCost(this.#chunk, charge_nano))
  }
}

/** Adds the cost in USD, as a JSON number whose text is exact. */
function withCost(payload: string, charge_nano: bigint): string {
  const usage = memberText(payload, "usage")
  if (usage === null) throw new Error("there is no usage to tell the cost in")
  return withMember(payload, "usage", withMember(usage, "cost", printUsd(charge_nano)))
}

/** An event with a `data:` line for each line of the payload. */
function eventOf(payload: string): Uint8Array {
  return encoder.encode(`data: ${payload.replaceAll("\n", "\ndata: ")}\n\n`)
}

/*
 * The functions below change one member in the JSON text of an object without parsing the rest. So all other bytes stay the
 * same, even numbers that a double cannot hold. The text must be valid for `JSON.parse`.
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

/** The position of a value in the text. */
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
