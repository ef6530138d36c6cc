/** The error catalogue (D15): code -> status, type, message, retry advice; one class; one printed shape (D16). */

interface Entry {
  readonly status: number
  /** The `error.type` both SDK families read. */
  readonly type: string
  readonly message: string
  /** What a client's `x-should-retry` says where the status alone would mislead it. */
  readonly should_retry?: boolean
  /** Seconds in `Retry-After`. */
  readonly retry_after_s?: number
}

export const catalogue = {
  invalid_request: { status: 400, type: "invalid_request_error", message: "The request is not valid." },
  idempotency_key_used: {
    status: 400,
    type: "invalid_request_error",
    message: "This Idempotency-Key stands for an earlier call.",
    should_retry: false,
  },
  idempotency_key_reused: {
    status: 400,
    type: "invalid_request_error",
    message: "This Idempotency-Key stands for an earlier call with another body.",
    should_retry: false,
  },
  invalid_api_key: {
    status: 401,
    type: "authentication_error",
    message: "The API key is missing, malformed, unknown, revoked or expired.",
  },
  insufficient_balance: {
    status: 402,
    type: "billing_error",
    message: "The balance does not cover what this call must hold.",
  },
  spending_limit_reached: {
    status: 402,
    type: "billing_error",
    message: "The key's spending limit does not cover what this call must hold.",
  },
  account_suspended: { status: 403, type: "permission_error", message: "This account is suspended." },
  key_suspended: { status: 403, type: "permission_error", message: "This API key is suspended." },
  model_not_allowed: {
    status: 403,
    type: "permission_error",
    message: "This key may not use this model here.",
  },
  not_found: {
    status: 404,
    type: "not_found_error",
    message:
      "There is nothing at this address; POST /v1/chat/completions, GET /v1/models and POST /v1/messages/count_tokens are here, and /docs describes them.",
  },
  model_not_found: { status: 404, type: "not_found_error", message: "There is no model of this name." },
  method_not_allowed: {
    status: 405,
    type: "invalid_request_error",
    message: "This address does not take this method.",
  },
  request_timeout: {
    status: 408,
    type: "timeout_error",
    message: "The request's body did not arrive in time.",
  },
  request_too_large: { status: 413, type: "request_too_large", message: "The request's body is too large." },
  unsupported_media_type: {
    status: 415,
    type: "invalid_request_error",
    message: "The body must be plain UTF-8 JSON with content-type application/json.",
  },
  rate_limited: { status: 429, type: "rate_limit_error", message: "Too many requests; try again shortly." },
  internal_error: {
    status: 500,
    type: "api_error",
    message: "The gateway failed; the call was not charged.",
  },
  usage_missing: {
    status: 502,
    type: "api_error",
    message: "The provider's answer was blank; the call was not charged.",
    should_retry: false,
  },
  usage_invalid: {
    status: 502,
    type: "api_error",
    message: "The provider's answer was malformed; the call was not charged.",
    should_retry: false,
  },
  response_too_large: {
    status: 502,
    type: "api_error",
    message: "The provider's answer is larger than the gateway delivers; the call was charged.",
    should_retry: false,
  },
  upstream_error: { status: 502, type: "api_error", message: "The provider failed." },
  upstream_unavailable: {
    status: 503,
    type: "overloaded_error",
    message: "No provider of this model can be reached now.",
    retry_after_s: 2,
  },
  overloaded: {
    status: 503,
    type: "overloaded_error",
    message: "The gateway carries as many calls as it may; try again shortly.",
    retry_after_s: 1,
  },
  ledger_unavailable: {
    status: 503,
    type: "overloaded_error",
    message: "The books cannot be written now; nothing was sent and nothing was charged.",
    retry_after_s: 2,
  },
  upstream_timeout: { status: 504, type: "timeout_error", message: "The provider did not answer in time." },
} as const satisfies Record<string, Entry>

export type ErrorCode = keyof typeof catalogue

export interface Detail {
  /** Replaces the catalogue's message; a whole sentence for the client, without input, stack or SQL. */
  message?: string
  /** The request field at fault, as a path: `messages[0].role`. */
  param?: string
  /** Further fields of the printed `error` object (D12's `needed`, `available`, `max_tokens`). */
  fields?: Record<string, string | number>
  /** Further response headers, such as a provider's `retry-after` (D17). */
  headers?: Record<string, string>
  /** A provider's own identifiers, printed in place of ours (D17). */
  shown?: { code?: string; type?: string }
  /** What went wrong inside, for the log only. */
  cause?: unknown
}

/** An operating failure with an entry in the catalogue. Anything else that is thrown is a broken invariant: a 500. */
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
    return catalogue[this.code].status
  }
}

/** The body of D16, as an object: what both SDK families read. */
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

/** The one error printer: status, headers and body of D15 and D16. */
export function errorResponse(error: GatewayError, request_id: string): Response {
  const entry: Entry = catalogue[error.code]
  const headers = new Headers({ "content-type": "application/json", ...idHeaders(request_id) })
  if (entry.retry_after_s !== undefined) headers.set("retry-after", String(entry.retry_after_s))
  if (entry.should_retry !== undefined) headers.set("x-should-retry", String(entry.should_retry))
  for (const [name, value] of Object.entries(error.detail.headers ?? {})) headers.set(name, value)
  return new Response(JSON.stringify(errorBody(error, request_id)), { status: entry.status, headers })
}

/** The request id under the header names of both SDK families (D16). */
export function idHeaders(request_id: string): Record<string, string> {
  return { "x-request-id": request_id, "request-id": request_id }
}

/** `thrown` as a GatewayError: itself, or a 500 that shows nothing of the inside. */
export function toGatewayError(thrown: unknown): GatewayError {
  return thrown instanceof GatewayError ? thrown : new GatewayError("internal_error", { cause: thrown })
}
