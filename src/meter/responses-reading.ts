import { ANY_USAGE, type Expected, firstCounted, readUsage, type UsageRules } from "../usage/reading.ts"
import { isMissing, isObject, type JsonObject, objectOf, readServiceTier } from "../wire/usage.ts"
import { EventReading } from "./event-reading.ts"
import { DONE, EMPTY, ERROR, type EventKind, OUTPUT, reportsError } from "./reading.ts"
import { Repetition } from "./repetition.ts"
import { ResponsesOutput, runsOf, type ToolRuns } from "./responses-output.ts"

/** The events that end a stream, and hold its usage. */
const LAST: ReadonlySet<unknown> = new Set(["response.completed", "response.incomplete", "response.failed"])

/** Reads a stream of response events (D66), which one of three events ends. */
export class ResponsesReading extends EventReading {
  readonly #output = new ResponsesOutput()
  /** A text may be a snapshot; only its new part counts. */
  protected override readonly abridges = false

  constructor(rules = ANY_USAGE) {
    super(new Repetition(deltaOf, (payload) => new ResponsesOutput().take(payload)), rules)
  }

  get answered(): boolean {
    return this.done && !this.error
  }

  override get paused(): boolean {
    return this.#output.paused
  }

  protected override get last() {
    return this.#output.last
  }

  protected countLarge(members: JsonObject): boolean {
    this.is_cut = true
    const { usage, expected } = usageOf(members, runsOf(members))
    return this.#count(usage, expected)
  }

  /** This API has no `[DONE]`. A `[DONE]` before the last event ends the stream as incomplete. */
  protected override readDone(): EventKind {
    this.is_cut = true
    return ERROR
  }

  protected readPayload(payload: JsonObject): EventKind {
    const { type, response } = payload
    const is_last = LAST.has(type)
    if (!is_last && (type === "error" || reportsError(payload))) {
      this.error = true
      return { ...ERROR, shown: true }
    }
    const bytes = this.#output.take(payload)
    this.output_bytes += bytes
    // That of the last event if it has one, otherwise the first one.
    const tier = readServiceTier(objectOf(response))
    this.service_tier = is_last ? (tier ?? this.service_tier) : (this.service_tier ?? tier)
    if (!is_last) return bytes > 0 ? OUTPUT : EMPTY
    this.done = true
    this.error = type === "response.failed"
    const { usage, expected } = usageOf(objectOf(response), this.#output.runs)
    const trusted_usage = this.#count(usage, expected)
    return { ...DONE, output: bytes > 0, trusted_usage, failed: this.error, shown: true }
  }

  #count(usage: unknown, expected: Expected): boolean {
    this.counted_bytes = this.output_bytes
    this.closed_bytes = this.output_bytes
    return this.usage.take(firstCounted(isMissing(usage) ? [] : [usage], this.usage.rules), expected, false)
  }
}

export function responseUsage(response: JsonObject, rules: UsageRules) {
  const { usage, expected } = usageOf(response, runsOf(response))
  return readUsage(usage, rules, expected)
}

/** Some counts are beside the usage, in `tool_usage`. `runs`: by the items, for a usage that does not count them. */
function usageOf({ usage, tool_usage }: JsonObject, { web_search: searches = 0, ...runs }: ToolRuns) {
  return {
    usage: isMissing(tool_usage) || !isObject(usage) ? usage : { ...usage, tool_usage },
    expected: { output: true, searches, runs: Object.keys(runs).length > 0 ? runs : undefined },
  }
}

function deltaOf({ type, delta }: JsonObject): string | null {
  return typeof delta === "string" && typeof type === "string" && type.endsWith(".delta") ? delta : null
}
