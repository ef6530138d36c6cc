import type { Ending } from "../wire/call.ts"
import {
  isObject,
  type JsonObject,
  NO_LIMITS,
  readServiceTier,
  readUsage,
  type UsageLimits,
  type UsageReading,
} from "../wire/usage.ts"
import type { LargeAnswer, LargeOutput, Place } from "./large-answer.ts"
import { type Abridged, abridge } from "./long-text.ts"
import { choicesOf, countedBytes, outputBytes, parsePayload, REASONING } from "./output.ts"
import {
  DONE,
  EMPTY,
  type EventKind,
  isZero,
  NOTHING,
  OUTPUT,
  reportsError,
  type StreamEvidence,
  type StreamReading,
  UsageFaults,
} from "./reading.ts"
import { Repetition } from "./repetition.ts"
import type { Recurring, SseEvent } from "./sse.ts"

/** A valid usage of a stream, and its place in the stream. */
interface SeenUsage {
  readonly reading: ValidUsage
  /** Whether it is in the place of final usage (D4). */
  readonly closing: boolean
  /** Output up to and including its event. */
  readonly output_bytes: number
}

type ValidUsage = Extract<UsageReading, { state: "valid" }>

/** Reads a stream of chat chunks, which `[DONE]` ends. */
export class ChatReading implements StreamReading {
  readonly #choices: Choices
  readonly #limits: UsageLimits
  readonly #repetition = new Repetition(textOf, outputBytes)
  #output_bytes = 0
  /** Output up to the last usage in the place of final usage. */
  #closed_bytes = -1
  /** The last valid usage other than 0/0. */
  #usage: SeenUsage | null = null
  /** The last 0/0, if it came after that. */
  #zero: SeenUsage | null = null
  readonly #faults = new UsageFaults()
  #done = false
  #error = false
  /** The first one, so that recurring events need not be read for it. */
  #service_tier: string | undefined

  /** `requested` is how many choices the request asks for (D12), `limits` what it can have caused (D1). */
  constructor(requested = 1, limits: UsageLimits = NO_LIMITS) {
    this.#choices = new Choices(requested)
    this.#limits = limits
  }

  /** Events that the stream has sent before, for the framer: equal events need not be read. */
  get recurring(): Recurring {
    return this.#repetition
  }

  /** Reads an event, or several that recur: with output, and nothing else that counts. */
  take(event: SseEvent): EventKind {
    // Before its data is asked for: what will not be read need not be decoded.
    if (this.#done || this.#error) return NOTHING
    if (event.recurring_bytes !== null) {
      this.#output_bytes += event.recurring_bytes
      return event.recurring_bytes > 0 ? OUTPUT : EMPTY
    }
    const long = abridge(event)
    const read = long === null ? this.read(event.data) : this.#readPayload(long.payload, long)
    if (read.kind === "chunk" && read.output && !read.trusted_usage) this.#repetition.learn(event)
    if (provesNothing(read)) this.#repetition.learnIdle(event)
    return read
  }

  /**
   * Reads the payload of one event and returns its kind. After `[DONE]` or an error everything is `nothing` (D4, D8).
   */
  read(data: string | null): EventKind {
    if (data === null || this.#done || this.#error) return NOTHING
    if (data.trim() === "[DONE]") {
      this.#done = true
      return DONE
    }
    const payload = parsePayload(data)
    return payload === null ? NOTHING : this.#readPayload(payload)
  }

  /** `long`: the payload is of this event, without its long text. */
  #readPayload(payload: JsonObject, long: Abridged | null = null): EventKind {
    if (reportsError(payload)) {
      this.#error = true
      const usage = this.#readUsage(payload)
      if (usage.state === "valid") this.#keep(usage, true)
      return { kind: "error", trusted_usage: usage.state === "valid", shown: false }
    }
    return this.#readChunk(payload, long?.bytes(outputBytes) ?? outputBytes(payload))
  }

  /** Reads an object over the limit, as far as it came (D5, D29). Returns whether it has evidence. */
  takeLarge(large: LargeAnswer): boolean {
    if (!large.object) return false
    large.stop()
    this.#output_bytes += large.output_bytes
    this.#service_tier ??= large.service_tier
    const usage = this.#faults.note(large.usage(this.#limits))
    if (usage.state === "valid") this.#keep(usage, true)
    return usage.state === "valid" || this.#output_bytes > 0
  }

  /** Whether every requested choice has its finish_reason: a clean end of the body now is a `completed` stream (D8). */
  get answered(): boolean {
    return this.#choices.finished
  }

  /**
   * Whether every choice that began has its finish_reason, so that the answer may be complete except for its usage
   * (D9).
   */
  get paused(): boolean {
    return this.#choices.paused
  }

  /** The provider failed without an error event. Nothing more is read. */
  fail(): void {
    this.#error = true
  }

  /** Whether `[DONE]` was read. */
  get done(): boolean {
    return this.#done
  }

  /** Whether the usage that counts is final (D4). */
  get usage_final(): boolean {
    return this.#isFinal(this.#counting())
  }

  /** What was delivered, if the stream ends now with `ending`. */
  evidence(ending: Ending): StreamEvidence {
    const counting = this.#counting()
    return {
      shape: "stream",
      ending,
      usage: counting?.reading ?? { state: this.#faults.state },
      implausible: this.#faults.implausible,
      usage_final: this.#isFinal(counting),
      output_bytes: this.#output_bytes,
      output_bytes_after_usage: counting === null ? 0 : this.#output_bytes - counting.output_bytes,
      error: this.#error,
      service_tier: this.#service_tier,
    }
  }

  #readChunk(payload: JsonObject, output_bytes: number): EventKind {
    const choices = choicesOf(payload)
    for (const [place, choice] of choices.entries()) this.#choices.note(choice, place)
    this.#output_bytes += output_bytes
    const usage = this.#readUsage(payload)
    const closing = choices.length === 0 || this.answered || this.#closed_bytes === this.#output_bytes
    if (usage.state === "valid") this.#keep(usage, closing)
    return {
      kind: "chunk",
      output: output_bytes > 0,
      trusted_usage: usage.state === "valid",
      usage_only: choices.length === 0 && isObject(payload.usage),
      final_usage: usage.state === "valid" && closing,
    }
  }

  #readUsage(payload: JsonObject): UsageReading {
    this.#service_tier ??= readServiceTier(payload)
    return this.#faults.note(readUsage(payload.usage, this.#limits))
  }

  #keep(reading: ValidUsage, closing: boolean): void {
    const seen: SeenUsage = { reading, closing, output_bytes: this.#output_bytes }
    if (closing) this.#closed_bytes = this.#output_bytes
    this.#zero = isZero(reading.usage) ? seen : null
    if (this.#zero === null) this.#usage = seen
  }

  /**
   * The usage that counts: the last valid one. Beside output a 0/0 is a placeholder, which erases nothing and is never
   * final (D2, D4).
   */
  #counting(): SeenUsage | null {
    if (this.#zero === null) return this.#usage
    if (this.#output_bytes === 0) return this.#zero
    return this.#usage ?? { ...this.#zero, closing: false }
  }

  #isFinal(usage: SeenUsage | null): boolean {
    return usage?.closing === true && usage.output_bytes === this.#output_bytes
  }
}

/** A request may ask for 128 choices (D12). */
const MAX_UNFINISHED = 128

/** Which choices of a stream have finished. */
class Choices {
  readonly #requested: number
  readonly #finished = new Set<number>()
  readonly #unfinished = new Set<number>()

  constructor(requested: number) {
    this.#requested = requested
  }

  /** Whether as many choices as were requested have their finish_reason. */
  get finished(): boolean {
    return this.#finished.size === this.#requested
  }

  /** Whether every choice that began has it, of those that are tracked, or as many as were requested. */
  get paused(): boolean {
    return this.finished || (this.#finished.size > 0 && this.#unfinished.size === 0)
  }

  /** `place` in the event's list stands in for an index that is missing or is none. */
  note({ index, finish_reason }: JsonObject, place: number): void {
    if (this.finished) return
    const key = typeof index === "number" && Number.isSafeInteger(index) && index >= 0 ? index : place
    if (typeof finish_reason === "string" && finish_reason !== "") {
      this.#unfinished.delete(key)
      this.#finished.add(key)
    } else if (!this.#finished.has(key) && this.#unfinished.size < MAX_UNFINISHED) this.#unfinished.add(key)
  }
}

/** Whether an equal event changes nothing: its choices and its invalid usage are already known. */
function provesNothing(read: EventKind): boolean {
  return (
    read.kind === "nothing" ||
    (read.kind === "chunk" && !read.output && !read.trusted_usage && !read.usage_only)
  )
}

/** The text of a chunk with one choice that has text; null for any other chunk. */
function textOf(payload: JsonObject): string | null {
  const [choice, ...others] = choicesOf(payload)
  if (choice === undefined || others.length > 0 || !isObject(choice.delta)) return null
  const { content, reasoning_content, reasoning } = choice.delta
  return said(content) ?? said(reasoning_content) ?? said(reasoning)
}

function said(text: unknown): string | null {
  return typeof text === "string" && text !== "" ? text : null
}

/** The depth of a field of a message: `choices`, the index, `message`, the field. */
const FIELD_DEPTH = 4

/** Counts the output of a chat completion: `choices[…].message` and below, or `choices[…].text`. */
export class ChatLargeOutput implements LargeOutput {
  #bytes = 0
  /** Bytes of reasoning by field name. The first name with any counts. */
  readonly #reasoning = new Map<string, number>()

  get bytes(): number {
    const reasoning = REASONING.map((name) => this.#reasoning.get(name) ?? 0)
    return this.#bytes + (reasoning.find((bytes) => bytes > 0) ?? 0)
  }

  /** The keys of a choice and within its message. */
  readsKeys({ depth, keys }: Place): boolean {
    if (depth < FIELD_DEPTH - 1 || keys[0] !== "choices") return false
    return depth === FIELD_DEPTH - 1 || keys[2] === "message" || keys[2] === "delta"
  }

  take({ depth, keys, lists, name }: Place, bytes: number): void {
    if (keys[0] !== "choices" || lists[1] !== true) return
    if (depth === FIELD_DEPTH - 1 && keys[2] === "text") this.#bytes += bytes
    if (depth < FIELD_DEPTH || (keys[2] !== "message" && keys[2] !== "delta")) return
    const counted = countedBytes(name, bytes)
    const field = keys[FIELD_DEPTH - 1] ?? ""
    if (REASONING.includes(field)) this.#reasoning.set(field, (this.#reasoning.get(field) ?? 0) + counted)
    else this.#bytes += counted
  }
}
