import type { Ending } from "../wire/call.ts"
import { mergeUsage, readMessagesUsage } from "../wire/messages-usage.ts"
import {
  isMissing,
  isObject,
  type JsonObject,
  NO_LIMITS,
  objectOf,
  readServiceTier,
  type UsageLimits,
  type UsageReading,
} from "../wire/usage.ts"
import type { LargeAnswer, LargeOutput, Place } from "./large-answer.ts"
import { type Abridged, abridge } from "./long-text.ts"
import { countedBytes, parsePayload, valueBytes } from "./output.ts"
import {
  DONE,
  EMPTY,
  type EventKind,
  NOTHING,
  OUTPUT,
  reportsError,
  type StreamEvidence,
  type StreamReading,
  UsageFaults,
} from "./reading.ts"
import { Repetition } from "./repetition.ts"
import type { Recurring, SseEvent } from "./sse.ts"

const USAGE: EventKind = { ...EMPTY, trusted_usage: true }
const OUTPUT_AND_USAGE: EventKind = { ...OUTPUT, trusted_usage: true }

/** Reads a stream of the messages family, which `message_stop` ends (D64). */
export class MessagesReading implements StreamReading {
  readonly #limits: UsageLimits
  readonly #repetition = new Repetition(eventText, eventBytes)
  #output_bytes = 0
  /** The valid usage so far; later fields replace earlier ones. */
  #said: JsonObject = {}
  #usage: Extract<UsageReading, { state: "valid" }> | null = null
  /** Whether the usage counts output, and the output up to that event. */
  #counts_output = false
  #counted_bytes = 0
  readonly #faults = new UsageFaults()
  /** The message has its `stop_reason`. */
  #stopped = false
  #done = false
  #error = false

  /** `limits` is what the request can have caused (D1). */
  constructor(limits: UsageLimits = NO_LIMITS) {
    this.#limits = limits
  }

  get recurring(): Recurring {
    return this.#repetition
  }

  take(event: SseEvent): EventKind {
    if (this.#done || this.#error) return NOTHING
    if (event.recurring_bytes !== null) {
      this.#output_bytes += event.recurring_bytes
      return event.recurring_bytes > 0 ? OUTPUT : EMPTY
    }
    const long = abridge(event)
    const read = long === null ? this.#read(event.data) : this.#readPayload(long.payload, long)
    if (read === OUTPUT) this.#repetition.learn(event)
    if (read === NOTHING || read === EMPTY) this.#repetition.learnIdle(event)
    return read
  }

  takeLarge(large: LargeAnswer): boolean {
    if (!large.object) return false
    large.stop()
    this.#output_bytes += large.output_bytes
    this.#said = { service_tier: large.service_tier }
    const usage = this.#faults.note(large.usage(this.#limits))
    if (usage.state === "valid") this.#keep(usage, true)
    return usage.state === "valid" || this.#output_bytes > 0
  }

  fail(): void {
    this.#error = true
  }

  get answered(): boolean {
    return this.#stopped
  }

  get paused(): boolean {
    return this.#stopped
  }

  get done(): boolean {
    return this.#done
  }

  get usage_final(): boolean {
    return this.#stopped && this.#counts_output && this.#counted_bytes === this.#output_bytes
  }

  evidence(ending: Ending): StreamEvidence {
    const service_tier = readServiceTier({ usage: this.#said })
    return {
      shape: "stream",
      ending,
      usage: this.#usage ?? { state: this.#faults.state },
      implausible: this.#faults.implausible,
      usage_final: this.usage_final,
      output_bytes: this.#output_bytes,
      output_bytes_after_usage: this.#usage === null ? 0 : this.#output_bytes - this.#counted_bytes,
      error: this.#error,
      service_tier,
    }
  }

  #read(data: string | null): EventKind {
    const payload = data === null ? null : parsePayload(data)
    return payload === null ? NOTHING : this.#readPayload(payload)
  }

  /** `long`: the payload is of this event, without its long text. */
  #readPayload(payload: JsonObject, long: Abridged | null = null): EventKind {
    if (reportsError(payload)) {
      this.#error = true
      return { kind: "error", trusted_usage: this.#fold(payload.usage, true), shown: false }
    }
    const { type, delta, message, usage } = payload
    if (type === "message_stop") {
      this.#done = true
      return DONE
    }
    const bytes = long?.bytes(eventBytes) ?? eventBytes(payload)
    this.#output_bytes += bytes
    const is_told =
      type === "message_start"
        ? this.#fold(objectOf(message).usage, false)
        : type === "message_delta" && this.#fold(usage, true)
    if (type === "message_delta") this.#stopped ||= isText(objectOf(delta).stop_reason)
    if (is_told) return bytes > 0 ? OUTPUT_AND_USAGE : USAGE
    return bytes > 0 ? OUTPUT : EMPTY
  }

  /** Merges the usage of an event. Returns whether the result is valid; if not, the earlier usage is kept (D4). */
  #fold(said: unknown, with_output: boolean): boolean {
    if (isMissing(said)) return false
    if (!isObject(said)) {
      this.#faults.note({ state: "invalid" })
      return false
    }
    const merged = mergeUsage(this.#said, said)
    const counts_here = with_output && !isMissing(said.output_tokens)
    const usage = this.#faults.note(
      readMessagesUsage(merged, this.#limits, this.#counts_output || counts_here),
    )
    if (usage.state !== "valid") return false
    this.#said = merged
    this.#keep(usage, counts_here)
    return true
  }

  #keep(usage: Extract<UsageReading, { state: "valid" }>, counts_output: boolean): void {
    this.#usage = usage
    if (!counts_output) return
    this.#counts_output = true
    this.#counted_bytes = this.#output_bytes
  }
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== ""
}

/** UTF-8 bytes of the output (D7, D64) in a whole message: what the model said in its blocks. */
export function messageBytes({ content }: JsonObject): number {
  if (typeof content === "string") return Buffer.byteLength(content)
  if (!Array.isArray(content)) return 0
  return content.reduce((bytes: number, block: unknown) => bytes + blockBytes(block), 0)
}

/**
 * The same for one event of a stream of any type: in `delta`, in `content_block`, and in the `content` of `message`.
 * Results of the provider's tools and citations are not output.
 */
export function eventBytes({ type, delta, content_block, message }: JsonObject): number {
  let bytes = content_block === undefined ? 0 : blockBytes(content_block)
  if (isObject(message)) bytes += messageBytes(message)
  if (!isObject(delta)) return bytes + valueBytes("delta", delta)
  if (delta.type === "citations_delta") return bytes
  return bytes + valueBytes("delta", type === "message_delta" ? withoutEnd(delta) : delta)
}

/** The fields of a `message_delta` that describe the end of the message are not output. */
function withoutEnd({
  stop_reason,
  stop_sequence,
  stop_details,
  container,
  ...said
}: JsonObject): JsonObject {
  return said
}

function blockBytes(block: unknown): number {
  if (!isObject(block)) return valueBytes("content", block)
  const { type, citations, ...said } = block
  return typeof type === "string" && type.endsWith("_tool_result") ? 0 : valueBytes("content", said)
}

/** The text of an event with exactly one text; null for any other event. */
export function eventText({ delta }: JsonObject): string | null {
  if (!isObject(delta)) return null
  const { text, thinking, partial_json } = delta
  const said = [text, thinking, partial_json].find((value) => typeof value === "string" && value !== "")
  return typeof said === "string" ? said : null
}

/** The depth of a field of a block: `content`, the index, the field. */
const FIELD_DEPTH = 3

/** Counts the output of a message that is too large to keep: the content of its blocks. */
export class MessagesLargeOutput implements LargeOutput {
  bytes = 0

  readsKeys({ depth, keys }: Place): boolean {
    return depth >= FIELD_DEPTH && keys[0] === "content"
  }

  take({ depth, keys, lists, name }: Place, bytes: number): void {
    if (keys[0] === "content" && lists[1] === true && depth >= FIELD_DEPTH)
      this.bytes += countedBytes(name, bytes)
  }
}
