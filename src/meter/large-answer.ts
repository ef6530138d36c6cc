import { isObject, readServiceTier, readUsage, type UsageLimits, type UsageReading } from "../wire/usage.ts"
import { countedBytes, parsePayload, REASONING } from "./output.ts"

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

/** A key that counts for anything is shorter, and a usage too. */
const MAX_KEY_BYTES = 64
const MAX_USAGE_BYTES = 65_536
/** Members of the answer that are kept. */
const KEPT: ReadonlySet<string> = new Set(["usage", "service_tier"])
/** In place of a member that is too long: neither a usage nor a service tier. */
const TOO_LONG = "0"
/** Nothing deeper counts as output. */
const MAX_DEPTH = 64

/** `choices`, the place in the list, `message`, the field: how deep a field of a message lies. */
const FIELD_DEPTH = 4

/**
 * A JSON answer that is too large to keep (D5). It is read once, byte by byte, for its usage and its output. Of the
 * grammar only the brackets are checked. The memory is bounded, however large the answer is.
 */
export class LargeAnswer {
  #at_start = true
  #depth = 0
  /** Whether something other than one object came. */
  #stray = false
  /** Of each open value: the key of the member that is being read, and whether it is a list. */
  readonly #keys: string[] = []
  readonly #lists: boolean[] = []
  #expects_key = false
  #in_string = false
  #is_key = false
  #escaped = false
  /** Of the string that is being read, as far as it is decoded. */
  #string_bytes = 0
  #key = ""
  /** Pieces of a top-level member that is kept; null while none is being read. */
  #capturing: Uint8Array[] | null = null
  #captured_bytes = 0
  readonly #kept = new Map<string, string>()
  #output_bytes = 0
  /** Bytes of reasoning by its name: of several names the first counts. */
  readonly #reasoning = new Map<string, number>()

  /** Whether one whole object came, and nothing else. */
  get whole(): boolean {
    return !this.#at_start && this.#depth === 0 && !this.#stray
  }

  /** Whether it began as an object. */
  get object(): boolean {
    return !this.#at_start && !this.#stray
  }

  /** Its last top-level usage. */
  usage(limits: UsageLimits): UsageReading {
    const text = this.#kept.get("usage")
    if (text === undefined) return { state: "missing" }
    const payload = parsePayload(`{"usage":${text}}`)
    return isObject(payload) ? readUsage(payload.usage, limits) : { state: "invalid" }
  }

  /** Its last top-level service tier (D70). */
  get service_tier(): string | undefined {
    const payload = parsePayload(`{"service_tier":${this.#kept.get("service_tier") ?? null}}`)
    return payload === null ? undefined : readServiceTier(payload)
  }

  /** UTF-8 bytes of extractable output (D7). */
  get output_bytes(): number {
    const reasoning = REASONING.map((name) => this.#reasoning.get(name) ?? 0)
    return this.#output_bytes + (reasoning.find((bytes) => bytes > 0) ?? 0)
  }

  /** No more is read: a string that has not ended counts as far as it came. */
  stop(): void {
    if (this.#in_string && !this.#is_key) this.#count()
    this.#in_string = false
  }

  take(chunk: Uint8Array): void {
    let capture_start = 0
    let at = 0
    while (at < chunk.byteLength && !this.#stray) {
      if (this.#in_string) {
        at = this.#readString(chunk, at)
        continue
      }
      const byte = chunk[at] ?? 0
      switch (byte) {
        case QUOTE:
          this.#beginString()
          break
        case OPEN_OBJECT:
        case OPEN_LIST:
          this.#open(byte === OPEN_LIST)
          break
        case CLOSE_OBJECT:
        case CLOSE_LIST:
          if (this.#depth === 1) this.#capture(chunk, capture_start, at, true)
          this.#close()
          break
        case COLON:
          this.#expects_key = false
          if (this.#depth === 1 && KEPT.has(this.#keys[0] ?? "")) {
            this.#capturing = []
            this.#captured_bytes = 0
            capture_start = at + 1
          }
          break
        case COMMA:
          if (this.#depth === 1) this.#capture(chunk, capture_start, at, true)
          this.#expects_key = this.#depth > 0 && this.#lists[this.#depth - 1] === false
          break
        default:
          if (this.#depth === 0) this.#readOutside(byte)
      }
      at += 1
    }
    this.#capture(chunk, capture_start, chunk.byteLength, false)
  }

  /** Around the object only white space may stand, and a byte order mark before it. */
  #readOutside(byte: number): void {
    if (!BLANK.has(byte) && !(this.#at_start && BOM.includes(byte))) this.#stray = true
  }

  #open(is_list: boolean): void {
    if (this.#depth === 0 && (!this.#at_start || is_list)) this.#stray = true
    this.#at_start = false
    if (this.#depth < MAX_DEPTH) {
      this.#keys[this.#depth] = ""
      this.#lists[this.#depth] = is_list
    }
    this.#depth += 1
    this.#expects_key = !is_list
  }

  #close(): void {
    if (this.#depth === 0) this.#stray = true
    else this.#depth -= 1
    this.#expects_key = false
  }

  #beginString(): void {
    if (this.#depth === 0) this.#stray = true
    this.#in_string = true
    this.#is_key = this.#expects_key
    this.#string_bytes = 0
    this.#key = ""
  }

  /** Reads on within a string; where its bytes end in this chunk. */
  #readString(chunk: Uint8Array, start: number): number {
    let at = start
    if (this.#escaped) {
      this.#escaped = false
      // Four digits stand for two bytes or more.
      this.#string_bytes += chunk[at] === LETTER_U ? -2 : 1
      at += 1
    }
    const end = stringPieceEnd(chunk, at)
    this.#string_bytes += end - at
    if (this.#is_key && this.#key.length < MAX_KEY_BYTES && this.#isKeyRead()) {
      this.#key += Buffer.from(
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

  /** Whether the key that is being read may matter: of the answer, of a choice, or within its message. */
  #isKeyRead(): boolean {
    if (this.#depth === 1) return true
    if (this.#depth < FIELD_DEPTH - 1 || this.#keys[0] !== "choices") return false
    return this.#depth === FIELD_DEPTH - 1 || this.#keys[2] === "message" || this.#keys[2] === "delta"
  }

  #endString(): void {
    this.#in_string = false
    if (this.#is_key) {
      if (this.#depth <= MAX_DEPTH) this.#keys[this.#depth - 1] = this.#key
    } else this.#count()
  }

  /** Counts a string value if it is output (D7): `choices[…].message` and below, or `choices[…].text`. */
  #count(): void {
    const keys = this.#keys
    if (keys[0] !== "choices" || this.#depth > MAX_DEPTH || this.#lists[1] !== true) return
    if (this.#depth === FIELD_DEPTH - 1 && keys[2] === "text") this.#output_bytes += this.#string_bytes
    if (this.#depth < FIELD_DEPTH || (keys[2] !== "message" && keys[2] !== "delta")) return
    const bytes = countedBytes(this.#name, this.#string_bytes)
    const field = keys[FIELD_DEPTH - 1] ?? ""
    if (REASONING.includes(field)) this.#reasoning.set(field, (this.#reasoning.get(field) ?? 0) + bytes)
    else this.#output_bytes += bytes
  }

  /** The key under which the value lies that is being read: in a list, that of the list. */
  get #name(): string {
    let at = this.#depth - 1
    while (at > 0 && this.#lists[at] === true) at -= 1
    return this.#keys[at] ?? ""
  }

  /** Keeps a piece of the member; it ends with that. */
  #capture(chunk: Uint8Array, start: number, end: number, is_over: boolean): void {
    if (this.#capturing === null) return
    this.#captured_bytes += end - start
    if (this.#captured_bytes <= MAX_USAGE_BYTES) this.#capturing.push(chunk.slice(start, end))
    if (!is_over) return
    const is_small = this.#captured_bytes <= MAX_USAGE_BYTES
    this.#kept.set(this.#keys[0] ?? "", is_small ? Buffer.concat(this.#capturing).toString() : TOO_LONG)
    this.#capturing = null
  }
}

/** Strings are mostly short: a native search pays from here on. */
const NEAR_BYTES = 64

/** Where the next quote or backslash stands, at the latest the end of the chunk. */
function stringPieceEnd(chunk: Uint8Array, start: number): number {
  const near = Math.min(start + NEAR_BYTES, chunk.byteLength)
  for (let at = start; at < near; at++) {
    if (chunk[at] === QUOTE || chunk[at] === BACKSLASH) return at
  }
  const rest = chunk.subarray(near)
  const quote = indexOf(rest, QUOTE)
  return near + indexOf(rest.subarray(0, quote), BACKSLASH)
}

function indexOf(bytes: Uint8Array, byte: number): number {
  const at = bytes.indexOf(byte)
  return at === -1 ? bytes.byteLength : at
}
