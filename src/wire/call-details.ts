import { Type } from "@sinclair/typebox"
import { attemptFailures } from "./call.ts"
import { count, fields, nullable, oneOf, titled, UNIT } from "./field.ts"

/** The upstream key and request id of a provider's answer (D86). */
const asking = fields({
  upstream_key: nullable(
    Type.String(),
    "The name of the upstream's key; null for an upstream with a single key.",
  ),
  provider_request_id: nullable(
    Type.String(),
    "The provider's own request id, for questions to its support; null if it sent none.",
  ),
})

export const attemptOutcome = {
  status: nullable(Type.Integer()),
  failure: titled("Outcome", nullable(oneOf(attemptFailures, "The reason for a missing status."))),
}

/** Details of a call besides its charge (D6, D86, D87, D90, D93). */
export const callDetails = {
  estimate: titled(
    "Estimated from",
    nullable(
      Type.Object({
        output_bytes: count("UTF-8 bytes of the output."),
        prompt_bytes: count("Bytes of the prompt. Charged only if `usage` has prompt tokens."),
        bytes_per_token: Type.Number(),
      }),
    ),
    "What estimated tokens were computed from; null if the usage was reported.",
  ),
  unread: titled(
    "Unknown numbers",
    Type.Array(Type.String()),
    "Numbers in the provider's usage that Tollgate does not know, and did not charge.",
  ),
  unexplained_tokens: titled(
    "Total less its parts",
    Type.Integer(),
    "The total that the provider reported less its parts. It was not charged.",
  ),
  provider_cost: titled(
    "Provider's cost",
    nullable(Type.String({ pattern: "^\\d+(?:\\.\\d{1,9})?$", [UNIT]: "usd" })),
    "What the provider says that the call costs, in USD; null if it does not say.",
  ),
  ...asking,
  attempts: titled(
    "Other attempt",
    Type.Array(
      Type.Object({
        upstream: Type.String(),
        ...asking,
        ...attemptOutcome,
        ms: count("Duration in milliseconds."),
      }),
    ),
    "The attempts that may have reached a provider but did not become the answer of the call. The provider may bill them.",
  ),
}
