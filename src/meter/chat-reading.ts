import { ANY_USAGE, type Counted, type UsageRules, usageIn, WITH_OUTPUT } from "../usage/reading.ts"
import { StreamUsage } from "../usage/stream-usage.ts"
import type { Ending } from "../wire/call.ts"
import { isMissing, isObject, type JsonObject, readServiceTier } from "../wire/usage.ts"
import type { LargeAnswer, LargeOutput, Place } from "./large-answer.ts"
import { type Abridged, abridge } from "./long-text.ts"
import { choicesOf, countedBytes, outputBytes, parsePayload, REASONING } from "./output.ts"
import {
  DONE,
  EMPTY,
  type EventKind,
  isUsable,
  NOTHING,
  OUTPUT,
  reportsError,
  type StreamEvidence,
  type StreamReading,
} from "./reading.ts"
import { Repetition } from "./repetition.ts"
import type { Recurring, SseEvent } from "./sse.ts"

/** Reads a stream of chat chunks, which `[DONE]` ends. */
export class ChatReading implements StreamReading {
  readonly #choices: Choices
  readonly #rules: UsageRules
  readonly #usage: StreamUsage
  readonly #repetition = new Repetition(textOf, outputBytes)
  #output_bytes = 0
  /** Output up to the last valid usage; null before there is any. */
  #counted_bytes: number | null = null
  /** Output up to the last usage in the place of final usage (D4). */
  #closed_bytes = -1
  /** Output in whole messages, each of which repeats what deltas said before. */
  readonly #snapshots = new Map<number, number>()
  #done = false
  #error = false
  /** The first one, so that recurring events need not be read for it. */
  #service_tier: string | undefined

  /** `requested` is how many choices the request asks for (D12). */
  constructor(requested = 1, rules: UsageRules = ANY_USAGE) {
    this.#choices = new Choices(requested)
    this.#rules = rules
    this.#usage = new StreamUsage(rules)
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
    if (read.kind === "chunk" && read.output && !read.with_usage) this.#repetition.learn(event)
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
    this.#service_tier ??= readServiceTier(payload)
    if (reportsError(payload)) {
      this.#error = true
      return { kind: "error", trusted_usage: this.#count(payload, true), shown: false }
    }
    const choices = choicesOf(payload)
    for (const [place, choice] of choices.entries()) this.#choices.note(choice, place)
    const output_bytes = this.#newBytes(choices, long?.bytes(outputBytes) ?? outputBytes(payload))
    this.#output_bytes += output_bytes
    const closing =
      choices.length === 0 || this.#choices.finished || this.#closed_bytes === this.#output_bytes
    const trusted_usage = this.#count(payload, closing)
    const with_usage = hasUsage(payload, choices)
    return {
      kind: "chunk",
      output: output_bytes > 0,
      trusted_usage,
      with_usage,
      usage_only: with_usage && output_bytes === 0 && choices.every((choice) => this.#saysNothing(choice)),
      final_usage: trusted_usage && closing,
    }
  }

  /** Whether a choice without output only fills a list. SDKs need its role once. */
  #saysNothing({ finish_reason, delta }: JsonObject): boolean {
    const is_first = isObject(delta) && typeof delta.role === "string" && this.#output_bytes === 0
    return isMissing(finish_reason) && !is_first
  }

  /** Reads the usage of a payload. Returns whether it is valid. `closing`: it is in the place of final usage (D4). */
  #count(payload: JsonObject, closing: boolean): boolean {
    return this.#keep(usageIn(payload, this.#rules), closing)
  }

  #keep(counted: Counted | "missing" | "invalid", closing: boolean): boolean {
    if (!this.#usage.take(counted, WITH_OUTPUT, false)) return false
    // After other usage, 0/0 erases nothing and counts no output (D2).
    if (this.#counted_bytes !== null && isPlaceholder(counted)) return true
    this.#counted_bytes = this.#output_bytes
    if (closing) this.#closed_bytes = this.#output_bytes
    return true
  }

  /** What a chunk adds to the output: a whole `message` after its deltas repeats them (D7). */
  #newBytes(choices: readonly JsonObject[], bytes: number): number {
    if (!choices.some(isSnapshot)) return bytes
    for (const [place, choice] of choices.entries()) {
      if (!isSnapshot(choice) || this.#snapshots.size >= MAX_CHOICES) continue
      const said = choices.length === 1 ? bytes : outputBytes({ choices: [choice] })
      this.#snapshots.set(indexOf(choice, place), said)
    }
    const whole = [...this.#snapshots.values()].reduce((sum, one) => sum + one, 0)
    return Math.max(0, whole - this.#output_bytes)
  }

  /** Reads an object over the limit, as far as it came (D5, D29). Returns whether it has evidence. */
  takeLarge(large: LargeAnswer): boolean {
    if (!large.object) return false
    large.stop()
    this.#output_bytes += large.output_bytes
    this.#service_tier ??= large.service_tier
    return this.#keep(usageIn(large.members, this.#rules), true) || this.#output_bytes > 0
  }

  /**
   * Whether a clean end of the body now is a `completed` stream (D8): every requested choice has its finish_reason, or all
   * that began have it and the usage is final, because a provider may ignore `n`.
   */
  get answered(): boolean {
    return this.#choices.finished || (this.#choices.paused && this.usage_final)
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
    return this.#closed_bytes === this.#output_bytes && isUsable(this.#usage.reading, this.#output_bytes)
  }

  /** What was delivered, if the stream ends now with `ending`. */
  evidence(ending: Ending): StreamEvidence {
    return {
      shape: "stream",
      ending,
      usage: this.#usage.reading,
      usage_final: this.usage_final,
      output_bytes: this.#output_bytes,
      output_bytes_after_usage: this.#output_bytes - (this.#counted_bytes ?? this.#output_bytes),
      error: this.#error,
      service_tier: this.#service_tier,
    }
  }
}

/** A request may ask for 128 choices (D12). */
const MAX_CHOICES = 128

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

  note(choice: JsonObject, place: number): void {
    if (this.finished) return
    const { finish_reason } = choice
    const key = indexOf(choice, place)
    if (typeof finish_reason === "string" && finish_reason !== "") {
      this.#unfinished.delete(key)
      this.#finished.add(key)
    } else if (!this.#finished.has(key) && this.#unfinished.size < MAX_CHOICES) this.#unfinished.add(key)
  }
}

/** Its index; `place` in the event's list stands in for one that is missing or is none. */
function indexOf({ index }: JsonObject, place: number): number {
  return typeof index === "number" && Number.isSafeInteger(index) && index >= 0 ? index : place
}

function isPlaceholder(counted: Counted | "missing" | "invalid"): boolean {
  return typeof counted !== "string" && counted.counts.prompt === 0 && counted.counts.output === 0
}

/** Whether a choice of a chunk has a whole message in place of a delta. */
function isSnapshot({ delta, message }: JsonObject): boolean {
  return isMissing(delta) && isObject(message)
}

/** Whether there is a usage object in one of its places (D87). */
function hasUsage({ usage, x_groq }: JsonObject, choices: readonly JsonObject[]): boolean {
  return (
    isObject(usage) ||
    choices.some((choice) => isObject(choice.usage)) ||
    (isObject(x_groq) && isObject(x_groq.usage))
  )
}

/** Whether an equal event changes nothing: its choices and its invalid usage are already known. */
function provesNothing(read: EventKind): boolean {
  return read.kind === "nothing" || (read.kind === "chunk" && !read.output && !read.with_usage)
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
