/** Who is told what a connection delivers. */
export interface AnswerSink {
  head(status: number): void
  /** A view of what was fed; whole bodies come in any number of parts. */
  body(bytes: Uint8Array): void
  /** The answer is whole; `reusable` says whether its connection takes another request. */
  end(reusable: boolean): void
}

type State = "head" | "fixed" | "endless" | "size" | "chunk" | "chunk_end" | "trailer"

const LF = 10
const HEAD_END = "\r\n\r\n"

/**
 * Reads HTTP/1.1 answers off one connection (RFC 9112): a fraction of what `fetch` costs, so that the load generator is not what is
 * measured. It believes the server: a head without a length ends with the connection, trailers are skipped.
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
        this.#sink.body(at === 0 ? bytes : bytes.subarray(at))
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
    const rest = at === 0 ? bytes : bytes.subarray(at)
    const head = this.#partial === null ? rest : Buffer.concat([this.#partial, rest])
    const end = head.indexOf(HEAD_END)
    if (end === -1) {
      this.#partial = Buffer.from(head)
      return bytes.length
    }
    const before = this.#partial?.length ?? 0
    this.#partial = null
    this.#begin(head.toString("latin1", 0, end + 2))
    return at + end + HEAD_END.length - before
  }

  #begin(head: string): void {
    const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(head)?.[1] ?? 0)
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
    this.#reusable = !/\r\nconnection: *close/i.test(head)
    this.#sink.head(status)
    if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
      this.#left = 0
      this.#state = "size"
    } else if (length === undefined) {
      this.#state = "endless"
    } else {
      this.#left = Number(length)
      this.#state = "fixed"
      if (this.#left === 0) this.#end()
    }
  }

  /** As much of the body or of its chunk as is here. */
  #take(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#left)
    this.#left -= end - at
    this.#sink.body(bytes.subarray(at, end))
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
    for (let place = at; place < upto; place++) if (bytes[place] !== 13) this.#line += 1
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

function hexDigit(byte: number): number | null {
  if (byte >= 48 && byte <= 57) return byte - 48
  const letter = byte | 32
  return letter >= 97 && letter <= 102 ? letter - 87 : null
}
