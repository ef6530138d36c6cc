import { GatewayError } from "../errors.ts"

declare global {
  /** ECMA-262's "JSON.parse source text access", which the compiler's library does not know yet. */
  interface JSON {
    parse(
      text: string,
      reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
    ): unknown
    rawJSON(text: string): object
  }
}

/** The deepest nesting of a request; the root is 1 (D18). */
export const MAX_DEPTH = 64
/** The most members of all objects and arrays of a request: a million take the parser seconds (D41). */
export const MAX_VALUES = 100_000

/** A double holds every number of fewer digits. */
const LONG_DIGITS = 16

const QUOTE = 0x22
const BACKSLASH = 0x5c
const utf8 = new TextDecoder("utf-8", { fatal: true })

/**
 * Parses the body of a request as a JSON object: UTF-8, at most `MAX_DEPTH` levels and `MAX_VALUES` values. It is
 * parsed exactly once, so that what is billed is what is sent. Of duplicate keys the last one counts; every key, even
 * `__proto__`, is plain data (D18). Throws `invalid_request`, which shows nothing of the body.
 */
export function readJsonBody(bytes: Uint8Array): object {
  if (bytes.byteLength === 0) throw invalid("The request body is empty. Send a JSON object.")
  const has_long_numbers = checkShape(bytes)
  const value = parse(decode(bytes), has_long_numbers)
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalid("The request body is JSON, but not an object. Send a JSON object.")
  }
  return value
}

function decode(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw invalid("The request body is not valid UTF-8.")
  }
}

function parse(text: string, has_long_numbers: boolean): unknown {
  try {
    return has_long_numbers ? JSON.parse(text, exact) : JSON.parse(text)
  } catch {
    throw invalid("The request body is not valid JSON.")
  }
}

/** Keeps the text of a number that a double cannot hold, so that a 64-bit `seed` passes unchanged (D18). */
function exact(_key: string, value: unknown, { source }: { source?: string }): unknown {
  if (typeof value !== "number" || source === undefined) return value
  return Number.isSafeInteger(value) || String(value) === source ? value : JSON.rawJSON(source)
}

/**
 * Throws if JSON text is nested too deep or has too many values. It runs before the parser, which 20 MiB of brackets or
 * keys take seconds. Strings are skipped by native search, so a long prompt costs almost nothing. Returns whether it has
 * numbers that a double may not hold, by their digits or an exponent: each is checked only then.
 */
function checkShape(bytes: Uint8Array): boolean {
  let depth = 0
  let values = 0
  let digits = 0
  let has_long_numbers = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if (byte >= 0x30 && byte <= 0x39) {
      if (++digits === LONG_DIGITS) has_long_numbers = true
      continue
    }
    const is_after_digit = digits > 0
    digits = 0
    switch (byte) {
      case QUOTE:
        at = stringEnd(bytes, at)
        break
      case 0x5b: // [
      case 0x7b: // {
        if (++depth > MAX_DEPTH)
          throw invalid(`The request body is nested more than ${MAX_DEPTH} levels deep.`)
        values++
        break
      case 0x5d: // ]
      case 0x7d: // }
        depth--
        break
      case 0x2c: // ,
        if (++values > MAX_VALUES)
          throw invalid(`The request body has more than ${MAX_VALUES} keys and array elements.`)
        break
      case 0x45: // E
      case 0x65: // e
        has_long_numbers ||= is_after_digit
        break
    }
  }
  return has_long_numbers
}

/** The end of the string that begins at `start`: the first quote with an even number of backslashes before it. */
function stringEnd(bytes: Uint8Array, start: number): number {
  for (let end = bytes.indexOf(QUOTE, start + 1); end !== -1; end = bytes.indexOf(QUOTE, end + 1)) {
    let before = end
    while (bytes[before - 1] === BACKSLASH) before--
    if ((end - before) % 2 === 0) return end
  }
  return bytes.length
}

function invalid(message: string): GatewayError {
  return new GatewayError("invalid_request", { message })
}

/** How many characters make a field large. */
const LARGE_TEXT = 65_536

/** A name that needs no escapes in JSON. */
const PLAIN_NAME = /^\w+$/

/**
 * The fields of a parsed JSON object as JSON text. Each is serialised once, although a request is measured for its hold
 * (D12) and then sent (D18): its messages can be a megabyte.
 */
export class FieldTexts {
  readonly names: readonly string[]
  readonly #values: readonly unknown[]
  /** Of the fields whose text was asked for; the name of the model, which is replaced, never is. */
  readonly #texts: string[] = []

  constructor(object: object) {
    this.names = Object.keys(object)
    this.#values = Object.values(object)
  }

  /** The text of a field's value; undefined for a field that the object does not have. */
  of(name: string): string | undefined {
    const place = this.names.indexOf(name)
    return place === -1 ? undefined : this.at(place)
  }

  /** The text of the field at this index of `names`. */
  at(place: number): string {
    this.#texts[place] ??= JSON.stringify(this.#values[place])
    return this.#texts[place]
  }

  /** The value of a field; undefined for a field that the object does not have. */
  value(name: string): unknown {
    const place = this.names.indexOf(name)
    return place === -1 ? undefined : this.#values[place]
  }

  /**
   * The text of the whole object, in parts. `changes` replace its fields or are added at the end; one that is undefined leaves
   * the field out.
   */
  with(changes: Readonly<Record<string, unknown>>): readonly string[] {
    const text = new ObjectText()
    for (let place = 0; place < this.names.length; place++) {
      const name = this.names[place] ?? ""
      const value = Object.hasOwn(changes, name) ? changes[name] : KEPT
      if (value !== undefined) text.add(name, value === KEPT ? this.at(place) : JSON.stringify(value))
    }
    for (const name in changes) {
      const value = changes[name]
      if (value !== undefined && !this.names.includes(name)) text.add(name, JSON.stringify(value))
    }
    return text.end()
  }
}

/** A field that no change names. */
const KEPT = Symbol("kept")

/**
 * The text of an object, field by field. A large field is a part of its own, so that nothing copies it: the copies took
 * 0.8 ms of a call with 1 MiB of messages.
 */
class ObjectText {
  readonly #parts: string[] = []
  #text = "{"
  #separator = ""

  add(name: string, value: string): void {
    this.#text += `${this.#separator}${quoted(name)}:`
    this.#separator = ","
    if (value.length < LARGE_TEXT) this.#text += value
    else {
      this.#parts.push(this.#text, value)
      this.#text = ""
    }
  }

  end(): readonly string[] {
    this.#parts.push(`${this.#text}}`)
    return this.#parts
  }
}

function quoted(name: string): string {
  return PLAIN_NAME.test(name) ? `"${name}"` : JSON.stringify(name)
}
