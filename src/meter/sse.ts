import { Marks } from "../wire/shape.ts"
import { copyIfSmall, Parts } from "./parts.ts"

/** Server-sent events at the level of bytes: where each one ends, without decoding or copying what passes (D36). */

/** One event of a provider: everything through its blank line, or only the blank line. */
export interface SseEvent {
  /** The provider's bytes, in order; views of the chunks that were fed, except where small ones were copied. */
  readonly parts: readonly Uint8Array[]
  /** The data lines, decoded and joined with LF; null without one (a comment, a blank line, only other fields). */
  readonly data: string | null
  /** True if it is the LF of a CRLF whose CR ended the event before. It is sent or dropped with that event. */
  readonly tail: boolean
  /** The bytes of output (D7) if these are consecutive events that need not be read; otherwise null. */
  readonly recurring_bytes: number | null
}

/** Consecutive events that need not be read. */
export interface Recurrence {
  /** Their end in the chunk: after a blank line that ends with LF. */
  readonly end: number
  /** UTF-8 bytes of output in them (D7). */
  readonly output_bytes: number
}

export interface Recurring {
  /** The known events from `start` on, where an event begins; null when the first one is not known. */
  follow(chunk: Uint8Array, start: number): Recurrence | null
}

/** Thrown for an event over the limit (D31). The framer takes no more chunks. */
export class EventTooLarge extends Error {
  override readonly name = "EventTooLarge"

  constructor() {
    super("an event of the provider is larger than the limit")
  }
}

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
const COLON = 0x3a
/** An event with more lines is too large, because each line costs more than a hundred bytes. */
const MAX_LINES = 100_000
/** A byte order mark in UTF-8: EF BB BF. */
const BOM_BYTES = 3

/**
 * Cuts a provider's byte stream into events. Lines end with LF, CRLF or CR, mixed. Chunks may be cut anywhere: the same
 * bytes give the same events, except for `tail` events. An event is complete as soon as its blank line is known: a CR
 * counts immediately, and an LF that follows in the next chunk comes as a `tail`.
 */
export class Framer {
  readonly #limit_bytes: number
  readonly #recurring: Recurring | null
  #unfinished = new Parts()
  /** Lines of the event so far. */
  #lines = 0
  /** Bytes of the line that the last chunk left unfinished. */
  #line_bytes = 0
  /** True if the last byte was a CR, to which a following LF belongs. */
  #after_cr = false
  /** True until the first line has ended, because it may begin with a BOM. */
  #first_line = true
  #first_event = true

  constructor(limit_bytes: number, recurring: Recurring | null = null) {
    this.#limit_bytes = limit_bytes
    this.#recurring = recurring
  }

  /** Bytes of the event that the last chunk left unfinished. */
  get pending_bytes(): number {
    return this.#unfinished.bytes
  }

  /**
   * The events that `chunk` completes, in order. A generator, because together they may take a hundred times the memory
   * of the chunk. Take all of them before the next chunk. Throws EventTooLarge.
   */
  *feed(chunk: Uint8Array): Generator<SseEvent, void, void> {
    if (chunk.byteLength === 0) return
    const ends = lineEnds(chunk)
    let event_start = 0
    let line_start = 0
    if (this.#after_cr && chunk[0] === LF) {
      line_start = 1
      if (this.#unfinished.bytes === 0) {
        event_start = 1
        yield {
          parts: [view(chunk, 0, 1)],
          data: null,
          tail: true,
          recurring_bytes: null,
        }
      }
    }
    this.#after_cr = false
    while (line_start < chunk.byteLength) {
      const known = line_start === event_start ? this.#known(chunk, event_start) : null
      if (known !== null) {
        const { end, output_bytes } = known
        yield {
          parts: [view(chunk, event_start, end)],
          data: null,
          tail: false,
          recurring_bytes: output_bytes,
        }
        event_start = end
        line_start = end
        continue
      }
      const end = ends.next(line_start)
      if (end === chunk.byteLength) break
      const blank = this.#isBlank(chunk, event_start, end, this.#line_bytes + end - line_start)
      line_start = end + 1
      this.#lines += 1
      if (blank && this.#unfinished.bytes + line_start - event_start > this.#limit_bytes) {
        throw new EventTooLarge()
      }
      if (this.#lines > MAX_LINES) throw new EventTooLarge()
      if (chunk[end] === CR) {
        if (line_start === chunk.byteLength) this.#after_cr = true
        else if (chunk[line_start] === LF) line_start += 1
      }
      this.#line_bytes = 0
      this.#first_line = false
      if (!blank) continue
      yield this.#complete(view(chunk, event_start, line_start))
      event_start = line_start
    }
    this.#line_bytes += chunk.byteLength - line_start
    const pending_bytes = this.#unfinished.bytes + chunk.byteLength - event_start
    if (pending_bytes > this.#limit_bytes) throw new EventTooLarge()
    if (event_start < chunk.byteLength)
      this.#unfinished.add(copyIfSmall(view(chunk, event_start, chunk.byteLength)))
  }

  keeps(chunk: Uint8Array): boolean {
    return this.#unfinished.keeps(chunk)
  }

  /** The event the stream left unterminated, with the line end and blank line it lacks; null when there is none. */
  end(): SseEvent | null {
    if (this.#unfinished.bytes === 0) return null
    // After a CR the first LF only makes it a CRLF.
    const missing = this.#line_bytes > 0 || this.#after_cr ? [LF, LF] : [LF]
    this.#line_bytes = 0
    this.#after_cr = false
    return this.#complete(new Uint8Array(missing))
  }

  /** The events from `start` on, where an event may begin, that need not be read. */
  #known(chunk: Uint8Array, start: number): Recurrence | null {
    if (this.#recurring === null || this.#unfinished.bytes > 0) return null
    // Among so many bytes no event is over the limit.
    const near = chunk.byteLength <= this.#limit_bytes ? chunk : chunk.subarray(0, start + this.#limit_bytes)
    return this.#recurring.follow(near, start)
  }

  #complete(last: Uint8Array): SseEvent {
    const parts = this.#unfinished.take()
    parts.push(last)
    this.#lines = 0
    const event = new WholeEvent(parts, this.#first_event)
    this.#first_event = false
    return event
  }

  /** True if the line that ends at `end` is blank: empty, or the stream's first and nothing but a BOM. */
  #isBlank(chunk: Uint8Array, event_start: number, end: number, line_bytes: number): boolean {
    if (line_bytes === 0) return true
    if (!this.#first_line || line_bytes !== BOM_BYTES) return false
    return beginsWithBom(joined([...this.#unfinished.parts, view(chunk, event_start, end)]))
  }
}

class WholeEvent implements SseEvent {
  readonly parts: readonly Uint8Array[]
  readonly tail = false
  readonly recurring_bytes = null
  readonly #first: boolean
  #data: string | null | undefined

  constructor(parts: readonly Uint8Array[], first: boolean) {
    this.parts = parts
    this.#first = first
  }

  /** Decoded at the first use. */
  get data(): string | null {
    if (this.#data === undefined) this.#data = readData(joined(this.parts), this.#first)
    return this.#data
  }
}

/** A BOM counts only at the start of the stream; in a payload it is a character. Broken UTF-8 reads as U+FFFD. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

/** The payload of one whole event, which may begin with a BOM if it is the `first` of its stream. The LF of a CRLF reads as one more blank line, which changes nothing. */
export function readData(bytes: Uint8Array, first: boolean): string | null {
  const ends = lineEnds(bytes)
  let data: string | null = null
  let start = first && beginsWithBom(bytes) ? BOM_BYTES : 0
  while (start < bytes.byteLength) {
    const end = ends.next(start)
    const value = dataStart(bytes, start, end)
    if (value !== null) {
      const line = value === end ? "" : decoder.decode(bytes.subarray(value, end))
      data = data === null ? line : `${data}\n${line}`
    }
    start = end + 1
  }
  return data
}

/** The beginning of the value of a `data` line, past one space after the colon; null for any other line. */
function dataStart(bytes: Uint8Array, start: number, end: number): number | null {
  const name_end = start + 4
  const named =
    name_end <= end &&
    bytes[start] === 0x64 &&
    bytes[start + 1] === 0x61 &&
    bytes[start + 2] === 0x74 &&
    bytes[start + 3] === 0x61
  if (!named) return null
  if (name_end === end) return end
  if (bytes[name_end] !== COLON) return null
  return bytes[name_end + 1] === SPACE ? name_end + 2 : name_end + 1
}

/** The line ends of `bytes`, found by two native searches, which are much faster than a loop. */
const lineEnds = (bytes: Uint8Array) => new Marks(bytes, LF, CR)

function beginsWithBom(bytes: Uint8Array): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const [only] = parts
  return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts)
}

/** The whole chunk is its own view: in the common case one chunk is one event. */
function view(chunk: Uint8Array, start: number, end: number): Uint8Array {
  return start === 0 && end === chunk.byteLength ? chunk : chunk.subarray(start, end)
}
