import type { JsonObject } from "../wire/usage.ts"
import { isPlain } from "./long-text.ts"
import { parsePayload } from "./payload.ts"
import { type Recurrence, type Recurring, readData, type SseEvent } from "./sse.ts"

const LF = 0x0a
const BOM = 0xef

const ONE_MORE = Buffer.from("x")
/** Maximum number of attempts to learn a form. A stream that never repeats one is read event by event. */
const MAX_LESSONS = 8
/** Larger events are not learned: only small ones repeat thousands of times. */
const MAX_EVENT_BYTES = 16_384

/**
 * Most events of a stream differ only in their text. The bytes before and after the text are learned from a parsed
 * event. An event with the same bytes around plain characters is then recognised without parsing, which saves much CPU
 * (docs/performance.md). An event that differs in any other byte is parsed. Nothing is learned from the first event
 * with output and the first without, because the client waits for them.
 */
export class Repetition implements Recurring {
  readonly #textOf: (payload: JsonObject) => string | null
  readonly #outputBytes: (payload: JsonObject) => number
  /** The bytes of an event before and after its text; null before one is learned. */
  #text: { readonly head: Uint8Array; readonly foot: Uint8Array } | null = null
  #lessons = 0
  #has_output = false
  /** An event without evidence, complete; null before one is learned. */
  #idle: Uint8Array | null = null
  #idle_lessons = 0
  #has_idle = false

  /**
   * `textOf`: the only text of a payload; null if it has none or several. `outputBytes`: the bytes of all its output
   * (D7).
   */
  constructor(textOf: (payload: JsonObject) => string | null, outputBytes: (payload: JsonObject) => number) {
    this.#textOf = textOf
    this.#outputBytes = outputBytes
  }

  /** Learns from a parsed event with output and without valid usage. Returns whether it learned. */
  learn(event: SseEvent): boolean {
    const { parts } = event
    const [bytes] = parts
    if (!this.#has_output) {
      this.#has_output = true
      return false
    }
    if (this.#lessons === MAX_LESSONS || bytes === undefined || parts.length > 1) return false
    if (bytes.byteLength > MAX_EVENT_BYTES || bytes.at(-1) !== LF) return false
    const payload = parsePayload(event.data ?? "")
    const text = Buffer.from((payload === null ? null : this.#textOf(payload)) ?? "")
    if (text.byteLength === 0 || !text.every(isPlain)) return false
    this.#lessons += 1
    const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const at = whole.indexOf(`"${text}"`) + 1
    const head = whole.subarray(0, at)
    const foot = whole.subarray(at + text.byteLength)
    if (at === 0 || !this.#isTextBetween(head, foot, text)) return false
    this.#text = { head: new Uint8Array(head), foot: new Uint8Array(foot) }
    return true
  }

  /** Learns a parsed event without output and valid usage. The same event again changes nothing. */
  learnIdle({ parts }: SseEvent): void {
    const [bytes] = parts
    if (!this.#has_idle) {
      this.#has_idle = true
      return
    }
    if (this.#idle_lessons === MAX_LESSONS || bytes === undefined || parts.length > 1) return
    // A byte order mark counts only where a stream begins.
    if (bytes.byteLength > MAX_EVENT_BYTES || bytes.at(-1) !== LF || bytes[0] === BOM) return
    this.#idle_lessons += 1
    this.#idle = new Uint8Array(bytes)
  }

  /** True if the output is any text between these two parts. Tested with a longer text. */
  #isTextBetween(head: Uint8Array, foot: Uint8Array, text: Uint8Array): boolean {
    const longer = Buffer.concat([head, text, ONE_MORE, foot])
    const payload = parsePayload(readData(longer, false) ?? "")
    return payload !== null && this.#outputBytes(payload) === text.byteLength + ONE_MORE.byteLength
  }

  /** The known events from `start` on: either all idle, or all with text. */
  follow(chunk: Uint8Array, start: number): Recurrence | null {
    let end = start
    if (this.#idle !== null) while (isAt(chunk, end, this.#idle)) end += this.#idle.byteLength
    return end > start ? { end, output_bytes: 0 } : this.#followText(chunk, start)
  }

  /** Events that differ from the learned one only in their text. */
  #followText(chunk: Uint8Array, start: number): Recurrence | null {
    if (this.#text === null) return null
    const { head, foot } = this.#text
    let end = start
    let output_bytes = 0
    while (isAt(chunk, end, head)) {
      const from = end + head.byteLength
      let to = from
      while (isPlain(chunk[to])) to++
      // Without a text another field may count, such as the second name for reasoning.
      if (to === from || !isAt(chunk, to, foot)) break
      output_bytes += to - from
      end = to + foot.byteLength
    }
    return end === start ? null : { end, output_bytes }
  }
}

/** True if the chunk has these bytes at `start`. A loop, because a native comparison takes longer for so few bytes. */
function isAt(chunk: Uint8Array, start: number, bytes: Uint8Array): boolean {
  if (start + bytes.byteLength > chunk.byteLength) return false
  for (let at = 0; at < bytes.byteLength; at++) if (chunk[start + at] !== bytes[at]) return false
  return true
}
