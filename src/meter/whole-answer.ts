import { catalogue } from "../errors.ts"
import { isObject, type JsonObject } from "../wire/usage.ts"
import { decode } from "./json-reading.ts"
import { LargeAnswer } from "./large-answer.ts"
import { parsePayload } from "./output.ts"

const OPEN_OBJECT = 0x7b
/** White space, and the bytes of a byte order mark. */
const BLANK: ReadonlySet<number | undefined> = new Set([0x09, 0x0a, 0x0d, 0x20, 0xef, 0xbb, 0xbf])

const encoder = new TextEncoder()

/** An answer over the first limit is not kept, but read on to the second (D5). */
interface WholeLimits {
  readonly response_bytes: number
  readonly response_read_bytes: number
}

/** What the client is shown in place of an answer over the limit, as a provider would say it. */
export const TOO_LARGE = JSON.stringify({
  error: { message: catalogue.response_too_large.message, code: "response_too_large" },
})

/** A JSON object in answer to a stream request: collected, and sent as one chunk event and `[DONE]` (D29). */
export class WholeAnswer {
  readonly #limits: WholeLimits
  #chunks: Uint8Array[] = []
  #size = 0
  #large: LargeAnswer | null = null

  private constructor(limits: WholeLimits) {
    this.#limits = limits
  }

  /**
   * A body that begins with `chunk`, if it is an object, whatever its label says: no line of an event stream begins
   * with a bracket. Null for an event stream, undefined while nothing but white space came.
   */
  static begin(chunk: Uint8Array, limits: WholeLimits): WholeAnswer | null | undefined {
    let at = 0
    while (BLANK.has(chunk[at])) at += 1
    if (at === chunk.byteLength) return undefined
    return chunk[at] === OPEN_OBJECT ? new WholeAnswer(limits) : null
  }

  /** What was read of an answer over the limit; null for one that is kept. */
  get large(): LargeAnswer | null {
    return this.#large
  }

  /** Whether more of it is wanted. */
  take(chunk: Uint8Array): boolean {
    this.#size += chunk.byteLength
    if (this.#large !== null) this.#large.take(chunk)
    else if (this.#chunks.push(chunk) > 0 && this.#size > this.#limits.response_bytes) {
      this.#large = new LargeAnswer()
      for (const kept of this.#chunks) this.#large.take(kept)
      this.#chunks = []
    }
    return this.#large === null || this.#size <= this.#limits.response_read_bytes
  }

  /** The events that it becomes; none when it is malformed. */
  events(): Uint8Array {
    const payload = parsePayload(decode(Buffer.concat(this.#chunks)) ?? "")
    return encoder.encode(
      payload === null ? "" : `data: ${JSON.stringify(chunkOf(payload))}\n\ndata: [DONE]\n\n`,
    )
  }
}

/** A chat completion as a chunk of a stream that says all of it. */
function chunkOf(completion: JsonObject): JsonObject {
  const { object, choices } = completion
  return {
    ...completion,
    ...(object === "chat.completion" && { object: "chat.completion.chunk" }),
    ...(Array.isArray(choices) && { choices: choices.map(choiceOf) }),
  }
}

function choiceOf(choice: unknown): unknown {
  if (!isObject(choice) || !isObject(choice.message)) return choice
  const { message, ...rest } = choice
  return { ...rest, delta: deltaOf(message) }
}

/** Calls of tools have their place in the list, by which clients put them together. */
function deltaOf(message: JsonObject): JsonObject {
  const { tool_calls } = message
  if (!Array.isArray(tool_calls)) return message
  const calls = tool_calls.map((call: unknown, index) => (isObject(call) ? { index, ...call } : call))
  return { ...message, tool_calls: calls }
}
