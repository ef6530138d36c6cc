/** The properties of a JSON text that make it costly to parse. */
export interface Bounds {
  /** Levels of objects and lists; the root is 1. */
  readonly depth: number
  /** Members and elements of all objects and lists. */
  readonly values: number
  /** Strings among them that are no names. Short ones cost the parser ten times what a number does. */
  readonly texts: number
}

/** Different names of members: each new one costs the parser a microsecond. */
export const MAX_NAMES = 20_000
/** Backslashes in strings: each costs the parser as much as ten plain bytes. */
export const MAX_ESCAPES = 2_000_000
/** Digits beyond the 16th of each number. */
const MAX_DIGITS = 1_000_000

export type Excess = "depth" | "values" | "texts" | "names" | "escapes" | "digits"

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** Most strings are shorter than this, and for them a loop is faster than a native search. */
const NEAR_BYTES = 64
/** A double holds every number of fewer digits. */
const LONG_DIGITS = 16
/** Names count only after so many values: fewer cannot be too many names, and most texts have fewer. */
const FEW_VALUES = 10_000
/** Names that are longer count by their bytes too. */
const LONG_NAME_BYTES = 256
/** Of all long names together. */
const MAX_LONG_NAME_BYTES = 262_144
const NAME_BITS = 1 << 17
/** Random, so that nobody can choose names whose hashes collide. */
const SEED = crypto.getRandomValues(new Uint32Array(1))[0] ?? 0

/** A JSON text's shape, measured before it is parsed, which takes seconds for some texts. It can come in pieces. */
export class Shape {
  /** True if there are numbers that a double may not hold, by their digits or an exponent. */
  has_long_numbers = false
  #depth = 0
  #deepest = 0
  #values = 0
  #texts = 0
  /** True if no colon followed the last string yet. */
  #may_be_name = false
  #names = 0
  #long_name_bytes = 0
  #escapes = 0
  #long_digits = 0
  /** Of the number that is being read. */
  #digits = 0
  #in_string = false
  #escaped = false
  /** Of the last string, from the beginning of the text. */
  #string_start = 0
  #string_end = 0
  /** Bytes of the pieces before. */
  #before = 0
  #seen: Uint32Array | null = null

  /** The first bound that the text exceeds so far; null for none. */
  excess({ depth, values, texts }: Bounds): Excess | null {
    if (this.#deepest > depth) return "depth"
    if (this.#values > values) return "values"
    if (this.#texts > texts) return "texts"
    if (this.#names > MAX_NAMES || this.#long_name_bytes > MAX_LONG_NAME_BYTES) return "names"
    if (this.#escapes > MAX_ESCAPES) return "escapes"
    return this.#long_digits > MAX_DIGITS ? "digits" : null
  }

  take(bytes: Uint8Array): void {
    const marks = stringMarks(bytes)
    for (let at = 0; at < bytes.length; at++) {
      if (this.#in_string) {
        at = this.#stringEnd(bytes, marks, at)
        this.#string_end = this.#before + at
        continue
      }
      const byte = bytes[at] ?? 0
      if (byte >= 0x30 && byte <= 0x39) {
        if (++this.#digits === LONG_DIGITS) this.has_long_numbers = true
        else if (this.#digits > LONG_DIGITS) this.#long_digits++
        continue
      }
      const is_after_digit = this.#digits > 0
      this.#digits = 0
      switch (byte) {
        case QUOTE:
          this.#in_string = true
          this.#texts++
          this.#may_be_name = true
          this.#string_start = this.#before + at + 1
          break
        case 0x5b: // [
        case 0x7b: // {
          if (++this.#depth > this.#deepest) this.#deepest = this.#depth
          this.#values++
          break
        case 0x5d: // ]
        case 0x7d: // }
          this.#depth--
          break
        case 0x2c: // ,
          this.#values++
          break
        case 0x3a: // :
          // Once for each string, because colons after a text do not make it shorter.
          if (this.#may_be_name) this.#texts--
          this.#may_be_name = false
          this.#noteName(bytes)
          break
        case 0x45: // E
        case 0x65: // e
          this.has_long_numbers ||= is_after_digit
          break
      }
    }
    this.#before += bytes.length
  }

  /** Reads on in a string. Returns where it ends, or the last position of the piece. */
  #stringEnd(bytes: Uint8Array, marks: Marks, start: number): number {
    let at = start
    if (this.#escaped) {
      this.#escaped = false
      at++
    }
    for (;;) {
      at = marks.next(at)
      if (at >= bytes.length) return at
      if (bytes[at] === QUOTE) {
        this.#in_string = false
        return at
      }
      this.#escapes++
      at += 2
      if (at > bytes.length) {
        this.#escaped = true
        return at
      }
    }
  }

  /** The last string is a name: counts it if it is new or long. */
  #noteName(bytes: Uint8Array): void {
    const length = this.#string_end - this.#string_start
    if (length > LONG_NAME_BYTES) this.#long_name_bytes += length
    if (this.#values <= FEW_VALUES) return
    const start = this.#string_start - this.#before
    if (start < 0 || length > LONG_NAME_BYTES) {
      this.#names++
      return
    }
    const name = bytes.subarray(start, start + length)
    this.#seen ??= new Uint32Array(NAME_BITS / 32)
    let hash = SEED
    for (const byte of name) hash = Math.imul(hash ^ byte, 0x01000193)
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 15
    const bit = 1 << (hash & 31)
    const word = this.#seen[hash >>> 5] ?? 0
    if ((word & bit) !== 0) return
    this.#seen[hash >>> 5] = word | bit
    this.#names++
  }
}

/** The places of two bytes, asked for in rising order: each is searched again only once it is passed, so that every byte is read twice. */
export class Marks {
  readonly #bytes: Uint8Array
  readonly #one: number
  readonly #other: number
  /** So many bytes are looked at one by one first. */
  readonly #near_bytes: number
  #one_at = -1
  #other_at = -1

  constructor(bytes: Uint8Array, one: number, other: number, near_bytes = 0) {
    this.#bytes = bytes
    this.#one = one
    this.#other = other
    this.#near_bytes = near_bytes
  }

  /** The first one at or after `from`; the length when there is none. */
  next(from: number): number {
    const bytes = this.#bytes
    const near = Math.min(from + this.#near_bytes, bytes.length)
    for (let at = from; at < near; at++) if (bytes[at] === this.#one || bytes[at] === this.#other) return at
    if (this.#one_at < near) this.#one_at = this.#find(this.#one, near)
    if (this.#other_at < near) this.#other_at = this.#find(this.#other, near)
    return Math.min(this.#one_at, this.#other_at)
  }

  #find(byte: number, from: number): number {
    const at = this.#bytes.indexOf(byte, from)
    return at === -1 ? this.#bytes.length : at
  }
}

/** The quotes and backslashes of a piece of JSON. */
export const stringMarks = (bytes: Uint8Array) => new Marks(bytes, QUOTE, BACKSLASH, NEAR_BYTES)

/** Bytes to read before the event loop gets a turn. */
export const SLICE_BYTES = 1 << 18

/** Resolves in the next turn of the event loop, after it has read its sockets. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** Waits for a turn of the event loop to read so many bytes, which other accounts may have first (D78); null if there is no need to wait. */
export type NextTurn = (bytes?: number) => Promise<void> | null

/** A large text piece by piece, with a turn of the event loop after each. */
export async function* slices(
  bytes: Uint8Array,
  turn: NextTurn = nextTurn,
): AsyncGenerator<Uint8Array, void, void> {
  for (let start = 0; start < bytes.length; start += SLICE_BYTES) {
    yield bytes.subarray(start, start + SLICE_BYTES)
    await turn()
  }
}
