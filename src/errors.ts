/** The error catalogue (D15): status, type, message and retry advice by code. All errors have one class and one printed shape (D16). */

interface CatalogueEntry {
  readonly status: number
  /** The `error.type` that both SDK families read. */
  readonly type: string
  readonly message: string
  /** Sent as `x-should-retry` if the status alone would mislead a client: Claude Code repeats a 401. */
  readonly should_retry?: boolean
  /** Sent as `Retry-After`, in seconds. */
  readonly retry_after_s?: number
}

export const catalogue = {
  invalid_request: {
    status: 400,
    type: "invalid_request_error",
    message: "The request is not valid. Compare it with the API reference at /docs.",
  },
  idempotency_key_used: {
    status: 400,
    type: "invalid_request_error",
    message: "This Idempotency-Key was already used for this call. The call was not made or charged again.",
    should_retry: false,
  },
  idempotency_key_reused: {
    status: 400,
    type: "invalid_request_error",
    message: "This Idempotency-Key was already used with a different request. Use a new key for each call.",
    should_retry: false,
  },
  tag_not_declared: {
    status: 400,
    type: "invalid_request_error",
    message: "A tag of this call is not known. Send only tags that the operator has declared.",
    should_retry: false,
  },
  tag_required: {
    status: 400,
    type: "invalid_request_error",
    message: "This API key needs a tag on each call. Send it in the x-tollgate-tags header.",
    should_retry: false,
  },
  invalid_api_key: {
    status: 401,
    type: "authentication_error",
    message:
      "The API key is missing, malformed, unknown, revoked or expired. Check the key, or ask the operator for a new one.",
    should_retry: false,
  },
  insufficient_balance: {
    status: 402,
    type: "billing_error",
    message: "The account balance is too low for this call. Add credit, or lower max_tokens.",
  },
  spending_limit_reached: {
    status: 402,
    type: "billing_error",
    message:
      "The key's spending limit is too low for this call. Lower max_tokens, or ask the operator for a higher limit.",
  },
  budget_reached: {
    status: 402,
    type: "billing_error",
    message:
      "A budget is too low for this call. Lower max_tokens, wait for its next period, or ask the operator for a higher budget.",
  },
  account_suspended: {
    status: 403,
    type: "permission_error",
    message: "This account is suspended. Contact the operator.",
  },
  key_suspended: {
    status: 403,
    type: "permission_error",
    message: "This API key is suspended. Contact the operator, or use another key.",
  },
  key_change_not_allowed: {
    status: 403,
    type: "permission_error",
    message: "This API key cannot make this change. Ask the operator.",
  },
  model_not_allowed: {
    status: 403,
    type: "permission_error",
    message: "This API key cannot use this model. GET /v1/models lists the models that it can use.",
  },
  role_required: {
    status: 403,
    type: "permission_error",
    message: "Your role does not allow this. Ask an operator with the role admin.",
  },
  not_found: {
    status: 404,
    type: "not_found_error",
    message:
      "This path does not exist. Available: POST /v1/chat/completions, POST /v1/responses, POST /v1/embeddings, POST /v1/messages, POST /v1/messages/count_tokens and GET /v1/models. Full reference: /docs.",
  },
  model_not_found: {
    status: 404,
    type: "not_found_error",
    message: "This model does not exist. GET /v1/models lists the available models.",
  },
  method_not_allowed: {
    status: 405,
    type: "invalid_request_error",
    message: "This path does not support this method. The allow header lists the supported methods.",
  },
  request_timeout: {
    status: 408,
    type: "timeout_error",
    message: "The request body did not arrive in time. Send the request again.",
  },
  archived: {
    status: 410,
    type: "not_found_error",
    message: "This part of the ledger is archived. Ask the operator.",
    should_retry: false,
  },
  request_too_large: {
    status: 413,
    type: "request_too_large",
    message: "The request body is too large. Send a smaller request.",
  },
  unsupported_media_type: {
    status: 415,
    type: "invalid_request_error",
    message:
      "The request body must be UTF-8 JSON, uncompressed or in gzip or zstd. Send it with content-type: application/json.",
  },
  rate_limited: {
    status: 429,
    type: "rate_limit_error",
    message: "Too many requests. Wait before you retry.",
  },
  internal_error: {
    status: 500,
    type: "api_error",
    message:
      "The gateway failed with an internal error. The call was not charged. If this persists, send the request_id to the operator.",
  },
  usage_missing: {
    status: 502,
    type: "api_error",
    message:
      "The provider returned an empty response. The call was not charged. Retry only if the provider may run the call twice.",
    should_retry: false,
  },
  usage_invalid: {
    status: 502,
    type: "api_error",
    message:
      "The provider returned a malformed response. The call was not charged. Retry only if the provider may run the call twice.",
    should_retry: false,
  },
  response_too_large: {
    status: 502,
    type: "api_error",
    message:
      "The provider's response is too large to deliver. The call was charged. Request less output, or use streaming.",
    should_retry: false,
  },
  upstream_error: {
    status: 502,
    type: "api_error",
    message: "The provider failed to complete the request. Retry the request.",
  },
  upstream_unavailable: {
    status: 503,
    type: "overloaded_error",
    message: "No provider for this model is available. Retry in a few seconds.",
    retry_after_s: 2,
  },
  overloaded: {
    status: 503,
    type: "overloaded_error",
    message: "The gateway is at capacity. Retry in a few seconds.",
    retry_after_s: 1,
  },
  ledger_unavailable: {
    status: 503,
    type: "overloaded_error",
    message:
      "The gateway's database is unavailable. Nothing was sent to the provider and nothing was charged. Retry in a few seconds.",
    retry_after_s: 2,
  },
  upstream_timeout: {
    status: 504,
    type: "timeout_error",
    message: "The provider did not answer in time. Retry with streaming, or with a lower max_tokens.",
  },
} as const satisfies Record<string, CatalogueEntry>

export type ErrorCode = keyof typeof catalogue

type FieldValue = string | number | boolean | null

export interface Detail {
  /** Replaces the catalogue's message. Says what happened and what to do, without input, stack or SQL. */
  message?: string
  /** The path of the invalid request field: `messages[0].role`. */
  param?: string
  /** Further fields of the printed `error` object (D12's `needed`, `available`, `max_tokens`). */
  fields?: Record<string, FieldValue | { readonly [name: string]: FieldValue }>
  /** The rest of budgets per minute, for headers (D99). */
  rates?: readonly { unit: string; limit: bigint; remaining: bigint; reset_ms: number }[]
  /** Further response headers, such as a provider's `retry-after` (D17). */
  headers?: Record<string, string>
  /** The provider's own identifiers, printed instead of ours (D17). */
  shown?: { code?: string; type?: string }
  /** The provider's own answer, sent in place of ours (D64). */
  provider?: { status: number; body: string }
  /** The owner of the refused key, only for the count of refusals (D80). */
  owner?: { readonly shard: number; readonly account_id: string; readonly key_id: string }
  /** The internal cause, for the log only. */
  cause?: unknown
}

/** An expected failure with an entry in the catalogue. Any other error is a bug and becomes a 500. */
export class GatewayError extends Error {
  override readonly name = "GatewayError"
  readonly code: ErrorCode
  readonly detail: Detail

  constructor(code: ErrorCode, detail: Detail = {}) {
    super(detail.message ?? catalogue[code].message, { cause: detail.cause })
    this.code = code
    this.detail = detail
  }

  get status(): number {
    return this.detail.provider?.status ?? catalogue[this.code].status
  }
}

/** The error body of D16, as an object, in the shape that both SDK families read. */
export function errorBody(error: GatewayError, request_id: string) {
  const { param, fields, shown } = error.detail
  return {
    type: "error",
    error: {
      type: shown?.type ?? catalogue[error.code].type,
      message: error.message,
      param: param ?? null,
      code: shown?.code ?? error.code,
      ...fields,
    },
    request_id,
  }
}

/** The answer to a request with an error (D15, D16). */
export function errorResponse(error: GatewayError, request_id: string): Response {
  const { body, ...init } = printError(error, request_id)
  return new Response(body, init)
}

/** Prints an error: status, headers and body (D15, D16). */
export function printError(error: GatewayError, request_id: string) {
  const entry: CatalogueEntry = catalogue[error.code]
  const headers = new Headers({ "content-type": "application/json", ...idHeaders(request_id) })
  if (entry.retry_after_s !== undefined) headers.set("retry-after", String(entry.retry_after_s))
  if (entry.should_retry !== undefined) headers.set("x-should-retry", String(entry.should_retry))
  for (const [name, value] of Object.entries(error.detail.headers ?? {})) headers.set(name, value)
  const body = error.detail.provider?.body ?? JSON.stringify(errorBody(error, request_id))
  return { status: error.status, headers, body }
}

/** The request id under the header names of both SDK families (D16). */
export function idHeaders(request_id: string): Record<string, string> {
  return { "x-request-id": request_id, "request-id": request_id }
}

/** `thrown` if it is a GatewayError, otherwise a 500 without internal details. */
export function toGatewayError(thrown: unknown): GatewayError {
  return thrown instanceof GatewayError ? thrown : new GatewayError("internal_error", { cause: thrown })
}
