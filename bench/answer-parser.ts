/** Who is told what a connection delivers. */
export interface AnswerSink {
  head(status: number): void
  /** A part of the body: `bytes` from `from` up to `to`. */
  body(bytes: Buffer, from: number, to: number): void
  /** The answer is whole; `reusable` says whether its connection takes another request. */
  end(reusable: boolean): void
}

type State = "head" | "fixed" | "endless" | "size" | "chunk" | "chunk_end" | "trailer"

const CR = 13
const LF = 10
/** Makes a letter of ASCII lower case. */
const LOWER_CASE = 32
const HEAD_END = Buffer.from("\r\n\r\n")
const CONTENT_LENGTH = Buffer.from("content-length:")
const TRANSFER_ENCODING = Buffer.from("transfer-encoding:")
const CONNECTION = Buffer.from("connection:")

/**
 * Reads HTTP/1.1 answers off one connection (RFC 9112). It works on the bytes and copies none of them, so that the load generator
 * costs little beside what it measures. It trusts the server: a head without a length ends with the connection, trailers are skipped.
 */
export class AnswerParser {
  readonly #sink: AnswerSink
  #state: State = "head"
  /** A head that has not come whole. */
  #partial: Buffer | null = null
  /** Bytes left of a body of known length or of a chunk. */
  #left = 0
  #reusable = true
  /** Bytes of the trailer's line so far, without CR; of a chunk's size, whether the digits are over. */
  #line = 0

  constructor(sink: AnswerSink) {
    this.#sink = sink
  }

  feed(bytes: Buffer): void {
    let at = 0
    while (at < bytes.length) at = this.#step(bytes, at)
  }

  /** The connection has ended; whether that left an answer unfinished. */
  close(): { readonly cut: boolean } {
    if (this.#state !== "endless") return { cut: this.#state !== "head" || this.#partial !== null }
    this.#state = "head"
    this.#sink.end(false)
    return { cut: false }
  }

  #step(bytes: Buffer, at: number): number {
    switch (this.#state) {
      case "head":
        return this.#head(bytes, at)
      case "fixed":
      case "chunk":
        return this.#take(bytes, at)
      case "endless":
        this.#sink.body(bytes, at, bytes.length)
        return bytes.length
      case "size":
        return this.#size(bytes, at)
      case "chunk_end":
        return this.#chunkEnd(bytes, at)
      case "trailer":
        return this.#trailer(bytes, at)
    }
  }

  #head(bytes: Buffer, at: number): number {
    if (this.#partial === null) {
      const end = bytes.indexOf(HEAD_END, at)
      if (end !== -1) {
        this.#begin(bytes, at, end + 2)
        return end + HEAD_END.length
      }
      this.#partial = Buffer.from(bytes.subarray(at))
      return bytes.length
    }
    const before = this.#partial.length
    const head = Buffer.concat([this.#partial, bytes.subarray(at)])
    const end = head.indexOf(HEAD_END)
    this.#partial = end === -1 ? head : null
    if (end === -1) return bytes.length
    this.#begin(head, 0, end + 2)
    return at + end + HEAD_END.length - before
  }

  /** Reads the head between two places: its status line, and the three fields that say where the body ends. */
  #begin(bytes: Buffer, from: number, to: number): void {
    let length: number | null = null
    let chunked = false
    this.#reusable = true
    for (let at = bytes.indexOf(LF, from) + 1; at < to; at = bytes.indexOf(LF, at) + 1) {
      const letter = (bytes[at] ?? 0) | LOWER_CASE
      if (letter === 99) {
        if (startsWith(bytes, at, CONTENT_LENGTH)) length = numberAt(bytes, at + CONTENT_LENGTH.length)
        else if (startsWith(bytes, at, CONNECTION)) this.#reusable = !valueAt(bytes, at).includes("close")
      } else if (letter === 116 && startsWith(bytes, at, TRANSFER_ENCODING)) {
        chunked = valueAt(bytes, at).includes("chunked")
      }
    }
    this.#sink.head(numberAt(bytes, from + "HTTP/1.1 ".length))
    this.#left = chunked ? 0 : (length ?? 0)
    this.#state = chunked ? "size" : length === null ? "endless" : "fixed"
    if (this.#state === "fixed" && this.#left === 0) this.#end()
  }

  /** As much of the body or of its chunk as is here. */
  #take(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#left)
    this.#left -= end - at
    this.#sink.body(bytes, at, end)
    if (this.#left === 0) {
      if (this.#state === "chunk") this.#state = "chunk_end"
      else this.#end()
    }
    return end
  }

  #size(bytes: Buffer, at: number): number {
    for (let place = at; place < bytes.length; place++) {
      const byte = bytes[place] ?? 0
      if (byte === LF) {
        this.#line = 0
        this.#state = this.#left === 0 ? "trailer" : "chunk"
        return place + 1
      }
      const digit = hexDigit(byte)
      if (digit === null) this.#line = 1
      else if (this.#line === 0) this.#left = this.#left * 16 + digit
    }
    return bytes.length
  }

  #chunkEnd(bytes: Buffer, at: number): number {
    const end = bytes.indexOf(LF, at)
    if (end === -1) return bytes.length
    this.#state = "size"
    return end + 1
  }

  /** Lines up to an empty one. */
  #trailer(bytes: Buffer, at: number): number {
    const end = bytes.indexOf(LF, at)
    const upto = end === -1 ? bytes.length : end
    for (let place = at; place < upto; place++) if (bytes[place] !== CR) this.#line += 1
    if (end === -1) return bytes.length
    if (this.#line === 0) this.#end()
    this.#line = 0
    return end + 1
  }

  #end(): void {
    this.#state = "head"
    this.#sink.end(this.#reusable)
  }
}

/** Whether `name`, in lower case, is at `at` in any case. */
function startsWith(bytes: Buffer, at: number, name: Buffer): boolean {
  for (let place = 0; place < name.length; place++) {
    if (((bytes[at + place] ?? 0) | LOWER_CASE) !== ((name[place] ?? 0) | LOWER_CASE)) return false
  }
  return true
}

/** The decimal number at `at`, after spaces. */
function numberAt(bytes: Buffer, at: number): number {
  let number = 0
  let place = at
  while (bytes[place] === 32) place += 1
  for (; ; place++) {
    const digit = (bytes[place] ?? 0) - 48
    if (digit < 0 || digit > 9) return number
    number = number * 10 + digit
  }
}

/** The line at `at`, in lower case. */
function valueAt(bytes: Buffer, at: number): string {
  return bytes.toString("latin1", at, bytes.indexOf(LF, at)).toLowerCase()
}

function hexDigit(byte: number): number | null {
  if (byte >= 48 && byte <= 57) return byte - 48
  const letter = byte | LOWER_CASE
  return letter >= 97 && letter <= 102 ? letter - 87 : null
}
