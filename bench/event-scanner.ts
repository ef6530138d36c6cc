const LF = 10
const CR = 13
/** How much of a line is looked at: enough for the beginning of an event. */
const LOOKED_AT_BYTES = 1024
const DATA = Buffer.from("data:")
const DONE = Buffer.from("[DONE]")
const MESSAGE_STOP = Buffer.from('{"type":"message_stop"')
const SPACE = 32
/** A field of a chunk that holds output (text, reasoning, refusals, arguments of a tool call), and is not empty. */
const CONTENT = /"(?:content|reasoning_content|reasoning|refusal|arguments|text)" ?: ?"[^"]/

/**
 * Counts the events of a stream as a client would see them: comments are none, and `[DONE]` and `message_stop` are only the end. A line that comes whole is
 * looked at where it is; of one that comes in parts the beginning is copied. Text is made of a line only until there was content.
 */
export class EventScanner {
  /** Whether an event with output has come: the moment TTFT is measured at. */
  content_seen = false
  done = false
  /** The beginning of a line that has not come whole. */
  readonly #partial = Buffer.alloc(LOOKED_AT_BYTES)
  /** Length of that line so far, what was not kept included. */
  #length = 0
  #is_event = false

  reset(): void {
    this.content_seen = false
    this.done = false
    this.#length = 0
    this.#is_event = false
  }

  feed(part: Uint8Array): number {
    const bytes = Buffer.from(part.buffer, part.byteOffset, part.byteLength)
    let events = 0
    let at = 0
    while (at < bytes.length) {
      const end = bytes.indexOf(LF, at)
      if (end === -1) {
        this.#keep(bytes, at, bytes.length)
        break
      }
      if (this.#line(bytes, at, end)) events += 1
      at = end + 1
    }
    return events
  }

  #keep(bytes: Buffer, from: number, to: number): void {
    if (this.#length < LOOKED_AT_BYTES) bytes.copy(this.#partial, this.#length, from, to)
    this.#length += to - from
  }

  /** A line has ended; whether it completes an event. */
  #line(bytes: Buffer, from: number, to: number): boolean {
    if (this.#length === 0) return this.#read(bytes, from, to)
    this.#keep(bytes, from, to)
    const length = Math.min(this.#length, LOOKED_AT_BYTES)
    this.#length = 0
    return this.#read(this.#partial, 0, length)
  }

  #read(bytes: Buffer, from: number, end: number): boolean {
    const to = end > from && bytes[end - 1] === CR ? end - 1 : end
    if (to === from) {
      const completes = this.#is_event
      this.#is_event = false
      return completes
    }
    if (!isAt(DATA, bytes, from, to)) return false
    const value = from + DATA.length + (bytes[from + DATA.length] === SPACE ? 1 : 0)
    if (isAt(DONE, bytes, value, to) || isAt(MESSAGE_STOP, bytes, value, to)) {
      this.done = true
      return false
    }
    this.#is_event = true
    this.content_seen ||= CONTENT.test(bytes.toString("latin1", from, Math.min(to, from + LOOKED_AT_BYTES)))
    return false
  }
}

function isAt(word: Buffer, bytes: Buffer, at: number, to: number): boolean {
  if (at + word.length > to) return false
  for (let place = 0; place < word.length; place++) if (bytes[at + place] !== word[place]) return false
  return true
}
