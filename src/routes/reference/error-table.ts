import { catalogue, type ErrorCode } from "../../errors.ts"

interface Advice {
  readonly cause: string
  readonly cure: string
}

/** One entry per code of the catalogue (D15). The reference, its page and `docs/errors.md` all use these sentences. */
export const advice: Readonly<Record<ErrorCode, Advice>> = {
  invalid_request: {
    cause: "The request contains something that the gateway or the provider does not accept.",
    cure: "Read the message. It names the field (`param`) and what was expected. Correct the request; do not retry it unchanged.",
  },
  idempotency_key_used: {
    cause:
      "A call with this Idempotency-Key and the same body and headers was made in the last 24 hours. It was not made again and not charged again.",
    cure: "Read the receipt of the call that the error names. Use a new key for a new call.",
  },
  idempotency_key_reused: {
    cause:
      "A call with this Idempotency-Key and a different body, query or `anthropic-beta` header was made in the last 24 hours.",
    cure: "Create a key for each call, such as a random UUID. Reuse it only to retry the same request.",
  },
  tag_not_declared: {
    cause: "The `x-tollgate-tags` header has a tag whose name the operator has not declared.",
    cure: "Correct the name, or ask the operator to add it to `tags` in the configuration.",
  },
  tag_required: {
    cause: "The key requires a tag that the call does not have.",
    cure: "Send it: `x-tollgate-tags: team=search`. If the key ignores tags of clients, ask the operator for a label of the key.",
  },
  invalid_api_key: {
    cause:
      "The credential is missing, malformed, unknown, revoked or expired. Or a client key was sent where the admin token is required, or the reverse.",
    cure: "Send the key as `Authorization: Bearer …` (for messages and token counts, `x-api-key` works too). If the key was revoked or has expired, ask the operator for a new one.",
  },
  insufficient_balance: {
    cause:
      "The most that the call can cost is more than the account's available balance. Calls in progress hold part of the balance.",
    cure: "Add credit, wait for calls in progress to finish, or lower `max_tokens` to the value in the error.",
  },
  spending_limit_reached: {
    cause:
      "The key has a spending limit. What it has spent and holds in the current day or month leaves too little for this call.",
    cure: "Wait for the next day or month (UTC), lower `max_tokens` to the value in the error, or ask the operator for a higher limit.",
  },
  budget_reached: {
    cause:
      "A budget that the call counts in has too little left: of the account, of the key, of its group or of the model. The error has the budget, its limit, what is spent and held, and when it resets.",
    cure: "If `retryable` is true, open calls are in the way: retry after `Retry-After`. Otherwise wait until `resets_at`, lower `max_tokens` to the value in the error, or ask the operator for a higher budget.",
  },
  account_suspended: {
    cause: "The operator suspended the account.",
    cure: "Contact the operator. The balance is kept, and calls in progress finish.",
  },
  key_suspended: {
    cause: "The operator suspended the key.",
    cure: "Contact the operator, or use another key of the account.",
  },
  key_change_not_allowed: {
    cause:
      "The key may not make, rotate or revoke this key: the operator does not allow it, the key has a spending limit or a budget of its own, the other key may do more than it, or it is the last key that works.",
    cure: "Read the message. Use another key of the account, or ask the operator.",
  },
  role_required: {
    cause: "The role of the operator's token does not include the operation.",
    cure: "Ask an operator with the role `admin` to do it, or for a token with the role that the message names.",
  },
  model_not_allowed: {
    cause: "The key is restricted to other models, or the model does not support this operation.",
    cure: "Use a model from `GET /v1/models`, or ask the operator to allow this model for the key.",
  },
  not_found: {
    cause: "The path or the id does not exist, or the provider did not find what the request names.",
    cure: "Compare the path with this reference. The base URL of OpenAI SDKs ends in `/v1`; that of Anthropic SDKs does not. `/admin` exists only if the gateway was started with an admin token.",
  },
  model_not_found: {
    cause: "No configured model has exactly this name.",
    cure: "Use a name from `GET /v1/models`.",
  },
  method_not_allowed: {
    cause: "The path exists, but does not support this method.",
    cure: "Use one of the methods in the `allow` header.",
  },
  request_timeout: {
    cause: "The whole body did not arrive within `limits.body_timeout`.",
    cure: "Send the request again, over a faster connection or with a smaller body.",
  },
  archived: {
    cause:
      "The call, or a part of the time that a report needs, is in a month whose entries the operator has moved out of the ledger.",
    cure: "Ask the operator for a call. Ask for reports by whole hours or days, and not by session.",
  },
  request_too_large: {
    cause: "The body is larger than the gateway's `limits.body`, or than the provider accepts.",
    cure: "Send a smaller body. The operator can raise `limits.body`.",
  },
  unsupported_media_type: {
    cause:
      "The content type is missing or is not JSON, the charset is not UTF-8, or the content encoding is neither gzip nor zstd.",
    cure: "Send UTF-8 JSON with `content-type: application/json`, uncompressed or with `content-encoding: gzip` or `zstd`.",
  },
  rate_limited: {
    cause:
      "A budget per minute of tokens or requests has too little left now; the error names it. Or the key reached a limit in `limits.per_key`: too many calls at a time, too many requests a minute, or too many abandoned calls (the client left before output). Or the provider rate-limits the gateway.",
    cure: "Wait for the number of seconds in `retry-after`. SDKs do this automatically. If too many calls are abandoned, set a longer timeout in the client.",
  },
  internal_error: {
    cause: "A bug in the gateway. Its log has the cause, with the request id.",
    cure: "Retry once. If it fails again, send the request id to the operator.",
  },
  usage_missing: {
    cause:
      "The provider returned status 2xx with an empty body. There is nothing to deliver and nothing to charge for. (On the receipt of a call that was charged, `usage_missing` means that the delivered answer lacked usage, and an estimate was charged.)",
    cure: "Retry only if the provider may run the call twice: it may already have processed it. `x-should-retry: false` tells SDKs not to retry.",
  },
  usage_invalid: {
    cause:
      "The provider returned status 2xx with a body that is neither a JSON object nor a whole event stream, such as an HTML page of a proxy.",
    cure: "The operator should check which server answers at the upstream's `base_url`. `x-should-retry: false` tells SDKs not to retry.",
  },
  response_too_large: {
    cause:
      "The provider's JSON answer is larger than `limits.response`. It was not delivered, but the operator pays for it, so the call was charged: by its usage, or by an estimate of its output.",
    cure: "Ask for less (`n`, `logprobs`, `max_tokens`), or stream. The operator can raise `limits.response`. `x-should-retry: false` tells SDKs not to retry.",
  },
  upstream_error: {
    cause:
      "The provider returned an error or an unreadable response, refused the gateway's credential, or closed the connection early.",
    cure: "Retry. If it persists, the operator finds every failed attempt in the log, and should check the upstream's `api_key`.",
  },
  upstream_unavailable: {
    cause:
      "None of the model's providers can be reached, or its circuit breaker is open: for 10 seconds after five failures in a row, if they are of two accounts or if it cannot be connected to; after five of your own calls, for you alone.",
    cure: "Wait for the number of seconds in `retry-after`. A second upstream for the model avoids this.",
  },
  overloaded: {
    cause:
      "The process has `limits.in_flight` calls in progress, or no memory left for the body (`limits.memory`), or the account has its share of either, or the gateway shut down before the provider answered.",
    cure: "Retry after `retry-after`; SDKs do this automatically. The operator can add workers or raise the limit.",
  },
  ledger_unavailable: {
    cause: "Postgres does not answer, or is too slow to hold new calls in time.",
    cure: "Retry after `retry-after`. The operator should check the database. Calls in progress continue.",
  },
  upstream_timeout: {
    cause:
      "The provider did not answer within the upstream's `timeouts.first_byte` or `timeouts.total`, or reported a timeout itself.",
    cure: "Ask for a shorter answer, or use streaming, which allows long answers. The operator can raise the timeouts.",
  },
}

/** Every code of the catalogue, in the catalogue's order, as a Markdown table. */
export function errorTable(): string {
  const texts: Readonly<Record<string, Advice>> = advice
  const rows = Object.entries(catalogue).map(([code, { status }]) => {
    return `| ${status} | \`${code}\` | ${texts[code]?.cause} | ${texts[code]?.cure} |`
  })
  return ["| Status | Code | Cause | What to do |", "|---|---|---|---|", ...rows].join("\n")
}

/** The cause of one code and what to do about it, in Markdown. */
export function adviceText(code: ErrorCode): string {
  const { cause, cure } = advice[code]
  return `\`${code}\`: ${cause} **What to do:** ${cure}`
}
