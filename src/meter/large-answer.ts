import { type Marks, stringMarks } from "../wire/shape.ts"
import { type JsonObject, readServiceTier } from "../wire/usage.ts"
import { parsePayload } from "./payload.ts"

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const LETTER_U = 0x75
const BLANK: ReadonlySet<number> = new Set([0x09, 0x0a, 0x0d, 0x20])
const BOM: readonly number[] = [0xef, 0xbb, 0xbf]

/** Maximum length of keys and of usage; longer ones are ignored. */
const MAX_KEY_BYTES = 64
const MAX_USAGE_BYTES = 65_536
const KEPT: ReadonlySet<string> = new Set(["usage", "service_tier", "tool_usage", "error"])
/** Replaces a member that is too long. It still counts as a reported `error`. */
const TOO_LONG = "true"
/** Lists of results. An answer with an object in one of them does not only report an error (D10). */
const ANSWERS: ReadonlySet<string> = new Set(["choices", "content", "data", "output"])
/** Nothing deeper counts as output. */
const MAX_DEPTH = 64

/** The position in an answer: the open values around it, the key of each, and whether it is a list. */
export interface JsonPosition {
  readonly depth: number
  /** `""` for a key that is not read. */
  readonly keys: readonly string[]
  readonly lists: readonly boolean[]
  /** The key of a value; in a list, the key of the list. */
  readonly name: string
}

export interface UsageSpan {
  readonly start: number
  readonly end: number
  /** True if it is the usage of the answer itself, where SDKs read a cost. */
  readonly is_top: boolean
}

/** Maximum number of usage objects that are found; a request may ask for 128 choices (D12). */
const MAX_USAGES = 256
/** The deepest place of a usage is a choice. */
const USAGE_DEPTH = 3
const HOLDERS: ReadonlySet<string> = new Set(["x_groq", "message", "response"])

/** Counts the output (D7) of a large answer. One for each operation (D63). */
export interface LargeOutput {
  /** True if the keys at this place are needed. Top-level keys always are. */
  readsKeys(place: JsonPosition): boolean
  /** True if the text of a string value at this place is needed. */
  readsText?(place: JsonPosition): boolean
  /** Counts a string value of this many bytes at this place. `text` is its beginning, if it is needed. */
  take(place: JsonPosition, bytes: number, text: string): void
  /** An object or a list has ended; `place` is around it. */
  endValue?(place: JsonPosition): void
  /** Further members of the answer that are needed to read its usage. */
  readonly members?: JsonObject
  /** UTF-8 bytes of extractable output so far. */
  readonly bytes: number
}

/** A JSON answer too large to keep (D5), read once for usage and output. Only its brackets are checked. */
export class LargeAnswer implements JsonPosition {
  readonly #output: LargeOutput
  #at_start = true
  depth = 0
  /** True if the body has more than one object. */
  #stray = false
  /** For each open value, the key of the member that is being read. */
  readonly keys: string[] = []
  readonly lists: boolean[] = []
  /** True if it has an object in one of the lists `ANSWERS`. */
  has_answer = false
  #expects_key = false
  #in_string = false
  #is_key = false
  /** True if the text of the string that is being read is kept. */
  #is_read = false
  #escaped = false
  /** Decoded bytes so far of the string that is being read. */
  #string_bytes = 0
  #text = ""
  /** Pieces of a top-level member that is kept; null while none is being read. */
  #capturing: Uint8Array[] | null = null
  #captured_bytes = 0
  readonly #kept = new Map<string, string>()
  /** The usage objects of the answer (D87). */
  readonly usages: UsageSpan[] = []
  #usage_start = 0
  /** The depth of the usage that is being read; 0 for none. */
  #usage_depth = 0
  /** Bytes of earlier chunks. */
  #read_bytes = 0

  constructor(output: LargeOutput) {
    this.#output = output
  }

  /** True if the answer is one complete object and nothing else. */
  get whole(): boolean {
    return !this.#at_start && this.depth === 0 && !this.#stray
  }

  get blank(): boolean {
    return this.#at_start && !this.#stray
  }

  get object(): boolean {
    return !this.#at_start && !this.#stray
  }

  /**
   * Its last top-level usage, and the members that are needed to read it. A usage that is not JSON is `false`, which is
   * invalid.
   */
  get members(): JsonObject {
    const usage = this.#member("usage") ?? { usage: false }
    return {
      ...usage,
      ...this.#member("service_tier"),
      ...this.#member("tool_usage"),
      ...this.#member("error"),
      ...this.#output.members,
    }
  }

  /** The service tier that was served (D70). */
  get service_tier(): string | undefined {
    return readServiceTier(this.members)
  }

  #member(name: string): JsonObject | null {
    const text = this.#kept.get(name)
    return text === undefined ? {} : parsePayload(`{"${name}":${text}}`)
  }

  /** UTF-8 bytes of extractable output (D7). */
  get output_bytes(): number {
    return this.#output.bytes
  }

  /** Stops reading. The received part of an unfinished string counts. */
  stop(): void {
    if (this.#in_string && !this.#is_key) this.#take()
    this.#in_string = false
  }

  take(chunk: Uint8Array): void {
    const marks = stringMarks(chunk)
    let capture_start = 0
    let at = 0
    while (at < chunk.byteLength && !this.#stray) {
      if (this.#in_string) {
        at = this.#readString(chunk, marks, at)
        continue
      }
      const byte = chunk[at] ?? 0
      switch (byte) {
        case QUOTE:
          this.#beginString()
          break
        case OPEN_OBJECT:
        case OPEN_LIST:
          if (byte === OPEN_OBJECT && this.#isUsage()) {
            this.#usage_depth = this.depth
            this.#usage_start = this.#read_bytes + at
          }
          this.#open(byte === OPEN_LIST)
          break
        case CLOSE_OBJECT:
        case CLOSE_LIST:
          if (this.depth === 1) this.#capture(chunk, capture_start, at, true)
          this.#close()
          if (this.depth === this.#usage_depth && this.#usage_depth > 0)
            this.#endUsage(this.#read_bytes + at + 1)
          break
        case COLON:
          this.#expects_key = false
          if (this.depth === 1 && KEPT.has(this.keys[0] ?? "")) {
            this.#capturing = []
            this.#captured_bytes = 0
            capture_start = at + 1
          }
          break
        case COMMA:
          if (this.depth === 1) this.#capture(chunk, capture_start, at, true)
          this.#expects_key = this.depth > 0 && this.lists[this.depth - 1] === false
          break
        default:
          if (this.depth === 0) this.#readOutside(byte)
      }
      at += 1
    }
    this.#capture(chunk, capture_start, chunk.byteLength, false)
    this.#read_bytes += chunk.byteLength
  }

  #isUsage(): boolean {
    const { depth, keys, lists } = this
    if (depth === 0 || depth > USAGE_DEPTH || lists[depth - 1] === true || keys[depth - 1] !== "usage")
      return false
    if (depth === USAGE_DEPTH) return keys[0] === "choices" && lists[1] === true
    return depth === 1 || HOLDERS.has(keys[0] ?? "")
  }

  #endUsage(end: number): void {
    const start = this.#usage_start
    if (this.usages.length < MAX_USAGES && end - start <= MAX_USAGE_BYTES)
      this.usages.push({ start, end, is_top: this.#usage_depth === 1 })
    this.#usage_depth = 0
  }

  /** Checks a byte outside the object: white space, or a BOM before it. */
  #readOutside(byte: number): void {
    if (!BLANK.has(byte) && !(this.#at_start && BOM.includes(byte))) this.#stray = true
  }

  #open(is_list: boolean): void {
    if (this.depth === 0 && (!this.#at_start || is_list)) this.#stray = true
    this.has_answer ||=
      !is_list && this.depth === 2 && this.lists[1] === true && ANSWERS.has(this.keys[0] ?? "")
    this.#at_start = false
    if (this.depth < MAX_DEPTH) {
      this.keys[this.depth] = ""
      this.lists[this.depth] = is_list
    }
    this.depth += 1
    this.#expects_key = !is_list
  }

  #close(): void {
    if (this.depth === 0) this.#stray = true
    else this.depth -= 1
    this.#expects_key = false
    this.#output.endValue?.(this)
  }

  #beginString(): void {
    if (this.depth === 0) this.#stray = true
    this.#in_string = true
    this.#is_key = this.#expects_key
    this.#is_read = this.#is_key
      ? this.depth <= USAGE_DEPTH || this.#output.readsKeys(this)
      : this.#output.readsText?.(this) === true
    this.#string_bytes = 0
    this.#text = ""
  }

  /** Reads on within a string. Returns where it ends in this chunk. */
  #readString(chunk: Uint8Array, marks: Marks, start: number): number {
    let at = start
    if (this.#escaped) {
      this.#escaped = false
      // Four hex digits encode two bytes or more.
      this.#string_bytes += chunk[at] === LETTER_U ? -2 : 1
      at += 1
    }
    const end = marks.next(at)
    this.#string_bytes += end - at
    if (this.#is_read && this.#text.length < MAX_KEY_BYTES) {
      this.#text += Buffer.from(
        chunk.buffer,
        chunk.byteOffset + at,
        Math.min(end - at, MAX_KEY_BYTES),
      ).toString("latin1")
    }
    if (end === chunk.byteLength) return end
    if (chunk[end] === BACKSLASH) this.#escaped = true
    else this.#endString()
    return end + 1
  }

  #endString(): void {
    this.#in_string = false
    if (!this.#is_key) this.#take()
    else if (this.depth <= MAX_DEPTH) this.keys[this.depth - 1] = this.#text
  }

  /** Counts a value that is not nested too deep. */
  #take(): void {
    if (this.depth <= MAX_DEPTH) this.#output.take(this, this.#string_bytes, this.#text)
  }

  get name(): string {
    let at = this.depth - 1
    while (at > 0 && this.lists[at] === true) at -= 1
    return this.keys[at] ?? ""
  }

  /** Keeps a piece of the member. */
  #capture(chunk: Uint8Array, start: number, end: number, is_over: boolean): void {
    if (this.#capturing === null) return
    this.#captured_bytes += end - start
    if (this.#captured_bytes <= MAX_USAGE_BYTES) this.#capturing.push(chunk.slice(start, end))
    if (!is_over) return
    const is_small = this.#captured_bytes <= MAX_USAGE_BYTES
    this.#kept.set(this.keys[0] ?? "", is_small ? Buffer.concat(this.#capturing).toString() : TOO_LONG)
    this.#capturing = null
  }
}
