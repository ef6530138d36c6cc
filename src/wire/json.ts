import { GatewayError } from "../errors.ts"
import { isAtAny, withValue } from "./paths.ts"
import {
  type Excess,
  MAX_ESCAPES,
  MAX_NAMES,
  type NextTurn,
  nextTurn,
  Shape,
  SLICE_BYTES,
  slices,
} from "./shape.ts"
import { isObject } from "./usage.ts"

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
/** The most strings among them that are no keys. */
const MAX_TEXTS = 50_000

const utf8 = new TextDecoder("utf-8", { fatal: true })

/**
 * Parses the body of a request as a JSON object: UTF-8, within the bounds of D41. It is parsed exactly once, so that what is
 * billed is what is sent. Of duplicate keys the last one counts; every key, even `__proto__`, is plain data (D18). Throws
 * `invalid_request`, which shows nothing of the body.
 */
export function readJsonBody(bytes: Uint8Array): object {
  const shape = new Shape()
  shape.take(bytes)
  checkShape(shape)
  return parseObject(decode(bytes), shape)
}

/** A longer body is measured, parsed and read in turns of its own: 1 MiB of short texts takes 0.1 s. */
const TURN_BYTES = 65_536

/**
 * The same for a body of any size, which `read` reads further. A large one is read in slices, so that other calls go on meanwhile.
 * `turn` lets one body at a time be parsed: as objects, bodies of 1 MiB each would make every garbage collection a long pause.
 */
export function readLargeBody<Result>(
  bytes: Uint8Array,
  read: (object: object) => Result,
  turn: NextTurn = nextTurn,
): Result | Promise<Result> {
  return bytes.byteLength <= TURN_BYTES ? read(readJsonBody(bytes)) : readInSlices(bytes, read, turn)
}

async function readInSlices<Result>(
  bytes: Uint8Array,
  read: (object: object) => Result,
  turn: NextTurn,
): Promise<Result> {
  const shape = new Shape()
  for await (const slice of slices(bytes, turn)) {
    shape.take(slice)
    checkShape(shape)
  }
  const text = decode(bytes)
  // This turn and the next one, in which no other body may be parsed.
  await turn(2 * SLICE_BYTES)
  const object = parseObject(text, shape)
  await nextTurn()
  return read(object)
}

function parseObject(text: string, shape: Shape): object {
  if (text === "") throw invalid("The request body is empty. Send a JSON object.")
  const value = parse(text, shape.has_long_numbers)
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

const BOUNDS = { depth: MAX_DEPTH, values: MAX_VALUES, texts: MAX_TEXTS }
const MESSAGES: Readonly<Record<Excess, string>> = {
  depth: `The request body is nested more than ${MAX_DEPTH} levels deep.`,
  values: `The request body has more than ${MAX_VALUES} keys and array elements.`,
  texts: `The request body has more than ${MAX_TEXTS} strings.`,
  names: `The request body has more than ${MAX_NAMES} different keys, or keys that are too long.`,
  escapes: `The strings of the request body have more than ${MAX_ESCAPES} backslashes. Send characters as UTF-8 instead of escapes.`,
  digits: "The numbers of the request body have too many digits.",
}

/** Throws if the text would take the parser too long (D41). */
function checkShape(shape: Shape): void {
  const excess = shape.excess(BOUNDS)
  if (excess !== null) throw invalid(MESSAGES[excess])
}

function invalid(message: string): GatewayError {
  return new GatewayError("invalid_request", { message })
}

/** A field is large from this number of characters on. */
const LARGE_TEXT = 65_536

const NEAR_CHARACTERS = 64
/** Between these codes, the backslash alone needs an escape in JSON. */
const FIRST_PLAIN = 0x23
const LAST_PLAIN = 0x7e
const BACKSLASH = 0x5c

/** A field with a shorter text stays a value, as far as all of them have at most `MOST_KEPT_TEXT`. */
const RELEASED_TEXT = 1_024
const MOST_KEPT_TEXT = 16_384

/** A value of which only the text is kept. */
class Released {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  /** Numbers may be kept as text in it. */
  get value(): unknown {
    return parse(this.text, true)
  }
}

/** The fields of a JSON object as text, each serialised once, for the measurement (D12) and to be sent (D18). */
export class FieldTexts {
  names: readonly string[]
  #values: readonly unknown[]
  /** Of the fields whose text was asked for; the name of the model, which is replaced, never is. */
  #texts: (string | undefined)[] = []

  constructor(object: object) {
    this.names = Object.keys(object)
    this.#values = Object.values(object)
  }

  /** Changes the object: sets these fields, by their paths. They follow the others. */
  set(fields: Readonly<Record<string, unknown>>): void {
    const is_set = this.names.map(isAtAny(Object.keys(fields)))
    const indexes = [...this.names.keys()]
    const before = indexes.filter((index) => is_set[index])
    const after = Object.entries(fields).reduce(
      (changed, [path, value]) => withValue(changed, path, value),
      Object.fromEntries(before.map((index) => [this.names[index] ?? "", this.valueAt(index)])),
    )
    const others = indexes.filter((index) => !is_set[index])
    this.#texts = others.map((index) => this.#texts[index])
    this.#values = [...others.map((index) => this.#values[index]), ...Object.values(after)]
    this.names = [...others.map((index) => this.names[index] ?? ""), ...Object.keys(after)]
  }

  /**
   * Keeps fields with long texts, and all beyond 16 KiB of short ones, only as text, also in the object that they come from. As
   * values they may be 100,000 objects, which every garbage collection visits. To read such a value parses it again.
   */
  release(source: object = {}): void {
    let kept = 0
    this.#values = this.#values.map((value, index) => {
      if (typeof value !== "object" || value === null || value instanceof Released) return value
      const text = this.at(index)
      if (text.length < RELEASED_TEXT) kept += text.length
      if (text.length < RELEASED_TEXT && kept <= MOST_KEPT_TEXT) return value
      const released = new Released(text)
      const name = this.names[index] ?? ""
      const own: unknown = Reflect.get(source, name)
      // The source may have more in it, such as a field of the gateway's own.
      const in_source = own === value ? released : isObject(own) ? new Released(JSON.stringify(own)) : null
      if (in_source !== null)
        Object.defineProperty(source, name, { get: () => in_source.value, enumerable: true })
      return released
    })
  }

  /** The text of a field's value; undefined for a field that the object does not have. */
  of(name: string): string | undefined {
    const index = this.names.indexOf(name)
    return index === -1 ? undefined : this.at(index)
  }

  /** The value of the field at this index of `names`. */
  valueAt(index: number): unknown {
    const value = this.#values[index]
    return value instanceof Released ? value.value : value
  }

  /** The text of the field at this index of `names`. */
  at(index: number): string {
    const value = this.#values[index]
    const text = this.#texts[index] ?? (value instanceof Released ? value.text : JSON.stringify(value))
    this.#texts[index] = text
    return text
  }

  /** The value of a field; undefined for a field that the object does not have. */
  value(name: string): unknown {
    const index = this.names.indexOf(name)
    return index === -1 ? undefined : this.valueAt(index)
  }

  /** The whole object's text, in parts. `changes` replace or add fields; undefined leaves one out. */
  with(changes: Readonly<Record<string, unknown>>): readonly string[] {
    const text = new ObjectText()
    for (let index = 0; index < this.names.length; index++) {
      const name = this.names[index] ?? ""
      const value = Object.hasOwn(changes, name) ? changes[name] : KEPT
      if (value !== undefined) text.add(name, value === KEPT ? this.at(index) : textOf(value))
    }
    for (const name in changes) {
      const value = changes[name]
      if (value !== undefined && !this.names.includes(name)) text.add(name, textOf(value))
    }
    return text.end()
  }
}

const KEPT = Symbol("kept")

/** The text of an object. A large field is a part of its own, because copies took 0.8 ms for 1 MiB. */
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

function textOf(value: unknown): string {
  return typeof value === "string" ? quoted(value) : JSON.stringify(value)
}

/** A JSON string. Most names are short and need no escapes: to read their characters costs less than a native search. */
function quoted(text: string): string {
  if (text.length > NEAR_CHARACTERS) return JSON.stringify(text)
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < FIRST_PLAIN || code > LAST_PLAIN || code === BACKSLASH) return JSON.stringify(text)
  }
  return `"${text}"`
}
