import { type AnswerHead, MAX_HEAD_BYTES } from "./transport.ts"

export const MAX_FIELDS = 256

/** The answer is not valid HTTP/1.1, or ambiguous. */
export class NotHttp extends Error {
  override readonly name = "NotHttp"
  readonly code = "INVALID_ANSWER"
}

/** Header fields, by name in any case. A field that is sent twice is one, its values joined by a comma (RFC 9110 section 5.3). */
export class Fields {
  readonly #head: string
  readonly #starts: readonly number[]

  /** `starts` is where the lines of the fields begin in a valid head, as `fieldsIn` returns them. */
  constructor(head: string, starts: readonly number[] = []) {
    this.#head = head
    this.#starts = starts
  }

  /** The value of the field `name`, which is in lower case; null when it is missing. */
  get(name: string): string | null {
    const head = this.#head
    const starts = this.#starts
    let value: string | null = null
    for (let at = 0; at < starts.length; at++) {
      const start = starts[at] ?? 0
      if (!isNamed(head, start, name)) continue
      const further = head.slice(start + name.length + 1, starts[at + 1] ?? head.length).trim()
      value = value === null ? further : `${value}, ${further}`
    }
    return value
  }
}

/**
 * True if the line at `start` has the field `name`. Compared in place, because copies of names would cost more than the
 * rest.
 */
function isNamed(head: string, start: number, name: string): boolean {
  if (head.charCodeAt(start + name.length) !== COLON) return false
  for (let at = 0; at < name.length; at++) {
    if ((head.charCodeAt(start + at) | LOWER_CASE) !== name.charCodeAt(at)) return false
  }
  return true
}

const CRLF = "\r\n"
/** The bit in which a letter differs from its capital; those of digits and the hyphen have it too. */
const LOWER_CASE = 32
const COLON = 58

const STATUS = /^HTTP\/1\.[01] \d{3}(?: [\t\x20-\x7e\x80-\xff]*)?(?=\r\n|$)/
const STATUS_AT = "HTTP/1.1 ".length
const FIELD = /\r\n[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*/y

/** A line that ends without CR. It is ambiguous whether it ends the head (RFC 9112 section 2.2). */
const BARE_LF = /(?:^|[^\r])\n/

/** The transfer encoding, in lower case; null for none, and for `identity`, which RFC 9112 removed and some servers still send. */
function codingOf(fields: Fields): string | null {
  const coding = fields.get("transfer-encoding")?.toLowerCase() ?? null
  return coding === "identity" ? null : coding
}

/** A content length. One that is sent several times must be the same each time (RFC 9112 section 6.3). */
function lengthOf(text: string): number {
  const only = numberOf(text)
  if (only !== null) return only
  const [first = "", ...others] = text.split(",")
  const length = numberOf(first)
  if (length === null || others.some((other) => other.trim() !== first))
    throw new NotHttp("the content length is not one number")
  return length
}

/** The value of up to 15 digits; null for any other text. For so few digits a loop is faster than a native call. */
export function numberOf(text: string): number | null {
  let value = 0
  for (let at = 0; at < text.length; at++) {
    const digit = text.charCodeAt(at) - ZERO
    if (digit < 0 || digit > 9) return null
    value = value * 10 + digit
  }
  return text.length > 0 && text.length <= MAX_DIGITS ? value : null
}

const ZERO = 48
const MAX_DIGITS = 15

/** Seconds for which the server keeps an idle connection (RFC 2068 section 19.7.1.1); null if unknown. */
function keptFor(head: string, fields: Fields): number | null {
  // Most heads do not have it, and one search costs less than one in each line.
  if (!head.includes("imeout=")) return null
  const timeout = /(?:^|[ ,;])timeout=(\d{1,6})(?:$|[ ,;])/i.exec(fields.get("keep-alive") ?? "")
  return timeout === null ? null : Number(timeout[1])
}

/** The status of a head. Throws `NotHttp` for another status line. */
export function statusOf(head: string): number {
  if (!STATUS.test(head)) throw new NotHttp("no status line")
  return numberOf(head.slice(STATUS_AT, STATUS_AT + 3)) ?? 0
}

/** The positions of the fields, up to one more than is allowed. Throws `NotHttp` for a malformed one. */
export function fieldsIn(head: string): readonly number[] {
  const starts: number[] = []
  let at = head.indexOf(CRLF)
  while (at !== -1 && at < head.length && starts.length <= MAX_FIELDS) {
    FIELD.lastIndex = at
    if (!FIELD.test(head)) throw new NotHttp("a header field is malformed")
    starts.push(at + CRLF.length)
    at = FIELD.lastIndex
  }
  return starts
}

export interface AnswerSink {
  head(head: AnswerHead): void
  /** Called with bytes of the body, in a buffer that the sink may keep, change and free. */
  body(bytes: Uint8Array): void
  /**
   * Called when the answer is complete. `reusable`: its connection takes another request, for `keep_s` seconds unless
   * null.
   */
  end(reusable: boolean, keep_s: number | null): void
}

/** Parts up to this size are copied. */
const SMALL_BYTES = 1_024
const MAX_LINE_BYTES = 4_096
const MAX_CHUNK_BYTES = 2 ** 48

const HEAD_END = "\r\n\r\n"
const LF = 10
const CR = 13
const SEMICOLON = 59

type ParserState = "head" | "fixed" | "until_close" | "size" | "chunk" | "chunk_end" | "trailer"

/** Parses answers of one connection (RFC 9112), however cut. After `NotHttp` it is unusable. */
export class AnswerParser {
  readonly #sink: AnswerSink
  #state: ParserState = "head"
  /** The received part of an incomplete head, in Latin-1. */
  #partial = ""
  /** Bytes left of a body of known length or of a chunk. */
  #left = 0
  /** Bytes of the informational answers before it. */
  #informational_bytes = 0
  #reusable = true
  #keep_s: number | null = null
  /** Bytes of the line between two chunks, or of the trailers. */
  #line_bytes = 0
  #has_size = false
  #in_extension = false
  #line_is_empty = true
  /** True if a request was sent whose answer has not ended. */
  #is_expecting = false

  constructor(sink: AnswerSink) {
    this.#sink = sink
  }

  expect(): void {
    this.#is_expecting = true
    this.#informational_bytes = 0
  }

  /** Takes the next bytes and owns them: the framing of chunks is removed in place. */
  feed(bytes: Uint8Array): void {
    let at = 0
    while (at < bytes.length) at = this.#step(bytes, at)
  }

  /** The provider sends no more. Returns whether the answer is complete. */
  close(): boolean {
    if (this.#state !== "until_close") return false
    this.#end()
    return true
  }

  #step(bytes: Uint8Array, at: number): number {
    switch (this.#state) {
      case "head":
        return this.#head(bytes, at)
      case "fixed":
        return this.#fixed(bytes, at)
      case "until_close":
        this.#sink.body(kept(bytes, at, bytes.length))
        return bytes.length
      default:
        return this.#chunks(bytes, at)
    }
  }

  #head(bytes: Uint8Array, at: number): number {
    if (!this.#is_expecting) throw new NotHttp("bytes after the end of the answer")
    const before = this.#partial.length
    const text = this.#partial + latin1(bytes, at, headBytes(this.#partial, bytes, at))
    const end = text.indexOf(HEAD_END, Math.max(0, before - HEAD_END.length + 1))
    if (end === -1 || end > MAX_HEAD_BYTES) {
      if (BARE_LF.test(text)) throw new NotHttp("a line of the head ends without CR")
      if (text.length > MAX_HEAD_BYTES) return this.#refuse(text, "header section too large", bytes)
      this.#partial = text
      return bytes.length
    }
    this.#partial = ""
    const head = text.slice(0, end)
    const status = statusOf(head)
    const starts = fieldsIn(head)
    if (starts.length > MAX_FIELDS) return this.#refuse(head, "too many header fields", bytes)
    const after = at + end + HEAD_END.length - before
    // An informational answer comes before the real one (RFC 9110 section 15.2); nobody asked for another protocol.
    if (status === 101) throw new NotHttp("an upgrade that was not requested")
    if (status < 100 || status >= 200) this.#begin(head, starts, status)
    else this.#skip(end + HEAD_END.length)
    return after
  }

  /** Counts an informational answer. Together they may be as long as a head. */
  #skip(bytes: number): void {
    this.#informational_bytes += bytes
    if (this.#informational_bytes > MAX_HEAD_BYTES) throw new NotHttp("too many informational answers")
  }

  /** Reports a head that is over a limit. The rest is not read. */
  #refuse(head: string, fault: string, bytes: Uint8Array): number {
    this.#state = "until_close"
    this.#reusable = false
    this.#sink.head({ status: statusOf(head), length: null, fields: new Fields(""), fault })
    return bytes.length
  }

  /** The framing of the body (RFC 9112 section 6.3). */
  #begin(head: string, starts: readonly number[], status: number): void {
    const fields = new Fields(head, starts)
    const length = fields.get("content-length")
    const coding = codingOf(fields)
    const connection = (fields.get("connection") ?? "").toLowerCase()
    let announced: number | null = null
    this.#reusable = head.startsWith("HTTP/1.1") ? !connection.includes("close") : connection === "keep-alive"
    this.#keep_s = keptFor(head, fields)
    if (status === 204 || status === 304) this.#startFixed(0)
    else if (coding !== null) {
      if (coding !== "chunked") throw new NotHttp("an unknown transfer encoding")
      // Both say how long the body is: the connection cannot be trusted with another request.
      if (length !== null) this.#reusable = false
      this.#startLine("size")
    } else if (length === null) {
      this.#reusable = false
      this.#state = "until_close"
    } else {
      announced = lengthOf(length)
      this.#startFixed(announced)
    }
    this.#sink.head({ status, length: announced, fields, fault: null })
    if (this.#state === "fixed" && this.#left === 0) this.#end()
  }

  #startFixed(bytes: number): void {
    this.#state = "fixed"
    this.#left = bytes
  }

  #fixed(bytes: Uint8Array, at: number): number {
    const end = Math.min(bytes.length, at + this.#left)
    this.#left -= end - at
    this.#sink.body(kept(bytes, at, end))
    if (this.#left === 0) this.#end()
    return end
  }

  /** Removes the framing and reports the data of all chunks in `bytes` together, because an event is often one chunk. */
  #chunks(bytes: Uint8Array, from: number): number {
    let at = from
    let start = -1
    let end = -1
    let over = false
    while (at < bytes.length && !over) {
      if (this.#state === "chunk") {
        const upto = Math.min(bytes.length, at + this.#left)
        if (start === -1) start = end = at
        if (end !== at) bytes.copyWithin(end, at, upto)
        end += upto - at
        this.#left -= upto - at
        at = upto
        if (this.#left === 0) this.#startLine("chunk_end")
      } else over = this.#frame(bytes[at++] ?? 0)
    }
    if (end > start) this.#sink.body(kept(bytes, start, end))
    if (over) this.#end()
    return at
  }

  /** Takes one byte between chunks. Returns whether it was the last one of the body. */
  #frame(byte: number): boolean {
    this.#line_bytes += 1
    // Trailers may be as long as a head.
    if (this.#line_bytes > (this.#state === "trailer" ? MAX_HEAD_BYTES : MAX_LINE_BYTES))
      throw new NotHttp("a line between chunks is too long")
    if (this.#state === "chunk_end") {
      if (byte === LF) this.#startLine("size")
      else if (byte !== CR || this.#line_bytes > 1) throw new NotHttp("a chunk is longer than its size")
      return false
    }
    if (this.#state === "trailer") {
      if (byte === LF) {
        if (this.#line_is_empty) return true
        this.#line_is_empty = true
      } else if (byte !== CR) this.#line_is_empty = false
      return false
    }
    if (byte === LF) {
      if (!this.#has_size) throw new NotHttp("a chunk has no size")
      this.#startLine(this.#left === 0 ? "trailer" : "chunk")
    } else if (!this.#in_extension) this.#size(byte)
    return false
  }

  #size(byte: number): void {
    const digit = hexDigit(byte)
    if (digit !== null) {
      this.#left = this.#left * 16 + digit
      this.#has_size = true
      if (this.#left > MAX_CHUNK_BYTES) throw new NotHttp("the size of a chunk is too large")
    } else if (byte === SEMICOLON || byte === CR || byte === 32) this.#in_extension = true
    else throw new NotHttp("the size of a chunk is not a number")
  }

  #startLine(state: "size" | "chunk" | "chunk_end" | "trailer"): void {
    this.#state = state
    this.#line_bytes = 0
    this.#line_is_empty = true
    if (state !== "size") return
    this.#left = 0
    this.#has_size = false
    this.#in_extension = false
  }

  #end(): void {
    this.#state = "head"
    this.#is_expecting = false
    this.#sink.end(this.#reusable, this.#keep_s)
  }
}

/**
 * A part of the received bytes, as a view or a copy. A small part is copied, which is faster than a view. So is one of
 * many parts, because a view would keep all received bytes in memory, and chunk extensions can be 4,000 times as many.
 */
function kept(bytes: Uint8Array, start: number, end: number): Uint8Array {
  const length = end - start
  if (length === bytes.length) return bytes
  return length <= SMALL_BYTES || length < bytes.length / 4
    ? bytes.slice(start, end)
    : bytes.subarray(start, end)
}

/** At most `length` bytes, decoded without making a Buffer, which would take four times as long. */
function latin1(bytes: Uint8Array, start: number, length: number): string {
  return Buffer.prototype.latin1Slice.call(bytes, start, Math.min(start + length, bytes.length))
}

/**
 * The number of bytes that may belong to the head after `partial`: up to the blank line, if it ends in these bytes. The
 * rest is not decoded, because it would stay in memory with the head until the answer ends.
 */
function headBytes(partial: string, bytes: Uint8Array, start: number): number {
  const before = partial.slice(1 - HEAD_END.length)
  const seam = before === "" ? -1 : (before + latin1(bytes, start, HEAD_END.length - 1)).indexOf(HEAD_END)
  if (seam !== -1) return seam + HEAD_END.length - before.length
  const end = Buffer.prototype.indexOf.call(bytes, HEAD_END, start, "latin1")
  const most = MAX_HEAD_BYTES + HEAD_END.length
  return end === -1 ? most : Math.min(most, end + HEAD_END.length - start)
}

function hexDigit(byte: number): number | null {
  if (byte >= 48 && byte <= 57) return byte - 48
  const letter = byte | 32
  return letter >= 97 && letter <= 102 ? letter - 87 : null
}
