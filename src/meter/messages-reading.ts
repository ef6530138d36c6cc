import { Counted } from "../usage/counted.ts"
import { ANY_USAGE, type Expected, firstCounted, type ReportedUsage, usagesOf } from "../usage/reading.ts"
import { isMissing, isText, type JsonObject, objectOf, readServiceTier } from "../wire/usage.ts"
import { EventReading } from "./event-reading.ts"
import type { Abridged } from "./long-text.ts"
import { eventBytes, eventText } from "./messages-output.ts"
import { DONE, EMPTY, ERROR, type EventKind, OUTPUT, reportsError } from "./reading.ts"
import { Repetition } from "./repetition.ts"

/** The usage of a whole message; without a number of searches there were none (D64). */
export const WHOLE_MESSAGE: Expected = { output: true, searches: 0 }
const INPUT_ONLY: Expected = { output: false }

/** Reads a stream of the messages family, which `message_stop` ends (D64). */
export class MessagesReading extends EventReading {
  #counts_output = false
  /** The message has its `stop_reason`. */
  #stopped = false

  constructor(rules = ANY_USAGE) {
    super(new Repetition(eventText, eventBytes), rules)
  }

  get answered(): boolean {
    return this.#stopped
  }

  override get usage_final(): boolean {
    return this.#stopped && this.#counts_output && this.counted_bytes === this.output_bytes
  }

  protected countLarge(members: JsonObject): boolean {
    return this.#keep(firstCounted(usagesOf(members), this.usage.rules), true)
  }

  protected readPayload(payload: JsonObject, long?: Abridged): EventKind {
    const { type, delta, message, usage } = payload
    if (reportsError(payload)) {
      this.error = true
      return { ...ERROR, trusted_usage: this.#fold(usage, true) }
    }
    if (type === "message_stop") {
      this.done = true
      return DONE
    }
    const bytes = long?.bytes(eventBytes) ?? eventBytes(payload)
    this.output_bytes += bytes
    const read = bytes > 0 ? OUTPUT : EMPTY
    const is_end = type === "message_delta"
    if (is_end) this.#stopped ||= isText(objectOf(delta).stop_reason)
    else if (type !== "message_start") return read
    const reported = is_end ? usage : objectOf(message).usage
    if (isMissing(reported)) return read
    return { ...read, trusted_usage: this.#fold(reported, is_end), with_usage: true }
  }

  /**
   * Adds the usage of an event to the earlier one. Returns true if the result is valid; otherwise the earlier one is
   * kept (D4).
   */
  #fold(usage: unknown, with_output: boolean): boolean {
    if (isMissing(usage)) return false
    this.service_tier = readServiceTier({ usage }) ?? this.service_tier
    const counted = firstCounted([usage], this.usage.rules)
    const counts: Counted["counts"] = counted instanceof Counted ? counted.counts : {}
    // `message_start` has not counted the output yet.
    if (!with_output) for (const name of ["output", "reasoning"] as const) delete counts[name]
    return this.#keep(counted, counts.output !== undefined)
  }

  #keep(counted: ReportedUsage, counts_output: boolean): boolean {
    const expected = this.#counts_output || counts_output ? WHOLE_MESSAGE : INPUT_ONLY
    if (!this.usage.take(counted, expected, true)) return false
    this.#counts_output ||= counts_output
    this.counted_bytes = counts_output ? this.output_bytes : (this.counted_bytes ?? 0)
    return true
  }
}
