import type { Ending } from "../wire/call.ts"
import type { JsonObject, Usage, UsageReading } from "../wire/usage.ts"
import type { LargeAnswer, UsageSpan } from "./large-answer.ts"
import type { Recurring, SseEvent } from "./sse.ts"

/** What a provider delivered, for the settlement. */
export type Evidence = JsonEvidence | StreamEvidence

export interface JsonEvidence {
  readonly shape: "json"
  readonly ending: Ending
  /** `blank` and `malformed` as in D5; `error` is an object that only reports a failure (D10). */
  readonly body: "object" | "blank" | "malformed" | "error"
  readonly usage: UsageReading
  /** UTF-8 bytes of extractable output (D7). */
  readonly output_bytes: number
  /** Output bytes after the usage, in an answer that came as events (D5). Absent for other answers. */
  readonly output_bytes_after_usage?: number
  /** An object over the limit: charged, and not delivered (D5). */
  readonly too_large: boolean
  /** The service tier that the provider reported as served (D70). Undefined if it reported none. */
  readonly service_tier?: string | undefined
  /** The positions of the usage objects in a large answer, which is not parsed (D41). Absent for other answers. */
  readonly usages?: readonly UsageSpan[]
}

export interface StreamEvidence {
  readonly shape: "stream"
  readonly ending: Ending
  /** The usage of the stream (D4, D87). Without a valid one: why it is missing or invalid. */
  readonly usage: UsageReading
  /** Whether nothing was said after that usage (D4). */
  readonly usage_final: boolean
  readonly output_bytes: number
  /** UTF-8 bytes of output in events after the one with that usage (D8). */
  readonly output_bytes_after_usage: number
  /** An object over the limit in place of events: charged, and not delivered (D5). Absent for any other stream. */
  readonly too_large?: boolean
  /** Whether the provider failed: by an error event (D10), a connection that broke, or an event over the limit (D31). */
  readonly error: boolean
  /** The first service tier that the provider reported as served (D70). Undefined if it reported none. */
  readonly service_tier?: string | undefined
}

/** What an event of a stream means for the relay. */
export type EventKind =
  /** The last event of the stream: nothing after it is read. */
  | {
      readonly kind: "done"
      /** Whether it carries extractable output (D7), and valid usage (D1). */
      readonly output: boolean
      readonly trusted_usage: boolean
      /** Whether it says that the provider failed. */
      readonly failed: boolean
      /** Whether it is sent even if the stream had no output before (D66). */
      readonly shown: boolean
    }
  /** The provider reports a failure (D10): nothing after it is read. */
  | {
      readonly kind: "error"
      /** Whether it carries valid usage, which counts. */
      readonly trusted_usage: boolean
      /** Whether it is sent even if the stream had no output before (D66). */
      readonly shown: boolean
    }
  | {
      readonly kind: "chunk"
      /** Whether it carries extractable output (D7). */
      readonly output: boolean
      /** Whether it carries valid usage (D1). */
      readonly trusted_usage: boolean
      /** Whether it carries a usage object where that is only shown to a client that asked for it (D24), or may hold a cost. */
      readonly with_usage: boolean
      /** Whether it carries that and nothing else, so that it is dropped if the usage is removed. */
      readonly usage_only: boolean
      /** Whether it carries valid usage in the place of final usage (D4). */
      readonly final_usage: boolean
    }
  /** A comment, an empty payload, or one that is not a JSON object. */
  | { readonly kind: "nothing" }

type Chunk = Extract<EventKind, { kind: "chunk" }>

export const NOTHING: EventKind = { kind: "nothing" }
/** Output, and nothing else that counts. */
export const OUTPUT: Chunk = {
  kind: "chunk",
  output: true,
  trusted_usage: false,
  with_usage: false,
  usage_only: false,
  final_usage: false,
}
export const EMPTY: Chunk = { ...OUTPUT, output: false }
/** A last event that only ends the stream. */
export const DONE: EventKind = {
  kind: "done",
  output: false,
  trusted_usage: false,
  failed: false,
  shown: false,
}

/** Reads a stream event by event, in bounded memory. One for each operation that streams (D63). */
export interface StreamReading {
  /** Events that the stream has sent before, for the framer: equal events need not be read. Null if nothing recurs. */
  readonly recurring: Recurring | null
  /** Reads an event, or several equal ones, and returns its kind. */
  take(event: SseEvent): EventKind
  /** Reads an object over the limit, as far as it came (D5, D29). Returns whether it has evidence. */
  takeLarge(large: LargeAnswer): boolean
  /** The provider failed without an error event. Nothing more is read. */
  fail(): void
  /** Whether a clean end of the body now is a `completed` stream (D8). */
  readonly answered: boolean
  /** Whether the answer may be complete except for its usage (D9). */
  readonly paused: boolean
  /** Whether the last event of the stream was read. */
  readonly done: boolean
  /** Whether the usage that counts is final (D4). */
  readonly usage_final: boolean
  /** What was delivered, if the stream ends now with `ending`. */
  evidence(ending: Ending): StreamEvidence
}

/** Whether usage is 0/0, which is a placeholder if there is output (D2). */
export function isZero({ prompt_tokens, completion_tokens }: Usage): boolean {
  return prompt_tokens === 0 && completion_tokens === 0
}

/** Whether usage is valid and no placeholder beside this much output (D2). */
export function isUsable(usage: UsageReading, output_bytes: number): boolean {
  return usage.state === "valid" && !(output_bytes > 0 && isZero(usage.usage))
}

/**
 * Whether there is a non-null top-level `error` (D10). In a stream such an event is an error event even with `choices`,
 * which providers send with `finish_reason: "error"`; their text is not evidence.
 */
export function reportsError({ error }: JsonObject): boolean {
  return error !== undefined && error !== null
}
