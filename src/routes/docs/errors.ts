import { catalogue, type ErrorCode } from "../../errors.ts"

/** Why an error comes, and what whoever meets it can do. */
interface Advice {
  readonly cause: string
  readonly cure: string
}

/** Of every code of the catalogue (D15): the same sentences in the reference, on its page and in `docs/errors.md`. */
export const advice: Readonly<Record<ErrorCode, Advice>> = {
  invalid_request: {
    cause: "The request says something that the gateway or the provider cannot read, or may not say.",
    cure: "Read the message, which names the field (`param`) and what was expected there, and mend the request. Sending it again unchanged fails again.",
  },
  idempotency_key_used: {
    cause:
      "A call was made with this Idempotency-Key and the same body within 24 hours. It was not made again, and nothing was charged again.",
    cure: "Look up the call that the error names: its receipt tells the outcome. For another call take another key.",
  },
  idempotency_key_reused: {
    cause: "A call was made with this Idempotency-Key within 24 hours, and its body was another one.",
    cure: "Make a key for each call, such as a random UUID, and send it again only with the same body.",
  },
  invalid_api_key: {
    cause:
      "The credential is missing, mistyped, unknown, revoked or expired; or it is a client's where the operator's token belongs, or the reverse.",
    cure: "Send the key as `Authorization: Bearer …` (token counts: `x-api-key`). Ask the operator for a new key where the old one was revoked or has expired.",
  },
  insufficient_balance: {
    cause:
      "What the call could cost at most is more than the account has available; open calls hold money too.",
    cure: "Put money on the account, wait for open calls to end, or lower `max_tokens` to what the error names.",
  },
  spending_limit_reached: {
    cause:
      "The key has a spending limit, and what it has spent and holds in this day or month leaves too little for this call.",
    cure: "Wait for the next day or month (UTC), lower `max_tokens` to what the error names, or ask the operator for a higher limit.",
  },
  account_suspended: {
    cause: "The operator has suspended the account.",
    cure: "Ask the operator. Its balance stays, and its calls that run go on.",
  },
  key_suspended: {
    cause: "The operator has suspended the key.",
    cure: "Ask the operator, or use another key of the account.",
  },
  model_not_allowed: {
    cause: "The key is limited to other models, or the model belongs to the other family of operations.",
    cure: "Use a model of the list that the key sees (`GET /v1/models`), or ask the operator for a key that may use this one.",
  },
  not_found: {
    cause:
      "There is nothing at this address or under this id; or the provider does not know what the request names.",
    cure: "Compare the address with this reference: OpenAI SDKs take a base URL that ends in `/v1`, Anthropic SDKs one that does not. `/admin` exists only where the gateway was started with a token.",
  },
  model_not_found: {
    cause: "No configured model has this name, byte for byte.",
    cure: "Take the name from `GET /v1/models`.",
  },
  method_not_allowed: {
    cause: "The address exists, but not for this method.",
    cure: "Use one of the methods that the `allow` header names.",
  },
  request_timeout: {
    cause: "The body did not arrive whole within `limits.body_timeout`.",
    cure: "Send it again, over a faster connection or in a smaller request.",
  },
  request_too_large: {
    cause: "The body is larger than `limits.body` of the gateway, or than the provider takes.",
    cure: "Send less at a time; the operator can raise `limits.body`.",
  },
  unsupported_media_type: {
    cause:
      "The content type is missing or another than JSON, the charset is not UTF-8, or the body is compressed.",
    cure: "Send plain UTF-8 JSON with `content-type: application/json`.",
  },
  rate_limited: {
    cause: "The key has reached `limits.per_key`, or the provider limits the gateway.",
    cure: "Wait as many seconds as `retry-after` says; SDKs do so by themselves.",
  },
  internal_error: {
    cause: "A defect of the gateway. Its log has the reason under the request's id.",
    cure: "Try once more; if it stays, give the operator the request's id.",
  },
  usage_missing: {
    cause:
      "The provider answered 2xx with nothing in the body, so there is nothing to deliver and nothing to charge by.",
    cure: "Try again if the call may run twice at the provider. SDKs are told not to, because the provider may have done the work.",
  },
  usage_invalid: {
    cause: "The provider answered 2xx with something that is no JSON object, such as a page of a proxy.",
    cure: "The operator should look at what stands at the upstream's `base_url`. SDKs are told not to try again.",
  },
  response_too_large: {
    cause:
      "The provider's JSON answer is larger than `limits.response`. It was not delivered, but the provider made it: it was charged, by its usage or by the output seen.",
    cure: "Ask for less (`n`, `logprobs`, `max_tokens`), or stream. The operator can raise `limits.response`. SDKs are told not to try again.",
  },
  upstream_error: {
    cause: "The provider failed, answered nonsense, refused the gateway's own credential, or broke off.",
    cure: "Try again. If it stays, the operator finds each failed attempt in the log, and should check the upstream's `api_key`.",
  },
  upstream_unavailable: {
    cause:
      "None of the model's providers can be reached, or all of them have failed so often that they are left alone for ten seconds.",
    cure: "Wait as many seconds as `retry-after` says. A second upstream for the model helps the next time.",
  },
  overloaded: {
    cause:
      "The process has `limits.in_flight` calls at work already, or the gateway was stopped before the provider had answered.",
    cure: "Try again after `retry-after`; SDKs do so by themselves. The operator can add workers or raise the limit.",
  },
  ledger_unavailable: {
    cause: "Postgres does not answer, or is so far behind that no new call can be held in time.",
    cure: "Try again after `retry-after`. The operator looks after the database; calls that run go on meanwhile.",
  },
  upstream_timeout: {
    cause:
      "The provider did not answer within `timeouts.first_byte` or `timeouts.total` of its upstream, or said so itself.",
    cure: "Ask for less, or stream, so that the answer may take its time; the operator can raise the timeouts.",
  },
}

/** Every code of the catalogue, in its order, as a table in Markdown. */
export function errorTable(): string {
  const texts: Readonly<Record<string, Advice>> = advice
  const rows = Object.entries(catalogue).map(([code, { status }]) => {
    return `| ${status} | \`${code}\` | ${texts[code]?.cause} | ${texts[code]?.cure} |`
  })
  return ["| Status | Code | Cause | Cure |", "|---|---|---|---|", ...rows].join("\n")
}

/** The cause and the cure of one code, in Markdown. */
export function adviceText(code: ErrorCode): string {
  const { cause, cure } = advice[code]
  return `\`${code}\`: ${cause} **Cure:** ${cure}`
}
