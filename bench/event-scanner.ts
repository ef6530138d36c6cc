const LF = 10
const CR = 13
/** How much of a line is looked at: enough for the beginning of an event and for a usage event as a whole. */
const LOOKED_AT_BYTES = 1024
const DATA = /^data: ?/
/** A field of a chunk that holds output (text, reasoning, refusals, arguments of a tool call), and is not empty. */
const CONTENT = /"(?:content|reasoning_content|reasoning|refusal|arguments|text)" ?: ?"[^"]/
const COMPLETION_TOKENS = /"completion_tokens" ?: ?(\d+)/

/**
 * Counts the events of a stream as a client would see them: comments are none, and `[DONE]` is only the end. Costs little per event:
 * of a line only the beginning is kept, and looked into only until there was content.
 */
export class EventScanner {
  /** Whether an event with output has come: the moment TTFT is measured at. */
  content_seen = false
  done = false
  readonly #line = Buffer.alloc(LOOKED_AT_BYTES)
  /** Length of the line so far, what was not kept included. */
  #length = 0
  #is_event = false
  /** What the last event but `[DONE]` began with. */
  #last = ""

  /** How many events these bytes have completed. */
  feed(bytes: Buffer): number {
    let events = 0
    let at = 0
    while (at < bytes.length) {
      const end = bytes.indexOf(LF, at)
      this.#keep(bytes, at, end === -1 ? bytes.length : end)
      if (end === -1) break
      if (this.#endLine()) events += 1
      at = end + 1
    }
    return events
  }

  /** The output tokens that the stream's last event reports; null when it reports none. */
  get completion_tokens(): number | null {
    const tokens = COMPLETION_TOKENS.exec(this.#last)?.[1]
    return tokens === undefined ? null : Number(tokens)
  }

  #keep(bytes: Buffer, from: number, to: number): void {
    if (this.#length < LOOKED_AT_BYTES) bytes.copy(this.#line, this.#length, from, to)
    this.#length += to - from
  }

  /** Whether the line completes an event. */
  #endLine(): boolean {
    let length = Math.min(this.#length, LOOKED_AT_BYTES)
    if (this.#length <= LOOKED_AT_BYTES && this.#line[length - 1] === CR) length -= 1
    this.#length = 0
    if (length === 0) {
      const completes = this.#is_event
      this.#is_event = false
      return completes
    }
    const line = this.#line.toString("latin1", 0, length)
    if (!DATA.test(line)) return false
    if (line.startsWith("[DONE]", line.startsWith("data: ") ? 6 : 5)) {
      this.done = true
      return false
    }
    this.#is_event = true
    this.#last = line
    this.content_seen ||= CONTENT.test(line)
    return false
  }
}
