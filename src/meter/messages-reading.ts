import { ANY_USAGE, type Counted, count, type Expected, type UsageRules, usageIn } from "../usage/reading.ts"
import { StreamUsage } from "../usage/stream-usage.ts"
import type { Ending } from "../wire/call.ts"
import { isMissing, isObject, type JsonObject, objectOf, readServiceTier } from "../wire/usage.ts"
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
} from "./reading.ts"
import { Repetition } from "./repetition.ts"
import type { Recurring, SseEvent } from "./sse.ts"

const USAGE: EventKind = { ...EMPTY, trusted_usage: true, with_usage: true }
const OUTPUT_AND_USAGE: EventKind = { ...OUTPUT, trusted_usage: true, with_usage: true }

/** Usage that counts the output of a message: without a number of searches there were none (D64). */
export const WHOLE_MESSAGE: Expected = { output: true, searches: 0 }
const INPUT_ONLY: Expected = { output: false }

/** Reads a stream of the messages family, which `message_stop` ends (D64). */
export class MessagesReading implements StreamReading {
  readonly #rules: UsageRules
  readonly #usage: StreamUsage
  readonly #repetition = new Repetition(eventText, eventBytes)
  #output_bytes = 0
  #service_tier: string | undefined
  /** Whether the usage counts output, and the output up to that event. */
  #counts_output = false
  #counted_bytes = 0
  /** The message has its `stop_reason`. */
  #stopped = false
  #done = false
  #error = false

  constructor(rules: UsageRules = ANY_USAGE) {
    this.#rules = rules
    this.#usage = new StreamUsage(rules)
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
    this.#service_tier = large.service_tier
    return this.#keep(usageIn(large.members, this.#rules), true) || this.#output_bytes > 0
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
    return {
      shape: "stream",
      ending,
      usage: this.#usage.reading,
      usage_final: this.usage_final,
      output_bytes: this.#output_bytes,
      output_bytes_after_usage:
        this.#usage.reading.state === "valid" ? this.#output_bytes - this.#counted_bytes : 0,
      error: this.#error,
      service_tier: this.#service_tier,
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

  /** Takes the usage of an event. Returns whether it is valid with the earlier one; if not, that is kept (D4). */
  #fold(said: unknown, with_output: boolean): boolean {
    if (isMissing(said)) return false
    this.#service_tier = readServiceTier({ usage: said }) ?? this.#service_tier
    const counted = isObject(said) ? count(said, this.#rules) : null
    if (counted === null) return this.#keep("invalid", false)
    const counts_output = with_output && counted.counts.output !== undefined
    return this.#keep(with_output ? counted : withoutOutput(counted), counts_output)
  }

  #keep(counted: Counted | "missing" | "invalid", counts_output: boolean): boolean {
    const expected = this.#counts_output || counts_output ? WHOLE_MESSAGE : INPUT_ONLY
    if (!this.#usage.take(counted, expected, true)) return false
    if (counts_output) {
      this.#counts_output = true
      this.#counted_bytes = this.#output_bytes
    }
    return true
  }
}

/** `message_start` has only begun to count the output. */
function withoutOutput({ counts: { output, reasoning, ...counts }, ...counted }: Counted): Counted {
  return { ...counted, counts }
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
