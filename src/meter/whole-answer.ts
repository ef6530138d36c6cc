import { catalogue } from "../errors.ts"
import { joined } from "../wire/buffers.ts"
import { nextTurn, Shape, SLICE_BYTES, slices } from "../wire/shape.ts"
import type { JsonObject } from "../wire/usage.ts"
import { decode } from "./json-reading.ts"
import type { LargeAnswer } from "./large-answer.ts"
import { EVENT_BOUNDS, parseObject, parsePrintable } from "./output.ts"
import type { RelayOptions } from "./relay-options.ts"

const OPEN_OBJECT = 0x7b
/** White space, and the bytes of a byte order mark. */
const BLANK: ReadonlySet<number | undefined> = new Set([0x09, 0x0a, 0x0d, 0x20, 0xef, 0xbb, 0xbf])

const encoder = new TextEncoder()
const NOTHING = new Uint8Array()

/** True if the first byte that is not white space opens an object; undefined if there is only white space. */
export function beginsAsObject(bytes: Uint8Array): boolean | undefined {
  let at = 0
  while (BLANK.has(bytes[at])) at += 1
  return at === bytes.byteLength ? undefined : bytes[at] === OPEN_OBJECT
}

/** Its sizes and readers. Over `response_bytes` it is not kept, but read up to `response_read_bytes` (D5). */
type WholeOptions = Pick<RelayOptions, "sizes" | "form" | "json">

/** The error for an answer over the limit, in the form of a provider's error event. */
export const TOO_LARGE = JSON.stringify({
  error: { message: catalogue.response_too_large.message, code: "response_too_large" },
})

/** A JSON object in answer to a stream request. It is collected and sent as equivalent events (D29). */
export class WholeAnswer {
  readonly #options: WholeOptions
  #chunks: Uint8Array[] = []
  #size = 0
  #large: LargeAnswer | null = null
  #events: Uint8Array = NOTHING

  private constructor(options: WholeOptions) {
    this.#options = options
  }

  /** Collects a body if `chunk` shows an object; null for an event stream, undefined after only white space. */
  static begin(chunk: Uint8Array, options: WholeOptions): WholeAnswer | null | undefined {
    const is_object = beginsAsObject(chunk)
    return is_object === true ? new WholeAnswer(options) : is_object === false ? null : undefined
  }

  /** An answer over the limit, as far as it was read; null for one that is kept. */
  get large(): LargeAnswer | null {
    return this.#large
  }

  /** Takes a chunk. Returns whether more is wanted. */
  take(chunk: Uint8Array): boolean {
    this.#size += chunk.byteLength
    if (this.#large !== null) this.#large.take(chunk)
    else if (this.#chunks.push(chunk) > 0 && this.#size > this.#options.sizes.response_bytes) {
      this.#large = this.#options.json.openLarge()
      for (const kept of this.#chunks) this.#large.take(kept)
      this.#chunks = []
    }
    return this.#large === null || this.#size <= this.#options.sizes.response_read_bytes
  }

  /** The equivalent events, after `makeEvents`; none if the object is malformed. */
  get events(): Uint8Array {
    return this.#events
  }

  /** Converts the whole answer into events, in several turns of the event loop, so that a large one does not delay other calls. */
  async makeEvents(): Promise<void> {
    if (this.#large !== null) return
    const bytes = joined(this.#chunks)
    this.#chunks = []
    const payload = await readPrintable(bytes)
    if (payload === null) return
    const text = this.#options.form.eventsOf(payload)
    if (bytes.byteLength > SLICE_BYTES) await nextTurn()
    this.#events = encoder.encode(text)
    if (bytes.byteLength > SLICE_BYTES) await nextTurn()
  }
}

/** `parsePrintable` in several turns of the event loop for a large payload. */
async function readPrintable(bytes: Uint8Array): Promise<JsonObject | null> {
  if (bytes.byteLength <= SLICE_BYTES) return parsePrintable(decode(bytes) ?? "")
  const shape = new Shape()
  for await (const slice of slices(bytes)) {
    shape.take(slice)
    if (shape.excess(EVENT_BOUNDS) !== null) return null
  }
  const text = decode(bytes)
  await nextTurn()
  const payload = parseObject(text ?? "")
  await nextTurn()
  return payload
}
