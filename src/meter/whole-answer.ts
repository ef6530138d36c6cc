import { catalogue } from "../errors.ts"
import { encoded, joined } from "../wire/buffers.ts"
import { type NextTurn, slices } from "../wire/shape.ts"
import { readInto } from "./body.ts"
import { decode } from "./json-reading.ts"
import type { LargeAnswer } from "./large-answer.ts"
import { isWithinInTurns, type Payload, parseObject, parsePrintable } from "./payload.ts"
import type { RelayOptions } from "./relay-options.ts"

/** A larger answer is converted in several turns of the event loop. */
const LARGE_BYTES = 65_536
const OPEN_OBJECT = 0x7b
/** The answer, its text, its value and its events are in memory together. */
const COPIES = 4
/** White space, and the bytes of a byte order mark. */
const BLANK: ReadonlySet<number | undefined> = new Set([0x09, 0x0a, 0x0d, 0x20, 0xef, 0xbb, 0xbf])

const NOTHING = new Uint8Array()

/** True if the first byte after white space opens an object; undefined if there is only white space. */
export function beginsAsObject(bytes: Uint8Array): boolean | undefined {
  let at = 0
  while (BLANK.has(bytes[at])) at += 1
  return at === bytes.byteLength ? undefined : bytes[at] === OPEN_OBJECT
}

/** Its sizes, memory and readers. Over `response_bytes` it is not kept, but read up to `response_read_bytes` (D5). */
type WholeOptions = Pick<RelayOptions, "sizes" | "memory" | "form" | "json" | "turn">

/** The error for an answer over the limit, in the form of a provider's error event. */
export const TOO_LARGE = JSON.stringify({
  error: { message: catalogue.response_too_large.message, code: "response_too_large" },
})

/** A JSON object in answer to a stream request. It is collected and sent as equivalent events (D29). */
export class WholeAnswer {
  readonly #options: WholeOptions
  #chunks: Uint8Array[] = []
  #size = 0
  /** The part that was read of an answer over the limit or the bounds of D41; null for one that is kept. */
  large: LargeAnswer | null = null
  /** The equivalent events, after `makeEvents`; none if the object is malformed. */
  events: Uint8Array = NOTHING

  private constructor(options: WholeOptions) {
    this.#options = options
  }

  /** Collects a body if `chunk` shows an object; null for an event stream, undefined after only white space. */
  static begin(chunk: Uint8Array, options: WholeOptions): WholeAnswer | null | undefined {
    const is_object = beginsAsObject(chunk)
    return is_object === true ? new WholeAnswer(options) : is_object === false ? null : undefined
  }

  take(chunk: Uint8Array): void {
    this.#size += chunk.byteLength
    if (this.large === null) this.#chunks.push(chunk)
    else this.large.take(chunk)
  }

  /**
   * Waits for the memory of the received part (D77). Without it, the answer is read like one over the limit. Resolves
   * with false if no more is wanted.
   */
  async keep(): Promise<boolean> {
    const { sizes, memory, json } = this.#options
    if (this.large !== null) return this.#size <= sizes.response_read_bytes
    const room = this.#size <= sizes.response_bytes ? memory.hold(COPIES * this.#size) : false
    if (room === null || (await room)) return true
    this.large = await readInto(json.openLarge(), this.#chunks)
    this.#chunks = []
    memory.hold(0)
    return true
  }

  /** Converts the whole answer into events, in several turns of the event loop, so that a large one does not delay other calls. */
  async makeEvents(): Promise<void> {
    if (this.large !== null) return
    this.#options.memory.stop()
    const bytes = joined(this.#chunks)
    this.#chunks = []
    const is_large = bytes.byteLength > LARGE_BYTES
    const turn = () => this.#options.turn()
    const payload = await (is_large ? readPrintable(bytes, turn) : parsePrintable(decode(bytes) ?? ""))
    if (payload === null) return
    if (payload === "unread") {
      this.large = this.#options.json.openLarge()
      for await (const slice of slices(bytes, turn)) this.large.take(slice)
      return
    }
    const text = this.#options.form.eventsOf(payload)
    if (is_large) await turn()
    this.events = encoded(text)
    if (is_large) await turn()
  }
}

/** Reads a large answer that is printed again, in several turns of the event loop. */
async function readPrintable(bytes: Uint8Array, turn: NextTurn): Promise<Payload> {
  if (!(await isWithinInTurns(bytes, turn))) return "unread"
  const text = decode(bytes)
  await turn()
  const payload = parseObject(text ?? "")
  await turn()
  return payload
}
