import {
  ANY_USAGE,
  type Expected,
  firstCounted,
  readUsage,
  type UsageRules,
  usagesOf,
  WITH_OUTPUT,
} from "../usage/reading.ts"
import {
  isMissing,
  isObject,
  type JsonObject,
  objectOf,
  readServiceTier,
  type UsageReading,
} from "../wire/usage.ts"
import { EventReading } from "./event-reading.ts"
import { DONE, EMPTY, ERROR, type EventKind, OUTPUT, reportsError } from "./reading.ts"
import { Repetition } from "./repetition.ts"
import { ResponsesOutput, type ToolRuns } from "./responses-output.ts"
import type { SseEvent } from "./sse.ts"

/** The events that end a stream, and hold its usage. */
const LAST: ReadonlySet<unknown> = new Set(["response.completed", "response.incomplete", "response.failed"])

/** Reads a stream of response events (D66), which one of three events ends. */
export class ResponsesReading extends EventReading {
  readonly #output = new ResponsesOutput()
  /** Counts the bytes of recurring events. */
  #addRecurring: ((bytes: number) => void) | null = null
  /** True if the stream ended without its last event. */
  #is_endless = false

  constructor(rules: UsageRules = ANY_USAGE) {
    super(new Repetition(deltaOf, addedBytes), rules)
  }

  /** A stream is complete only with its last event. */
  get answered(): boolean {
    return this.done && !this.error
  }

  get paused(): boolean {
    return this.#output.paused
  }

  protected override get over(): boolean {
    return this.#is_endless || super.over
  }

  protected override addRecurring(bytes: number): void {
    super.addRecurring(bytes)
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

  protected countLarge(members: JsonObject): boolean {
    this.#is_endless = true
    return this.#count(members.usage, WITH_OUTPUT)
  }

  /** This API has no `[DONE]`. A `[DONE]` before the last event ends the stream as incomplete. */
  protected readDone(): EventKind {
    this.#is_endless = true
    return ERROR
  }

  protected readPayload(payload: JsonObject): EventKind {
    const { type, response } = payload
    const is_last = LAST.has(type)
    if (!is_last && (type === "error" || reportsError(payload))) {
      this.fail()
      return { ...ERROR, shown: true }
    }
    const bytes = this.#output.take(payload)
    this.output_bytes += bytes
    // That of the last event if it has one, otherwise the first one.
    const tier = readServiceTier(objectOf(response))
    this.service_tier = is_last ? (tier ?? this.service_tier) : (this.service_tier ?? tier)
    if (!is_last) return bytes > 0 ? OUTPUT : EMPTY
    this.done = true
    const failed = type === "response.failed"
    if (failed) this.error = true
    const { usage, expected } = usageOf(objectOf(response), this.#output.runs)
    const trusted_usage = this.#count(usage, expected)
    return { ...DONE, output: bytes > 0, trusted_usage, failed, shown: true }
  }

  #count(usage: unknown, expected: Expected): boolean {
    this.counted_bytes = this.output_bytes
    this.closed_bytes = this.output_bytes
    return this.usage.take(firstCounted(usagesOf({ usage }), this.rules), expected, false)
  }
}

/** The usage of a response (D66). `runs` are the provider's tools that ran, by its items, for a usage that does not count them. */
export function responseUsage(response: JsonObject, rules: UsageRules, runs: ToolRuns): UsageReading {
  const { usage, expected } = usageOf(response, runs)
  return readUsage(usage, rules, expected)
}

/** Some counts are beside the usage, in `tool_usage`. */
function usageOf(
  { usage, tool_usage }: JsonObject,
  { web_search = 0, ...runs }: ToolRuns,
): { readonly usage: unknown; readonly expected: Expected } {
  return {
    usage: isMissing(tool_usage) || !isObject(usage) ? usage : { ...usage, tool_usage },
    expected: {
      output: true,
      searches: web_search,
      runs: Object.keys(runs).length > 0 ? runs : undefined,
    },
  }
}

/** The text of a delta; null for any other event. */
function deltaOf(payload: JsonObject | null): string | null {
  if (payload === null || typeof payload.delta !== "string") return null
  return typeof payload.type === "string" && payload.type.endsWith(".delta") ? payload.delta : null
}

function addedBytes(payload: JsonObject): number {
  return new ResponsesOutput().take(payload)
}
