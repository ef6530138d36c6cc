import { type Bounds, type NextTurn, Shape, SLICE_BYTES } from "../wire/shape.ts"
import { isObject, type JsonObject } from "../wire/usage.ts"

/** A shorter payload is parsed without measuring it, because it cannot take long. */
const SMALL_PAYLOAD = 65_536
/** The bounds within which an event is read (D41). */
const EVENT_BOUNDS: Bounds = { depth: 1_000, values: 100_000, texts: Number.POSITIVE_INFINITY }
/** Bounds of a JSON answer, which may have the numbers of thousands of embeddings. */
export const ANSWER_BOUNDS: Bounds = { ...EVENT_BOUNDS, values: Number.POSITIVE_INFINITY }

/** Work that may take long, in steps between which other calls may get a turn of the event loop. */
type Steps<Result> = Generator<void, Result, void>

function allSteps<Result>(steps: Steps<Result>): Result {
  let step = steps.next()
  while (step.done !== true) step = steps.next()
  return step.value
}

async function stepsInTurns<Result>(steps: Steps<Result>, turn: NextTurn): Promise<Result> {
  let step = steps.next()
  while (step.done !== true) {
    await turn()
    step = steps.next()
  }
  return step.value
}

/** Parses a provider's payload; null if it is not a JSON object, or would take the parser too long (D41). */
export function parsePayload(text: string, bounds = EVENT_BOUNDS): JsonObject | null {
  return text.length > SMALL_PAYLOAD && !allSteps(isWithin(Buffer.from(text), bounds))
    ? null
    : parseObject(text)
}

/** Parses a text that was measured before; null if it is not a JSON object. */
export function parseObject(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

/** The same for a payload that is printed again. Bounded, because `JSON.stringify` takes seconds for deep nesting. */
export function parsePrintable(text: string): JsonObject | null {
  return allSteps(isWithin(Buffer.from(text), EVENT_BOUNDS)) ? parseObject(text) : null
}

/** True if a text is within the bounds of an event (D41). */
export function isWithinInTurns(bytes: Uint8Array, turn: NextTurn): Promise<boolean> {
  return stepsInTurns(isWithin(bytes, EVENT_BOUNDS), turn)
}

/** The JSON object of an event's data. Null if it is no object, and `unread` if it would take the parser too long (D41). */
export type Payload = JsonObject | "unread" | null

/** Reads the data of an event. */
export function payloadOf(data: string): Payload {
  return data.length > SMALL_PAYLOAD ? allSteps(readLarge(data)) : parseObject(data)
}

/** The same for a large event, with turns of the event loop between the steps. */
export function payloadInTurns(data: string, turn: NextTurn): Promise<Payload> {
  return stepsInTurns(readLarge(data), turn)
}

function* readLarge(data: string): Steps<Payload> {
  const bytes = Buffer.from(data)
  yield
  let text = data
  if (!(yield* isWithin(bytes, EVENT_BOUNDS))) {
    const rest = yield* withoutLogprobs(bytes)
    if (rest.byteLength === bytes.byteLength || !(yield* isWithin(rest, EVENT_BOUNDS))) return "unread"
    text = rest.toString()
  }
  const payload = parseObject(text)
  yield
  return payload
}

function* isWithin(bytes: Uint8Array, bounds: Bounds): Steps<boolean> {
  const shape = new Shape()
  for (let start = 0; start < bytes.byteLength; start += SLICE_BYTES) {
    shape.take(bytes.subarray(start, start + SLICE_BYTES))
    if (shape.excess(bounds) !== null) return false
    yield
  }
  return true
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const BLANK: ReadonlySet<number | undefined> = new Set([0x09, 0x0a, 0x0d, 0x20])
const LOGPROBS = '"logprobs"'
const NULL = Buffer.from("null")
/** Maximum number of `logprobs` that are left out. */
const MOST_LOGPROBS = 1_024

/**
 * A JSON text without its `logprobs`, which are neither output nor usage. A normal answer can have a hundred for each
 * token.
 */
function* withoutLogprobs(bytes: Buffer): Steps<Buffer> {
  const kept: Uint8Array[] = []
  let from = 0
  let name = bytes.indexOf(LOGPROBS)
  for (let count = 0; name !== -1 && count < MOST_LOGPROBS; count++) {
    const start = valueStart(bytes, name)
    const end = start === null ? name + LOGPROBS.length : yield* valueEnd(bytes, start)
    if (start !== null) {
      kept.push(bytes.subarray(from, start), NULL)
      from = end
    }
    name = bytes.indexOf(LOGPROBS, end)
  }
  return Buffer.concat([...kept, bytes.subarray(from)])
}

/** The position of the value of the member whose name begins at `name`; null if it is no list or object. */
function valueStart(bytes: Uint8Array, name: number): number | null {
  let at = name + LOGPROBS.length
  while (BLANK.has(bytes[at])) at += 1
  // An escaped quote is a part of a longer name.
  if (bytes[at] !== COLON || bytes[name - 1] === BACKSLASH) return null
  at += 1
  while (BLANK.has(bytes[at])) at += 1
  return bytes[at] === OPEN_LIST || bytes[at] === OPEN_OBJECT ? at : null
}

/** The position after a list or object; the text's length if it does not end. */
function* valueEnd(bytes: Uint8Array, start: number): Steps<number> {
  let depth = 0
  let in_string = false
  for (let at = start; at < bytes.byteLength; at++) {
    const byte = bytes[at]
    if (in_string) {
      if (byte === BACKSLASH) at += 1
      else if (byte === QUOTE) in_string = false
    } else if (byte === QUOTE) in_string = true
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) depth += 1
    else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
      depth -= 1
      if (depth === 0) return at + 1
    }
    if ((at - start) % SLICE_BYTES === SLICE_BYTES - 1) yield
  }
  return bytes.byteLength
}
