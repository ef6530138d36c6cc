import { StreamUsage, type UsageRules } from "../usage/reading.ts"
import type { Ending } from "../wire/call.ts"
import type { NextTurn } from "../wire/shape.ts"
import { isObject, type JsonObject } from "../wire/usage.ts"
import type { LargeAnswer } from "./large-answer.ts"
import { type Abridged, abridge } from "./long-text.ts"
import { type Payload, payloadInTurns, payloadOf } from "./payload.ts"
import { EMPTY, type EventKind, isUsable, NOTHING, OUTPUT, type StreamEvidence } from "./reading.ts"
import type { Repetition } from "./repetition.ts"
import type { SseEvent } from "./sse.ts"

/** The payload of a large event, without its long text if `long` is not null. */
export interface Prepared {
  readonly long: Abridged | null
  readonly payload: Payload
}

/** Reads a stream event by event, in bounded memory. Subclasses read the payloads of one operation (D63). */
export abstract class EventReading {
  /** Forms of events that were read before. The framer skips equal ones. */
  readonly recurring: Repetition
  done = false
  /** True if the provider failed, with or without an error event. Nothing more is read. */
  error = false
  /** The service tier that the stream reported as served so far (D70). */
  protected service_tier: string | undefined
  protected readonly usage: StreamUsage
  /** UTF-8 bytes of output so far (D7). */
  protected output_bytes = 0
  /** Output bytes up to the last valid usage; null before it. */
  protected counted_bytes: number | null = null
  /** Output bytes up to the last usage in the place of final usage (D4). */
  protected closed_bytes = -1
  /** True if the stream ended without its last event. Nothing more is read. */
  protected is_cut = false
  /** True if the long text of a large event is left out. */
  protected readonly abridges: boolean = true
  #addRecurring: (bytes: number) => void = () => {}
  /** True if an event was too complex to read, so its usage is unknown (D41). */
  #has_unread = false

  constructor(recurring: Repetition, rules: UsageRules) {
    this.recurring = recurring
    this.usage = new StreamUsage(rules)
  }

  /** True if a clean end of the body now is a `completed` stream (D8). */
  abstract readonly answered: boolean
  /** True if only the usage may be missing from the answer (D9). */
  get paused(): boolean {
    return this.answered
  }

  /** True if the usage that counts is final (D4). */
  get usage_final(): boolean {
    return this.closed_bytes === this.output_bytes && isUsable(this.usage.reading, this.output_bytes)
  }

  /** Reads a payload, unless the stream has ended. `long`: the long text that was left out of it. */
  protected abstract readPayload(payload: JsonObject, long?: Abridged): EventKind
  /** Reads `[DONE]`, which not every API has. */
  protected readDone(): EventKind {
    return NOTHING
  }

  /** Counts the usage in the members of an answer over the limit. Returns true if it is valid. */
  protected abstract countLarge(members: JsonObject): boolean

  get #over(): boolean {
    return this.done || this.error || this.is_cut
  }

  /** Reads the payload of a large event in several turns of the event loop, for `take`. */
  async prepare(event: SseEvent, turn: NextTurn): Promise<Prepared> {
    const long = this.abridges ? abridge(event) : null
    if (long !== null) return { long, payload: long.payload }
    const { data } = event
    return { long, payload: data === null ? null : await payloadInTurns(data, turn) }
  }

  /** Reads an event, or several equal ones. `prepared`: what was read of a large event. */
  take(event: SseEvent, prepared?: Prepared): EventKind {
    // Checked before the data is decoded.
    if (this.#over) return NOTHING
    if (event.recurring_bytes !== null) {
      this.output_bytes += event.recurring_bytes
      this.#addRecurring(event.recurring_bytes)
      return event.recurring_bytes > 0 ? OUTPUT : EMPTY
    }
    const long = prepared?.long ?? null
    const read =
      long === null ? this.read(event.data, prepared?.payload) : this.readPayload(long.payload, long)
    if (read.with_usage || read.reports_error || read.kind === "done" || read.kind === "error") return read
    // A repetition of an event without output changes nothing.
    const last = read.output ? this.last : null
    if (!read.output) this.recurring.learnIdle(event)
    else if (last !== null && this.recurring.learn(event)) this.#addRecurring = last
    return read
  }

  /**
   * Reads the data of one event, whose payload may be `prepared`. Returns `nothing` after the last event or an error
   * (D4, D8).
   */
  read(data: string | null, prepared?: Payload): EventKind {
    if (data === null || this.#over) return NOTHING
    if ((prepared ?? null) === null && data.trim() === "[DONE]") return this.readDone()
    const payload = prepared === undefined ? payloadOf(data) : prepared
    if (isObject(payload)) return this.readPayload(payload)
    this.#has_unread ||= payload === "unread"
    return NOTHING
  }

  /** Counts further events like the last one, besides their output; null if it cannot recur. */
  protected get last(): ((bytes: number) => void) | null {
    return this.#addRecurring
  }

  /** Reads the received part of an object over the limit (D5, D29). Returns true if it has evidence. */
  takeLarge(large: LargeAnswer): boolean {
    if (!large.object) return false
    large.stop()
    this.service_tier ??= large.service_tier
    this.output_bytes += large.output_bytes
    return this.countLarge(large.members) || this.output_bytes > 0
  }

  /** The evidence, if the stream ends now with `ending`. */
  evidence(ending: Ending): StreamEvidence {
    return {
      shape: "stream",
      ending,
      usage: this.usage.reading,
      usage_final: this.usage_final,
      output_bytes: this.output_bytes,
      output_bytes_after_usage: this.output_bytes - (this.counted_bytes ?? this.output_bytes),
      error: this.error,
      service_tier: this.service_tier,
      ...(this.#has_unread && !this.usage_final && { too_large: true }),
    }
  }
}
