import { Type } from "@sinclair/typebox"
import { type Fault, REQUEST_ID } from "../openapi.ts"

/** What the reference says of every operation that calls a model (D63). */

export const callHeaders = Type.Object({
  "Idempotency-Key": Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description:
        "An id that the client creates for this call, such as a UUID, so that it can safely retry the call.",
    }),
  ),
})

/** The amounts in the example of a 402. */
interface Lacking {
  readonly needed: string
  readonly available: string
  readonly remaining: string
  /** The field that limits the output, and the largest value that fits. Null for operations without output. */
  readonly fitting: { readonly limit_field: string; readonly max_tokens: number } | null
}

/** The errors of a call. */
export function callErrors(
  invalid: Fault,
  { needed, available, remaining, fitting }: Lacking,
): readonly Fault[] {
  const advice = fitting === null ? "" : `, or set ${fitting.limit_field} to at most ${fitting.max_tokens}`
  const fields = fitting === null ? {} : { max_tokens: fitting.max_tokens }
  return [
    invalid,
    {
      code: "idempotency_key_used",
      message: `This Idempotency-Key was already used for this call. The call was not made or charged again. The earlier call is ${REQUEST_ID}: GET /v1/calls/${REQUEST_ID} returns its receipt.`,
      fields: { call: REQUEST_ID },
    },
    {
      code: "idempotency_key_reused",
      message: `This Idempotency-Key was already used with a different request body. Use a new key for each call. The earlier call is ${REQUEST_ID}: GET /v1/calls/${REQUEST_ID} returns its receipt.`,
      fields: { call: REQUEST_ID },
    },
    "invalid_api_key",
    {
      code: "insufficient_balance",
      message: `This call needs a hold of ${needed} USD, but only ${available} USD is available. Add credit${advice}.`,
      fields: { needed, available, ...fields },
    },
    {
      code: "spending_limit_reached",
      message: `This call needs a hold of ${needed} USD, but the key can spend only ${remaining} USD more this day. Wait for the next day${advice}.`,
      fields: { needed, remaining, ...fields },
    },
    "account_suspended",
    "key_suspended",
    "model_not_allowed",
    "model_not_found",
    {
      code: "not_found",
      message:
        "The provider did not find what this request names. Ask the operator to check the model's configuration.",
    },
    "request_timeout",
    "request_too_large",
    "unsupported_media_type",
    "rate_limited",
    "usage_missing",
    "usage_invalid",
    "response_too_large",
    "upstream_error",
    "upstream_unavailable",
    "overloaded",
    "ledger_unavailable",
    "upstream_timeout",
  ]
}
