import type { UsageRules } from "../usage/reading.ts"
import type { Ending } from "../wire/call.ts"
import type { JsonObject } from "../wire/usage.ts"
import type { UsageWishes } from "./cost.ts"
import type { EventReading } from "./event-reading.ts"
import type { JsonForm } from "./json-reading.ts"
import type { StreamEvidence } from "./reading.ts"

/** The reading and framing of streams (D36). One for each operation that streams (D63). */
export interface StreamForm {
  /** Reads one stream: `choices` were requested. */
  open(choices: number, rules: UsageRules): EventReading
  readonly keepalive: Uint8Array
  /** Sent last, once the charge is durable (D32), in place of the provider's own last event; null for none. */
  readonly end: Uint8Array | null
  /** True if the provider's own last event (`done`) is held back until then and sent, where there is one. */
  readonly keeps_last: boolean
  /** A JSON answer converted to the text of the equivalent events, including the last one (D29). */
  eventsOf(payload: JsonObject): string
}

/** The most bytes that a stream may make the gateway keep or read. */
export interface StreamSizes {
  /** One event (D31), and all that are held back (D36). */
  readonly event_bytes: number
  /** A JSON object that is delivered, and one that is read for its usage (D29). */
  readonly response_bytes: number
  readonly response_read_bytes: number
}

/** Waits of the relay of a stream, in milliseconds. */
export interface StreamTimes {
  /** For bytes to send, before a comment keeps the connection open (D36). */
  readonly keepalive_ms: number
  /** For the first event, before a comment makes the server send the headers (D36). */
  readonly commit_after_ms: number
  /** For a client that takes nothing (D8). */
  readonly stall_ms: number
  /** For the usage, whatever the policy, once the client has left and every choice has finished (D9). */
  readonly finish_wait_ms: number
}

/** The memory for an answer (D77). */
export interface AnswerRoom {
  /** Sets the bytes that are kept. Null if there is memory for them; otherwise resolves with true once there is, or with false. */
  hold(bytes: number): Promise<boolean> | null
  /** No more is read. */
  stop(): void
  /** Nothing is kept. */
  free(): void
}

/** The relay of one stream. Times in milliseconds. */
export interface RelayOptions extends UsageWishes {
  readonly source: RelaySource
  readonly form: StreamForm
  /** Reads a JSON object in place of events (D29). */
  readonly json: Pick<JsonForm, "openLarge">
  /** The number of choices that the request asks for (D12). */
  readonly requested: number
  /** For its usage (D87). */
  readonly usage_rules: UsageRules
  readonly sizes: StreamSizes
  /** For a JSON object (D29). */
  readonly memory: AnswerRoom
  readonly times: StreamTimes
  readonly idle_ms: number
  readonly total_ms: number
  /** The time to read on for the usage once the client has left (D9), which may grow; null to stop. */
  readonly drain_ms: number | null
  /** Settles what was delivered, once. Resolves when the last byte may be sent (D32: settle before the last byte). */
  settle(evidence: StreamEvidence): Promise<bigint>
  /** Resolves when a part of so many bytes may be relayed, or the work of a turn may be done; null if it may be now (D78). */
  turn(bytes?: number): Promise<void> | null
  /** The event that the client is sent when a stream breaks after output (D10). */
  errorEvent(ending: Ending, data: string | null): Uint8Array
  /** An event in which the provider reports a failure, without its credential (D17). Null if it must not be shown. */
  withoutSecret(parts: readonly Uint8Array[]): readonly Uint8Array[] | null
  /** Lets a source that is past its last event end by itself, so that its connection is used again. */
  finishSource(): void
  /** Ends the client's connection. */
  cutClient(): void
  /** The first event with output is on its way. */
  onOutput(): void
  onKeepalive(): void
  /** A broken invariant of the relay itself; the stream is ended and settled as lost. */
  onFault(error: unknown): void
}

/** The body of a provider's answer. */
export interface RelaySource {
  /** The next part, without waiting if it has come; null at the end. The reader may free it. Rejects if the connection broke. */
  read(): Uint8Array | null | Promise<Uint8Array | null>
  /** Closes the provider's connection. Idempotent. */
  cancel(): void
}
