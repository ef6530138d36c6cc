import type { UsageRules } from "../usage/reading.ts"
import type { Ending } from "../wire/call.ts"
import type { JsonObject } from "../wire/usage.ts"
import type { UsageWishes } from "./cost.ts"
import type { EventReading } from "./event-reading.ts"
import type { JsonForm } from "./json-reading.ts"
import type { StreamEvidence } from "./reading.ts"

/** The reading and framing of streams (D36). One for each operation that streams (D63). */
export interface StreamForm {
  /** Opens the reading of a stream with so many requested `choices`. */
  open(choices: number, rules: UsageRules): EventReading
  readonly keepalive: Uint8Array
  /** The last event, sent once the charge is durable (D32) instead of the provider's own; null for none. */
  readonly end: Uint8Array | null
  /** True if the provider's own last event (`done`), if there is one, is held back until then and sent. */
  readonly keeps_last: boolean
  /** A JSON answer converted to the text of the equivalent events, including the last one (D29). */
  eventsOf(payload: JsonObject): string
}

/** Maximum bytes of a stream that the gateway keeps or reads. */
export interface StreamSizes {
  /** One event (D31), and all that are held back (D36). */
  readonly event_bytes: number
  /** A JSON object that is delivered, and one that is read for its usage (D29). */
  readonly response_bytes: number
  readonly response_read_bytes: number
}

/** Waits of the relay of a stream, in milliseconds. */
export interface StreamTimes {
  /** Silence before a comment keeps the connection open (D36). */
  readonly keepalive_ms: number
  /** Wait for the first event before a comment makes the server send the headers (D36). */
  readonly commit_after_ms: number
  /** Time after which a client that takes nothing is cut (D8). */
  readonly stall_ms: number
  /** Wait for the usage, whatever the policy, if the client leaves after every choice has finished (D9). */
  readonly finish_wait_ms: number
}

/** The memory for an answer (D77). */
export interface AnswerRoom {
  /** Sets the bytes that are kept. Null if there is memory for them; otherwise resolves with true once there is, or with false. */
  hold(bytes: number): Promise<boolean> | null
  /** Called when no more is read. */
  stop(): void
  /** Called when nothing is kept. */
  free(): void
}

/** The relay of one stream. Times in milliseconds. */
export interface RelayOptions extends UsageWishes {
  readonly source: RelaySource
  readonly form: StreamForm
  /** Reads a JSON object in place of events (D29). */
  readonly json: Pick<JsonForm, "openLarge">
  /** The number of requested choices (D12). */
  readonly requested: number
  /** For its usage (D87). */
  readonly usage_rules: UsageRules
  readonly sizes: StreamSizes
  /** For a JSON object (D29). */
  readonly memory: AnswerRoom
  readonly times: StreamTimes
  readonly idle_ms: number
  readonly total_ms: number
  /** The time to read on for the usage once the client has left (D9); null to stop. It may grow. */
  readonly drain_ms: number | null
  /** Settles the call, once. Resolves with the charge when the last byte may be sent (D32). */
  settle(evidence: StreamEvidence): Promise<bigint>
  /** Resolves when the relay may handle so many bytes, or without `bytes` the work of a whole turn (D78); null if now. */
  turn(bytes?: number): Promise<void> | null
  /** The event that the client is sent when a stream breaks after output (D10). */
  errorEvent(ending: Ending, data: string | null): Uint8Array
  /** An event with a provider's failure, without its credential (D17). Null if it must not be shown. */
  withoutSecret(parts: readonly Uint8Array[]): readonly Uint8Array[] | null
  /** Reads the source to its end after its last event, so that its connection can be reused. */
  finishSource(): void
  /** Ends the client's connection. */
  cutClient(): void
  /** Called at the first event with output. */
  onOutput(): void
  onKeepalive(): void
  /** Called for a broken invariant of the relay. The stream ends and is settled as lost. */
  onFault(error: unknown): void
}

/** The body of a provider's answer. */
export interface RelaySource {
  /** The next part, without waiting if it has come; null at the end. The reader may free it. Rejects if the connection broke. */
  read(): Uint8Array | null | Promise<Uint8Array | null>
  /** Closes the provider's connection. Idempotent. */
  cancel(): void
}
