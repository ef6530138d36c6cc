/** The words in the record of a call, for the meter, the settlement, the ledger's schema and the API reference. */

/** The operations of models (D63). */
export const operationNames = ["chat", "embeddings", "messages", "responses"] as const
export type OperationName = (typeof operationNames)[number]

/** The operation's name in the OpenTelemetry GenAI conventions (D53, D54). */
export function genAiOperation(operation: OperationName): "chat" | "embeddings" {
  return operation === "embeddings" ? "embeddings" : "chat"
}

/** The outcomes of a hold (D13). */
export const endOutcomes = ["settled", "released", "expired"] as const

/** The state of a call: open until its hold has ended. */
export const states = ["open", ...endOutcomes] as const
export type CallState = (typeof states)[number]

/** The basis of a charge: the provider's final usage, partial usage plus an estimate, an estimate, or nothing. */
export const bases = ["usage", "partial", "estimate", "none"] as const
export type Basis = (typeof bases)[number]

/** The endings of an answer that is not whole. */
const breaks = [
  "upstream_lost",
  "upstream_silent",
  "deadline",
  "client_left",
  "client_stalled",
  "gateway_stopped",
  "gateway_lost",
] as const

/** The endings of a provider's answer (D8). */
export const endings = ["completed", ...breaks] as const
export type Ending = (typeof endings)[number]

/** Why a call failed (D28). */
export const failures = [
  "usage_missing",
  "usage_invalid",
  "upstream_error",
  "upstream_timeout",
  "upstream_unavailable",
  "no_output",
  "internal_error",
  ...breaks,
] as const
export type Failure = (typeof failures)[number]

/** Further notes on a call (D28). */
export const notes = [
  "cached_clamped",
  "cached_malformed",
  "details_clamped",
  "details_malformed",
  "searches_estimated",
  "unpriced",
  "usage_placeholder",
  "usage_implausible",
  "usage_unread",
  "total_unexplained",
  "response_too_large",
  "overage",
  "settled_late",
] as const
export type Note = (typeof notes)[number]

/** Notes that say that a charge may not be what the provider bills (D28, D87). */
export const usageNotes = [
  "usage_unread",
  "total_unexplained",
  "usage_implausible",
  "unpriced",
] as const satisfies readonly Note[]

/** Failures of an attempt without an answer whose request may have reached the provider (D93). */
export const attemptFailures = ["broken", "timeout", "abandoned"] as const
export type AttemptFailure = (typeof attemptFailures)[number]

/** The upstream key of a request, and the provider's own request id. A field without a value is absent (D86). */
export interface ProviderIds {
  readonly key?: string
  readonly request_id?: string
}

/** An attempt that may have reached a provider but did not become the answer of the call, with a status or a failure (D93). */
export interface LostAttempt extends ProviderIds {
  readonly upstream: string
  readonly status?: number
  readonly failure?: AttemptFailure
  readonly ms: number
}

/** The periods of spending limits, in UTC (D42). */
export const periods = ["day", "month"] as const
export type Period = (typeof periods)[number]

/** Tags of a call: values by name (D94). */
export type Tags = Readonly<Record<string, string>>

/** The session and agent that a client names for its call (D65): letters, digits and `_ . : -`. */
export interface AgentSession {
  readonly session_id: string | null
  readonly agent_id: string | null
}
