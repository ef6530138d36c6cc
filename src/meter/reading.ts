import type { Ending } from "../wire/call.ts"
import type { JsonObject, UsageReading } from "../wire/usage.ts"
import type { UsageSpan } from "./large-answer.ts"

/** The evidence of a provider's answer, for the settlement. */
export type Evidence = JsonEvidence | StreamEvidence

interface Delivered {
  readonly ending: Ending
  /** The usage that counts, or why there is none (D1, D4, D87). */
  readonly usage: UsageReading
  /** UTF-8 bytes of extractable output (D7). */
  readonly output_bytes: number
  /** The part of `output_bytes` in events after that usage (D8). Absent for an answer that was not events. */
  readonly output_bytes_after_usage?: number
  /** An object over the limit: charged, and not delivered (D5). Of a stream also an event over a limit (D31, D41). */
  readonly too_large?: boolean
  /** The service tier that the provider reported as served (D70). Undefined if it reported none. */
  readonly service_tier?: string | undefined
}

export interface JsonEvidence extends Delivered {
  readonly shape: "json"
  /** `blank` and `malformed` as in D5; `error` is an object that only reports a failure (D10). */
  readonly body: "object" | "blank" | "malformed" | "error"
  /** True if the object reports a failure beside what is charged, in the provider's words (D17). */
  readonly reports_error?: boolean
  /** The positions of the usage objects in a large answer, which is not parsed (D41). Absent for other answers. */
  readonly usages?: readonly UsageSpan[]
}

export interface StreamEvidence extends Delivered {
  readonly shape: "stream"
  /** True if no output came after that usage (D4). */
  readonly usage_final: boolean
  readonly output_bytes_after_usage: number
  /** True if the provider failed: by an error event (D10), a connection that broke, or an event over the limit (D31). */
  readonly error: boolean
}

/** The meaning of an event of a stream for the relay. */
export interface EventKind {
  /** `done`: the last event. Nothing after it or an `error` (D10) is read. `nothing`: no JSON object, such as a comment. */
  readonly kind: "chunk" | "done" | "error" | "nothing"
  /** True if it carries extractable output (D7). */
  readonly output: boolean
  /** True if it carries valid usage (D1), which counts. */
  readonly trusted_usage: boolean
  /** True if that usage is in the place of final usage (D4). */
  readonly final_usage: boolean
  /** True if it carries a usage object that is only shown to a client that asked for it (D24), or that may have a cost. */
  readonly with_usage: boolean
  /** True if it carries nothing else, so it is dropped with the usage. */
  readonly usage_only: boolean
  /** True if it is the last event, and says that the provider failed. */
  readonly failed: boolean
  /** True if it reports a failure beside what counts, in the provider's words (D17). */
  readonly reports_error: boolean
  /** True if it is sent even if the stream had no output before (D66). */
  readonly shown: boolean
}

export const NOTHING: EventKind = {
  kind: "nothing",
  output: false,
  trusted_usage: false,
  final_usage: false,
  with_usage: false,
  usage_only: false,
  failed: false,
  reports_error: false,
  shown: false,
}
export const EMPTY: EventKind = { ...NOTHING, kind: "chunk" }
export const OUTPUT: EventKind = { ...EMPTY, output: true }
export const DONE: EventKind = { ...NOTHING, kind: "done" }
export const ERROR: EventKind = { ...NOTHING, kind: "error" }

/** True if usage is valid, and not 0/0 beside output, which is a placeholder (D2). */
export function isUsable(read: UsageReading, output_bytes: number): boolean {
  if (read.state !== "valid") return false
  return output_bytes === 0 || read.usage.prompt_tokens + read.usage.completion_tokens > 0
}

/** True if there is a top-level `error` (D10) that is not empty. Its `choices` are then not evidence. */
export function reportsError({ error }: JsonObject): boolean {
  return Boolean(error)
}
