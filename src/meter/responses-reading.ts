import { ANY_USAGE, readUsage, type UsageRules } from "../usage/reading.ts"
import { isMissing, isObject, type JsonObject, readServiceTier, type UsageReading } from "../wire/usage.ts"
import { EventReading } from "./event-reading.ts"
import { EMPTY, type EventKind, isUsable, OUTPUT, reportsError } from "./reading.ts"
import { Repetition } from "./repetition.ts"
import { ResponsesOutput, type ToolRuns } from "./responses-output.ts"
import type { SseEvent } from "./sse.ts"

const ERROR: EventKind = { kind: "error", trusted_usage: false, shown: true }
/** A stream that ends without its last event. */
const ENDLESS: EventKind = { ...ERROR, shown: false }

/** The events that end a stream, and hold its usage. */
const LAST: ReadonlySet<unknown> = new Set(["response.completed", "response.incomplete", "response.failed"])

/** Reads a stream of response events (D66), which one of three events ends. */
export class ResponsesReading extends EventReading {
  protected readonly later_bytes = 0
  protected usage: UsageReading = { state: "missing" }
  readonly #rules: UsageRules
  readonly #output = new ResponsesOutput()
  /** Counts the bytes of recurring events. */
  #addRecurring: ((bytes: number) => void) | null = null
  /** Whether the stream ended without its last event. */
  #is_endless = false

  constructor(rules: UsageRules = ANY_USAGE) {
    super(new Repetition(deltaOf, addedBytes))
    this.#rules = rules
  }

  /** A stream is complete only with its last event. */
  get answered(): boolean {
    return this.done && !this.error
  }

  get paused(): boolean {
    return this.#output.paused
  }

  get usage_final(): boolean {
    return isUsable(this.usage, this.#output.bytes)
  }

  protected get output_bytes(): number {
    return this.#output.bytes
  }

  protected override get over(): boolean {
    return this.#is_endless || super.over
  }

  protected addRecurring(bytes: number): void {
    this.#addRecurring?.(bytes)
  }

  protected override learn(event: SseEvent): boolean {
    const { last } = this.#output
    if (last === null || !super.learn(event)) return false
    this.#addRecurring = last
    return true
  }

  /** A text may be a snapshot; only its new part counts. */
  protected override shorten(): null {
    return null
  }

  protected addLarge(output_bytes: number, { usage }: JsonObject): boolean {
    this.#is_endless = true
    this.#output.bytes += output_bytes
    this.usage = readUsage(usage, this.#rules)
    return this.usage.state === "valid"
  }

  /** This API has no `[DONE]`. A `[DONE]` before the last event ends the stream as incomplete. */
  protected readDone(): EventKind {
    this.#is_endless = true
    return ENDLESS
  }

  protected readPayload(payload: JsonObject): EventKind {
    if (LAST.has(payload.type)) return this.#readLast(payload)
    if (payload.type === "error" || reportsError(payload)) {
      this.fail()
      return ERROR
    }
    if (isObject(payload.response)) this.service_tier ??= readServiceTier(payload.response)
    return this.#output.take(payload) > 0 ? OUTPUT : EMPTY
  }

  #readLast(payload: JsonObject): EventKind {
    this.done = true
    const failed = payload.type === "response.failed"
    if (failed) this.error = true
    const output = this.#output.take(payload) > 0
    const response = isObject(payload.response) ? payload.response : {}
    this.usage = responseUsage(response, this.#rules, this.#output.runs)
    // That of the last event if it has one, otherwise the first one.
    this.service_tier = readServiceTier(response) ?? this.service_tier
    return { kind: "done", output, trusted_usage: this.usage.state === "valid", failed, shown: true }
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
