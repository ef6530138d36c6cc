import { expect } from "bun:test"
import type { Answer } from "../support/answer.ts"

/** D15 and D16 once more, in the tests' own hand: what status and `error.type` each code has, and what headers it brings. */
export const KINDS = {
  invalid_request: [400, "invalid_request_error"],
  invalid_api_key: [401, "authentication_error"],
  insufficient_balance: [402, "billing_error"],
  spending_limit_reached: [402, "billing_error"],
  account_suspended: [403, "permission_error"],
  key_suspended: [403, "permission_error"],
  model_not_allowed: [403, "permission_error"],
  not_found: [404, "not_found_error"],
  model_not_found: [404, "not_found_error"],
  method_not_allowed: [405, "invalid_request_error"],
  request_timeout: [408, "timeout_error"],
  request_too_large: [413, "request_too_large"],
  unsupported_media_type: [415, "invalid_request_error"],
  rate_limited: [429, "rate_limit_error"],
  internal_error: [500, "api_error"],
  usage_missing: [502, "api_error"],
  usage_invalid: [502, "api_error"],
  response_too_large: [502, "api_error"],
  upstream_error: [502, "api_error"],
  upstream_unavailable: [503, "overloaded_error"],
  overloaded: [503, "overloaded_error"],
  ledger_unavailable: [503, "overloaded_error"],
  upstream_timeout: [504, "timeout_error"],
} as const

export type Code = keyof typeof KINDS

/** Those after which a client is told not to try again: the provider has done the work, or the key stays wrong. */
const FINAL: ReadonlySet<Code> = new Set([
  "invalid_api_key",
  "usage_missing",
  "usage_invalid",
  "response_too_large",
])

/** What else an error says; what is not given here must not be there. */
export interface Said {
  readonly param?: string
  readonly message?: string | RegExp
  /** Further fields of `error` (D12). */
  readonly fields?: Readonly<Record<string, string | number>>
  /** A provider's own identifiers (D17). */
  readonly shown?: { readonly code?: string; readonly type?: string }
  readonly headers?: Readonly<Record<string, string>>
}

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** The answer is this error, whole and in D16's one shape: no field more, no header more. Returns its message. */
export function expectError(answer: Answer, code: Code, said: Said = {}): string {
  const [status, type] = KINDS[code]
  const id = expectIds(answer)
  const { error }: { readonly error?: { readonly message?: unknown } } = JSON.parse(answer.body)
  const message = typeof error?.message === "string" ? error.message : ""
  expect({ status: answer.status, body: answer.json }).toEqual({
    status,
    body: {
      type: "error",
      error: {
        type: said.shown?.type ?? type,
        message,
        param: said.param ?? null,
        code: said.shown?.code ?? code,
        ...said.fields,
      },
      request_id: id,
    },
  })
  expect(message).not.toBe("")
  if (said.message !== undefined) expect(message).toMatch(said.message)
  expect(ownHeaders(answer)).toEqual({
    "content-type": "application/json",
    "x-request-id": id,
    "request-id": id,
    ...(status === 503 && { "retry-after": expect.stringMatching(/^[1-5]$/) }),
    ...(FINAL.has(code) && { "x-should-retry": "false" }),
    ...said.headers,
  })
  return message
}

/** The answer carries the two request ids, which are the same. Returns the id. */
export function expectIds({ headers }: Answer): string {
  expect(headers["x-request-id"]).toMatch(ID)
  expect(headers["request-id"]).toBe(headers["x-request-id"] ?? "")
  return headers["x-request-id"] ?? ""
}

/** An answer's headers without those of the framing and of the connection. */
export function ownHeaders({ headers }: Answer): Record<string, string> {
  const { date, connection, "content-length": length, "transfer-encoding": encoding, ...own } = headers
  return own
}
