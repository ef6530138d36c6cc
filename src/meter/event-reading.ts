import type { Ending } from "../wire/call.ts"
import type { JsonObject, UsageReading } from "../wire/usage.ts"
import type { LargeAnswer } from "./large-answer.ts"
import { type Abridged, abridge } from "./long-text.ts"
import { parsePayload } from "./output.ts"
import { EMPTY, type EventKind, NOTHING, OUTPUT, type StreamEvidence, type StreamReading } from "./reading.ts"
import type { Repetition } from "./repetition.ts"
import type { SseEvent } from "./sse.ts"

/** The common part of the readings of all operations. Each adds the meaning of a payload, its output and its usage. */
export abstract class EventReading implements StreamReading {
  /** Events that the stream has sent before; the framer need not read equal events. */
  readonly recurring: Repetition
  /** Whether the last event of the stream was read. */
  done = false
  /** Whether the provider failed. */
  protected error = false
  /** The service tier that the stream reported as served so far (D70). */
  protected service_tier: string | undefined

  constructor(recurring: Repetition) {
    this.recurring = recurring
  }

  abstract readonly answered: boolean
  abstract readonly paused: boolean
  abstract readonly usage_final: boolean
  /** The usage that counts. */
  protected abstract readonly usage: UsageReading
  /** UTF-8 bytes of output so far (D7), and of those that came after the usage (D8). */
  protected abstract readonly output_bytes: number
  protected abstract readonly later_bytes: number

  /** Reads a payload. `long`: it is without the long text of its event. */
  protected abstract readPayload(payload: JsonObject, long: Abridged | null): EventKind
  /** Reads `[DONE]`. */
  protected abstract readDone(): EventKind
  /** Counts the output of events that recur. */
  protected abstract addRecurring(bytes: number): void
  /** Counts the output and the usage of an answer over the limit. Returns whether the usage is valid. */
  protected abstract addLarge(output_bytes: number, members: JsonObject): boolean

  /** Whether the stream has ended; nothing more is read. */
  protected get over(): boolean {
    return this.done || this.error
  }

  take(event: SseEvent): EventKind {
    // Checked before the data is decoded, because decoding is wasted on events that are not read.
    if (this.over) return NOTHING
    if (event.recurring_bytes !== null) {
      this.addRecurring(event.recurring_bytes)
      return event.recurring_bytes > 0 ? OUTPUT : EMPTY
    }
    const long = this.shorten(event)
    const read = long === null ? this.read(event.data) : this.readPayload(long.payload, long)
    if (read.kind === "chunk" && read.output && !read.with_usage) this.learn(event)
    else if (provesNothing(read)) this.recurring.learnIdle(event)
    return read
  }

  /** Reads the payload of one event and returns its kind. After the last event or an error everything is `nothing` (D4, D8). */
  read(data: string | null): EventKind {
    if (data === null || this.over) return NOTHING
    if (data.trim() === "[DONE]") return this.readDone()
    const payload = parsePayload(data)
    return payload === null ? NOTHING : this.readPayload(payload, null)
  }

  /** Leaves out the long text of an event. */
  protected shorten(event: SseEvent): Abridged | null {
    return abridge(event)
  }

  protected learn(event: SseEvent): boolean {
    return this.recurring.learn(event)
  }

  takeLarge(large: LargeAnswer): boolean {
    if (!large.object) return false
    large.stop()
    this.service_tier ??= large.service_tier
    return this.addLarge(large.output_bytes, large.members) || this.output_bytes > 0
  }

  fail(): void {
    this.error = true
  }

  evidence(ending: Ending): StreamEvidence {
    return {
      shape: "stream",
      ending,
      usage: this.usage,
      usage_final: this.usage_final,
      output_bytes: this.output_bytes,
      output_bytes_after_usage: this.later_bytes,
      error: this.error,
      service_tier: this.service_tier,
    }
  }
}

/** Whether a repetition of the event changes nothing: it has no output and no usage. */
function provesNothing(read: EventKind): boolean {
  return read.kind === "nothing" || (read.kind === "chunk" && !read.output && !read.with_usage)
}
