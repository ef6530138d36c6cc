import { ANY_USAGE, readUsage, type UsageRules } from "../usage/reading.ts"
import type { Ending } from "../wire/call.ts"
import { isMissing, isObject, type JsonObject, readServiceTier, type UsageReading } from "../wire/usage.ts"
import type { LargeAnswer } from "./large-answer.ts"
import { parsePayload } from "./output.ts"
import {
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
import { ResponsesOutput, type ToolRuns } from "./responses-output.ts"
import type { Recurring, SseEvent } from "./sse.ts"

const ERROR: EventKind = { kind: "error", trusted_usage: false, shown: true }
/** A stream that ends without its last event. */
const ENDLESS: EventKind = { ...ERROR, shown: false }

/** The events that end a stream, and hold its usage. */
const LAST: ReadonlySet<unknown> = new Set(["response.completed", "response.incomplete", "response.failed"])

/** Reads a stream of response events (D66), which one of three events ends. */
export class ResponsesReading implements StreamReading {
  readonly #rules: UsageRules
  readonly #output = new ResponsesOutput()
  readonly #repetition = new Repetition(deltaOf, addedBytes)
  /** Counts the bytes of recurring events. */
  #addRecurring: ((bytes: number) => void) | null = null
  #usage: UsageReading = { state: "missing" }
  /** That of the last event if it has one, otherwise the first one. */
  #service_tier: string | undefined
  #done = false
  /** Whether the stream has ended; nothing more is read. */
  #over = false
  #error = false

  constructor(rules: UsageRules = ANY_USAGE) {
    this.#rules = rules
  }

  get recurring(): Recurring {
    return this.#repetition
  }

  take(event: SseEvent): EventKind {
    if (this.#over) return NOTHING
    if (event.recurring_bytes !== null) {
      this.#addRecurring?.(event.recurring_bytes)
      return event.recurring_bytes > 0 ? OUTPUT : EMPTY
    }
    const read = this.read(event.data)
    const { last } = this.#output
    // The same event once more changes nothing.
    if (read === NOTHING || read === EMPTY) this.#repetition.learnIdle(event)
    if (read.kind === "chunk" && read.output && last !== null && this.#repetition.learn(event))
      this.#addRecurring = last
    return read
  }

  /** Reads the payload of one event and returns its kind. */
  read(data: string | null): EventKind {
    if (data === null || this.#over) return NOTHING
    const payload = parsePayload(data)
    if (payload === null) return this.#readText(data)
    if (LAST.has(payload.type)) return this.#readLast(payload)
    if (payload.type === "error" || reportsError(payload)) {
      this.fail()
      return ERROR
    }
    if (isObject(payload.response)) this.#service_tier ??= readServiceTier(payload.response)
    return this.#output.take(payload) > 0 ? OUTPUT : EMPTY
  }

  /** This API has no `[DONE]`. A `[DONE]` before the last event ends the stream as incomplete. */
  #readText(data: string): EventKind {
    if (data.trim() !== "[DONE]") return NOTHING
    this.#over = true
    return ENDLESS
  }

  #readLast(payload: JsonObject): EventKind {
    this.#over = true
    this.#done = true
    const failed = payload.type === "response.failed"
    if (failed) this.#error = true
    const output = this.#output.take(payload) > 0
    const response = isObject(payload.response) ? payload.response : {}
    this.#usage = responseUsage(response, this.#rules, this.#output.runs)
    this.#service_tier = readServiceTier(response) ?? this.#service_tier
    return { kind: "done", output, trusted_usage: this.#usage.state === "valid", failed, shown: true }
  }

  takeLarge(large: LargeAnswer): boolean {
    if (!large.object) return false
    large.stop()
    this.#over = true
    this.#output.bytes += large.output_bytes
    this.#usage = readUsage(large.members.usage, this.#rules)
    this.#service_tier ??= large.service_tier
    return this.#usage.state === "valid" || this.#output.bytes > 0
  }

  /** A stream is complete only with its last event. */
  get answered(): boolean {
    return this.#done && !this.#error
  }

  get paused(): boolean {
    return this.#output.paused
  }

  fail(): void {
    this.#over = true
    this.#error = true
  }

  get done(): boolean {
    return this.#done
  }

  get usage_final(): boolean {
    return isUsable(this.#usage, this.#output.bytes)
  }

  evidence(ending: Ending): StreamEvidence {
    return {
      shape: "stream",
      ending,
      usage: this.#usage,
      usage_final: this.usage_final,
      output_bytes: this.#output.bytes,
      output_bytes_after_usage: 0,
      error: this.#error,
      service_tier: this.#service_tier,
    }
  }
}

/**
 * The usage of a response (D66). Some counts are beside it, in `tool_usage`. `runs` are the provider's tools that ran, by the
 * items of its output, for a usage that does not count them.
 */
export function responseUsage(
  { usage, tool_usage }: JsonObject,
  rules: UsageRules,
  { web_search = 0, ...runs }: ToolRuns,
): UsageReading {
  const whole = isMissing(tool_usage) || !isObject(usage) ? usage : { ...usage, tool_usage }
  return readUsage(whole, rules, {
    output: true,
    searches: web_search,
    ...(Object.keys(runs).length > 0 && { runs }),
  })
}

/** The text of a delta; null for any other event. */
function deltaOf(payload: JsonObject | null): string | null {
  if (payload === null || typeof payload.delta !== "string") return null
  return typeof payload.type === "string" && payload.type.endsWith(".delta") ? payload.delta : null
}

function addedBytes(payload: JsonObject): number {
  return new ResponsesOutput().take(payload)
}
