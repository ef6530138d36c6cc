/** The error catalogue (D15): status, type, message, cause, cure and retry advice by code. All errors have one class and one printed shape (D16). */

interface CatalogueEntry {
  readonly status: number
  readonly message: string
  /** Why it happens, and what to do about it, in Markdown: for the reference, its page and `docs/errors.md`. */
  readonly cause: string
  readonly cure: string
  /** Sent as `x-should-retry` if the status alone would mislead a client: Claude Code repeats a 401. */
  readonly should_retry?: boolean
  /** Sent as `Retry-After`, in seconds. */
  readonly retry_after_s?: number
}

export const catalogue = {
  invalid_request: {
    status: 400,
    message: "The request is not valid. Compare it with the API reference at /docs.",
    cause: "The request contains something that the gateway or the provider does not accept.",
    cure: "Read the message. It names the field (`param`) and what was expected. Correct the request; do not retry it unchanged.",
  },
  idempotency_key_used: {
    status: 400,
    message: "This Idempotency-Key was already used for this call. The call was not made or charged again.",
    should_retry: false,
    cause:
      "A call with this Idempotency-Key and the same body and headers was made in the last 24 hours. It was not made again and not charged again.",
    cure: "Read the receipt of the call that the error names. Use a new key for a new call.",
  },
  idempotency_key_reused: {
    status: 400,
    message: "This Idempotency-Key was already used with a different request. Use a new key for each call.",
    should_retry: false,
    cause:
      "A call with this Idempotency-Key and a different body, query or `anthropic-beta` header was made in the last 24 hours.",
    cure: "Create a key for each call, such as a random UUID. Reuse it only to retry the same request.",
  },
  tag_not_declared: {
    status: 400,
    message: "A tag of this call is not known. Send only tags that the operator has declared.",
    should_retry: false,
    cause: "The `x-tollgate-tags` header has a tag whose name the operator has not declared.",
    cure: "Correct the name, or ask the operator to add it to `tags` in the configuration.",
  },
  tag_required: {
    status: 400,
    message: "This API key needs a tag on each call. Send it in the x-tollgate-tags header.",
    should_retry: false,
    cause: "The key requires a tag that the call does not have.",
    cure: "Send it: `x-tollgate-tags: team=search`. If the key ignores tags of clients, ask the operator for a label of the key.",
  },
  invalid_api_key: {
    status: 401,
    message:
      "The API key is missing, malformed, unknown, revoked or expired. Check the key, or ask the operator for a new one.",
    should_retry: false,
    cause:
      "The credential is missing, malformed, unknown, revoked or expired. Or a client key was sent where the admin token is required, or the reverse.",
    cure: "Send the key as `Authorization: Bearer …` (for messages and token counts, `x-api-key` works too). If the key was revoked or has expired, ask the operator for a new one.",
  },
  insufficient_balance: {
    status: 402,
    message: "The account balance is too low for this call. Add credit, or lower max_tokens.",
    cause:
      "The most that the call can cost is more than the account's available balance. Calls in progress hold part of the balance.",
    cure: "Add credit, wait for calls in progress to finish, or lower `max_tokens` to the value in the error.",
  },
  spending_limit_reached: {
    status: 402,
    message:
      "The key's spending limit is too low for this call. Lower max_tokens, or ask the operator for a higher limit.",
    cause:
      "The key has a spending limit. What it has spent and holds in the current day or month leaves too little for this call.",
    cure: "Wait for the next day or month (UTC), lower `max_tokens` to the value in the error, or ask the operator for a higher limit.",
  },
  budget_reached: {
    status: 402,
    message:
      "A budget is too low for this call. Lower max_tokens, wait for its next period, or ask the operator for a higher budget.",
    cause:
      "A budget that the call counts in has too little left: of the account, of the key, of its group or of the model. The error has the budget, its limit, what is spent and held, and when it resets.",
    cure: "If `retryable` is true, open calls are in the way: retry after `Retry-After`. Otherwise wait until `resets_at`, lower `max_tokens` to the value in the error, or ask the operator for a higher budget.",
  },
  account_suspended: {
    status: 403,
    message: "This account is suspended. Contact the operator.",
    cause: "The operator suspended the account.",
    cure: "Contact the operator. The balance is kept, and calls in progress finish.",
  },
  key_suspended: {
    status: 403,
    message: "This API key is suspended. Contact the operator, or use another key.",
    cause: "The operator suspended the key.",
    cure: "Contact the operator, or use another key of the account.",
  },
  key_change_not_allowed: {
    status: 403,
    message: "This API key cannot make this change. Ask the operator.",
    cause:
      "The key may not make, rotate or revoke this key: the operator does not allow it, the key has a spending limit or a budget of its own, the other key may do more than it, or it is the last key that works.",
    cure: "Read the message. Use another key of the account, or ask the operator.",
  },
  model_not_allowed: {
    status: 403,
    message: "This API key cannot use this model. GET /v1/models lists the models that it can use.",
    cause: "The key is restricted to other models, or the model does not support this operation.",
    cure: "Use a model from `GET /v1/models`, or ask the operator to allow this model for the key.",
  },
  role_required: {
    status: 403,
    message: "Your role does not allow this. Ask an operator with the role admin.",
    cause: "The role of the operator's token does not include the operation.",
    cure: "Ask an operator with the role `admin` to do it, or for a token with the role that the message names.",
  },
  not_found: {
    status: 404,
    message:
      "This path does not exist. Available: POST /v1/chat/completions, POST /v1/responses, POST /v1/embeddings, POST /v1/messages, POST /v1/messages/count_tokens and GET /v1/models. Full reference: /docs.",
    cause: "The path or the id does not exist, or the provider did not find what the request names.",
    cure: "Compare the path with this reference. The base URL of OpenAI SDKs ends in `/v1`; that of Anthropic SDKs does not. `/admin` exists only if the gateway was started with an admin token.",
  },
  model_not_found: {
    status: 404,
    message: "This model does not exist. GET /v1/models lists the available models.",
    cause: "No configured model has exactly this name.",
    cure: "Use a name from `GET /v1/models`.",
  },
  method_not_allowed: {
    status: 405,
    message: "This path does not support this method. The allow header lists the supported methods.",
    cause: "The path exists, but does not support this method.",
    cure: "Use one of the methods in the `allow` header.",
  },
  request_timeout: {
    status: 408,
    message: "The request body did not arrive in time. Send the request again.",
    cause: "The whole body did not arrive within `limits.body_timeout`.",
    cure: "Send the request again, over a faster connection or with a smaller body.",
  },
  archived: {
    status: 410,
    message: "This part of the ledger is archived. Ask the operator.",
    should_retry: false,
    cause:
      "The call, or a part of the time that a report needs, is in a month whose entries the operator has moved out of the ledger.",
    cure: "Ask the operator for a call. Ask for reports by whole hours or days, and not by session.",
  },
  request_too_large: {
    status: 413,
    message: "The request body is too large. Send a smaller request.",
    cause: "The body is larger than the gateway's `limits.body`, or than the provider accepts.",
    cure: "Send a smaller body. The operator can raise `limits.body`.",
  },
  unsupported_media_type: {
    status: 415,
    message:
      "The request body must be UTF-8 JSON, uncompressed or in gzip or zstd. Send it with content-type: application/json.",
    cause:
      "The content type is missing or is not JSON, the charset is not UTF-8, or the content encoding is neither gzip nor zstd.",
    cure: "Send UTF-8 JSON with `content-type: application/json`, uncompressed or with `content-encoding: gzip` or `zstd`.",
  },
  rate_limited: {
    status: 429,
    message: "Too many requests. Wait before you retry.",
    cause:
      "A budget per minute of tokens or requests has too little left now; the error names it. Or the key reached a limit in `limits.per_key`: too many calls at a time, too many requests a minute, or too many abandoned calls (the client left before output). Or the provider rate-limits the gateway.",
    cure: "Wait for the number of seconds in `retry-after`. SDKs do this automatically. If too many calls are abandoned, set a longer timeout in the client.",
  },
  internal_error: {
    status: 500,
    message:
      "The gateway failed with an internal error. The call was not charged. If this persists, send the request_id to the operator.",
    cause: "A bug in the gateway. Its log has the cause, with the request id.",
    cure: "Retry once. If it fails again, send the request id to the operator.",
  },
  usage_missing: {
    status: 502,
    message:
      "The provider returned an empty response. The call was not charged. Retry only if the provider may run the call twice.",
    should_retry: false,
    cause:
      "The provider returned status 2xx with an empty body. There is nothing to deliver and nothing to charge for. (On the receipt of a call that was charged, `usage_missing` means that the delivered answer lacked usage, and an estimate was charged.)",
    cure: "Retry only if the provider may run the call twice: it may already have processed it. `x-should-retry: false` tells SDKs not to retry.",
  },
  usage_invalid: {
    status: 502,
    message:
      "The provider returned a malformed response. The call was not charged. Retry only if the provider may run the call twice.",
    should_retry: false,
    cause:
      "The provider returned status 2xx with a body that is neither a JSON object nor a whole event stream, such as an HTML page of a proxy.",
    cure: "The operator should check which server answers at the upstream's `base_url`. `x-should-retry: false` tells SDKs not to retry.",
  },
  response_too_large: {
    status: 502,
    message:
      "The provider's response is too large to deliver. The call was charged. Request less output, or use streaming.",
    should_retry: false,
    cause:
      "The provider's JSON answer is larger than `limits.response`, or an event of its stream is larger than `limits.event`, or `limits.memory` had no room for the answer for 75 seconds because clients did not read other answers of the account. The rest was not delivered, but the operator pays for it, so the call was charged: by its usage, or by an estimate.",
    cure: "Ask for less (`n`, `logprobs`, `max_tokens`), or stream. The operator can raise the limits. `x-should-retry: false` tells SDKs not to retry.",
  },
  upstream_error: {
    status: 502,
    message: "The provider failed to complete the request. Retry the request.",
    cause:
      "The provider returned an error or an unreadable response, refused the gateway's credential, or closed the connection early.",
    cure: "Retry. If it persists, the operator finds every failed attempt in the log, and should check the upstream's `api_key`.",
  },
  upstream_unavailable: {
    status: 503,
    message: "No provider for this model is available. Retry in a few seconds.",
    retry_after_s: 2,
    cause:
      "None of the model's providers can be reached, or its circuit breaker is open: for 10 seconds after five failures in a row, if they are of two accounts and your last call failed too, or if it cannot be connected to; after five of your own calls, for you alone.",
    cure: "Wait for the number of seconds in `retry-after`. A second upstream for the model avoids this.",
  },
  overloaded: {
    status: 503,
    message: "The gateway is at capacity. Retry in a few seconds.",
    retry_after_s: 1,
    cause:
      "The process has `limits.in_flight` calls in progress, or no memory left for the body or the answer (`limits.memory`), or the account has its share of either, or too many reads of the account, operator tokens or sign-ins wait, or the gateway shut down before the provider answered.",
    cure: "Retry after `retry-after`; SDKs do this automatically. The operator can add workers or raise the limit.",
  },
  ledger_unavailable: {
    status: 503,
    message:
      "The gateway's database is unavailable. Nothing was sent to the provider and nothing was charged. Retry in a few seconds.",
    retry_after_s: 2,
    cause: "Postgres does not answer, or is too slow to hold new calls in time.",
    cure: "Retry after `retry-after`. The operator should check the database. Calls in progress continue.",
  },
  upstream_timeout: {
    status: 504,
    message: "The provider did not answer in time. Retry with streaming, or with a lower max_tokens.",
    cause:
      "The provider did not answer within the upstream's `timeouts.first_byte` or `timeouts.total`, or reported a timeout itself.",
    cure: "Ask for a shorter answer, or use streaming, which allows long answers. The operator can raise the timeouts.",
  },
} as const satisfies Record<string, CatalogueEntry>

export type ErrorCode = keyof typeof catalogue

/** The `error.type` of each status, which both SDK families read. */
export const errorTypes = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  405: "invalid_request_error",
  408: "timeout_error",
  410: "not_found_error",
  413: "request_too_large",
  415: "invalid_request_error",
  429: "rate_limit_error",
  500: "api_error",
  502: "api_error",
  503: "overloaded_error",
  504: "timeout_error",
} as const satisfies Record<(typeof catalogue)[ErrorCode]["status"], string>

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
  /** Counts one more call that is refused with this error (D80). */
  count?: () => void
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
      type: shown?.type ?? errorTypes[catalogue[error.code].status],
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
