import type { Ending } from "../wire/call.ts"
import type { UsageReading } from "../wire/usage.ts"

/** What a provider delivered, as far as the settlement needs to know. */
export type Evidence = JsonEvidence | StreamEvidence

export interface JsonEvidence {
  readonly shape: "json"
  readonly ending: Ending
  /** `blank` and `malformed` as in D5; `error` is an object that only reports a failure (D10). */
  readonly body: "object" | "blank" | "malformed" | "error"
  readonly usage: UsageReading
  /** UTF-8 bytes of extractable output (D7). */
  readonly output_bytes: number
}

export interface StreamEvidence {
  readonly shape: "stream"
  readonly ending: Ending
  /** The last valid usage of the stream, else what the last `usage` field was (D4). */
  readonly usage: UsageReading
  /** Whether the last valid usage came with empty choices, or with or after every finish_reason (D4). */
  readonly usage_final: boolean
  readonly output_bytes: number
  /** UTF-8 bytes of output in events after the one with the last valid usage (D8). */
  readonly output_bytes_after_usage: number
  /** Whether an error event ended the stream (D10). */
  readonly error: boolean
}
