import { ANY_USAGE, type Counted, count, type Expected, type UsageRules, usageIn } from "../usage/reading.ts"
import { StreamUsage } from "../usage/stream-usage.ts"
import {
  isMissing,
  isObject,
  type JsonObject,
  objectOf,
  readServiceTier,
  type UsageReading,
} from "../wire/usage.ts"
import { EventReading } from "./event-reading.ts"
import type { Abridged } from "./long-text.ts"
import { eventBytes, eventText } from "./messages-output.ts"
import { DONE, EMPTY, type EventKind, NOTHING, OUTPUT, reportsError } from "./reading.ts"
import { Repetition } from "./repetition.ts"

const USAGE: EventKind = { ...EMPTY, trusted_usage: true, with_usage: true }
const OUTPUT_AND_USAGE: EventKind = { ...OUTPUT, trusted_usage: true, with_usage: true }

/** Usage that counts the output of a message: without a number of searches there were none (D64). */
export const WHOLE_MESSAGE: Expected = { output: true, searches: 0 }
const INPUT_ONLY: Expected = { output: false }

/** Reads a stream of the messages family, which `message_stop` ends (D64). */
export class MessagesReading extends EventReading {
  readonly #rules: UsageRules
  readonly #usage: StreamUsage
  #output_bytes = 0
  /** Whether the usage counts output, and the output up to that event. */
  #counts_output = false
  #counted_bytes = 0
  /** The message has its `stop_reason`. */
  #stopped = false

  constructor(rules: UsageRules = ANY_USAGE) {
    super(new Repetition(eventText, eventBytes))
    this.#rules = rules
    this.#usage = new StreamUsage(rules)
  }

  get answered(): boolean {
    return this.#stopped
  }

  get paused(): boolean {
    return this.#stopped
  }

  get usage_final(): boolean {
    return this.#stopped && this.#counts_output && this.#counted_bytes === this.#output_bytes
  }

  protected get usage(): UsageReading {
    return this.#usage.reading
  }

  protected get output_bytes(): number {
    return this.#output_bytes
  }

  protected get later_bytes(): number {
    return this.usage.state === "valid" ? this.#output_bytes - this.#counted_bytes : 0
  }

  protected addRecurring(bytes: number): void {
    this.#output_bytes += bytes
  }

  protected addLarge(output_bytes: number, members: JsonObject): boolean {
    this.#output_bytes += output_bytes
    return this.#keep(usageIn(members, this.#rules), true)
  }

  /** This API has no `[DONE]`. */
  protected readDone(): EventKind {
    return NOTHING
  }

  protected readPayload(payload: JsonObject, long: Abridged | null): EventKind {
    if (reportsError(payload)) {
      this.error = true
      return { kind: "error", trusted_usage: this.#fold(payload.usage, true), shown: false }
    }
    const { type, delta, message, usage } = payload
    if (type === "message_stop") {
      this.done = true
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
    this.service_tier = readServiceTier({ usage: said }) ?? this.service_tier
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
