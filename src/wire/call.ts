/** The words a call is recorded with. One list, read by the meter, the settlement, the ledger's schema and the API reference. */

/** What a client can call a model for (D63). */
export const operationNames = ["chat", "embeddings", "messages", "responses"] as const
export type OperationName = (typeof operationNames)[number]

/** The operation's name in the OpenTelemetry GenAI conventions (D53, D54). */
export function genAiOperation(operation: OperationName): "chat" | "embeddings" {
  return operation === "embeddings" ? "embeddings" : "chat"
}

/** How a hold ends (D13). */
export const endOutcomes = ["settled", "released", "expired"] as const

/** Where a call's hold stands: open until it has ended. */
export const states = ["open", ...endOutcomes] as const
export type State = (typeof states)[number]

/** What a charge rests on: the provider's final usage, partial usage plus estimate, an output estimate, or nothing. */
export const bases = ["usage", "partial", "estimate", "none"] as const
export type Basis = (typeof bases)[number]

/** How the provider's answer ended (D8). */
export const endings = [
  "completed",
  "upstream_lost",
  "upstream_silent",
  "deadline",
  "client_left",
  "client_stalled",
  "gateway_stopped",
  "gateway_lost",
] as const
export type Ending = (typeof endings)[number]

/** Why a call did not go as it should (D28). */
export const failures = [
  "usage_missing",
  "usage_invalid",
  "upstream_error",
  "upstream_timeout",
  "upstream_unavailable",
  "no_output",
  "internal_error",
  "upstream_lost",
  "upstream_silent",
  "deadline",
  "client_left",
  "client_stalled",
  "gateway_stopped",
  "gateway_lost",
] as const
export type Failure = (typeof failures)[number]

/** What else is worth knowing about a call (D28). */
export const notes = [
  "cached_clamped",
  "cached_malformed",
  "details_clamped",
  "details_malformed",
  "searches_estimated",
  "unpriced",
  "usage_placeholder",
  "usage_implausible",
  "response_too_large",
  "overage",
  "settled_late",
] as const
export type Note = (typeof notes)[number]

/** What a key's spending limit is counted over (D42), in UTC. */
export const periods = ["day", "month"] as const
export type Period = (typeof periods)[number]
