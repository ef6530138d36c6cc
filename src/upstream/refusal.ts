import { type ErrorCode, GatewayError } from "../errors.ts"
import { pathOf } from "../wire/fault.ts"
import { isObject, parseJson } from "../wire/usage.ts"

/** A provider's answer with another status than 2xx. */
export interface ProviderRefusal {
  readonly status: number
  /** The result of `retryAfter`. */
  readonly retry_after: string | null
  /** The part that was read; `""` for nothing. */
  readonly body: string
  /** The upstream's secrets, which the message must not repeat. */
  readonly secrets: readonly string[]
}

/** A provider's refusal, as the client sees it (D17). */
export interface RefusalForm {
  isRead(status: number): boolean
  errorOf(refusal: ProviderRefusal): GatewayError
}

export function refusalError(refusal: ProviderRefusal): GatewayError {
  const code = codeForStatus(refusal.status)
  switch (code) {
    case "invalid_request":
    case "not_found":
    case "request_too_large":
      return new GatewayError(code, { message: OWN_MESSAGE[code], ...shownFields(refusal) })
    case "rate_limited":
    case "upstream_unavailable":
      return new GatewayError(
        code,
        refusal.retry_after === null ? {} : { headers: { "retry-after": refusal.retry_after } },
      )
    default:
      return new GatewayError(code)
  }
}

/**
 * The error for a client of the messages family (D64): the provider's status and body, unchanged except for the
 * credential, because clients act on the wording. D17 applies to a body that is not a JSON error, and to an error about
 * the credential.
 */
export function shownRefusal(refusal: ProviderRefusal): GatewayError {
  const { status, retry_after, body, secrets } = refusal
  const error = refusalError(refusal)
  const parsed = parseJson(body)
  if (!isShown(status) || !isObject(parsed) || !isObject(parsed.error)) return error
  return new GatewayError(error.code, {
    ...error.detail,
    ...(retry_after !== null && { headers: { "retry-after": retry_after } }),
    provider: { status, body: redacted(body, secrets) },
  })
}

/** True for a valid HTTP status that is not about the gateway's credential. */
export function isShown(status: number): boolean {
  return status >= 400 && status < 600 && status !== 401 && status !== 402 && status !== 403
}

/** The error for an error event in a provider's stream (D10), with the provider's message as in D17. */
export function eventError(body: string, secrets: readonly string[]): GatewayError {
  return new GatewayError("upstream_error", shownFields({ body, secrets }))
}

/** True if the body of an answer with this status is shown to the client. If not, it need not be read. */
export function isBodyShown(status: number): boolean {
  return codeForStatus(status) in OWN_MESSAGE
}

const OWN_MESSAGE = {
  invalid_request:
    "The provider refused the request as invalid. Compare it with the provider's API reference.",
  not_found:
    "The provider did not find what this request names. Ask the operator to check the model's configuration.",
  request_too_large: "The request is too large for the provider. Send a smaller request.",
} satisfies Partial<Record<ErrorCode, string>>

function codeForStatus(status: number) {
  switch (status) {
    case 404:
      return "not_found"
    case 413:
      return "request_too_large"
    case 429:
      return "rate_limited"
    case 408:
    case 504:
      return "upstream_timeout"
    case 503:
    case 529:
      return "upstream_unavailable"
    case 401:
    case 402:
    case 403:
      return "upstream_error"
    default:
      return status >= 400 && status < 500 ? "invalid_request" : "upstream_error"
  }
}

const MAX_MESSAGE_CHARACTERS = 1_000
const IDENTIFIER = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/
const FIELD_PATH = /^[A-Za-z_][A-Za-z0-9_.[\]-]{0,127}$/

/** The message and the identifiers of a provider's error body, without the credential. Nothing else of it is shown. */
function shownFields({ body, secrets }: Pick<ProviderRefusal, "body" | "secrets">) {
  const { message, type, code, param } = errorObject(body)
  const text = typeof message === "string" ? cleaned(message, secrets) : ""
  const shown = {
    ...(isClean(code, IDENTIFIER, secrets) && { code }),
    ...(isClean(type, IDENTIFIER, secrets) && { type }),
  }
  return {
    ...(text.trim() !== "" && { message: text }),
    ...(isClean(param, FIELD_PATH, secrets) && { param }),
    shown,
  }
}

/** The part of a message that is read, because it may have megabytes. */
const READ_CHARACTERS = 65_536

/** Redacts before it truncates, so that no part of a credential is left. */
function cleaned(message: string, secrets: readonly string[]): string {
  const read = redacted(message.slice(0, READ_CHARACTERS), secrets)
  // Its end may be a part of a credential.
  const cut = message.length > READ_CHARACTERS ? Math.max(...secrets.map(({ length }) => length), 0) : 0
  const text = read.slice(0, read.length - cut)
  return text.length <= MAX_MESSAGE_CHARACTERS
    ? text
    : [...text.slice(0, 2 * MAX_MESSAGE_CHARACTERS)].slice(0, MAX_MESSAGE_CHARACTERS).join("")
}

function isClean(value: unknown, form: RegExp, secrets: readonly string[]): value is string {
  return typeof value === "string" && form.test(value) && redacted(value, secrets) === value
}

/** A shorter secret, such as `k` or `EMPTY`, is redacted only as a separate word. */
const LONG_CHARACTERS = 8

/** The text without the secrets of an upstream (D17). */
export function redacted(text: string, secrets: readonly string[]): string {
  return secrets.reduce((left, secret) => {
    if (secret === "" || !left.includes(secret)) return left
    return secret.length < LONG_CHARACTERS ? withoutWord(left, secret) : left.replaceAll(secret, REDACTED)
  }, text)
}

const REDACTED = "[redacted]"

function withoutWord(text: string, secret: string): string {
  const [first = "", ...others] = text.split(secret)
  const pieces = [first]
  let last = first.at(-1)
  // Reading the last character of a growing text would copy all of it each time.
  for (const right of others) {
    const between = isLetter(last) || isLetter(right[0]) ? secret : REDACTED
    pieces.push(between, right)
    last = right.at(-1) ?? between.at(-1)
  }
  return pieces.join("")
}

function isLetter(character = ""): boolean {
  return /^[\p{L}\p{N}]$/u.test(character)
}

/** The error's fields: below `error`, at the top, or first in a list. The message may be a list of faults. */
export function errorObject(body: string): Record<string, unknown> {
  const parsed = parseJson(body)
  const object: unknown = Array.isArray(parsed) ? parsed[0] : parsed
  if (!isObject(object)) return {}
  if (isObject(object.error)) return object.error
  if (typeof object.error === "string") return { message: object.error }
  return { ...object, message: wordsOf(object.message ?? object.detail) }
}

const SHOWN_FAULTS = 3

/** Faults as one text: path and message, without their `input`, which the client sent. Mistral wraps the list once more. */
function wordsOf(value: unknown): unknown {
  const list = isObject(value) ? value.detail : value
  if (!Array.isArray(list)) return value
  const words = list.slice(0, SHOWN_FAULTS).map((fault: unknown) => {
    if (!isObject(fault) || typeof fault.msg !== "string") return ""
    const keys = Array.isArray(fault.loc) ? fault.loc.filter(isKey).map(String) : []
    return keys.length === 0 ? fault.msg : `${pathOf(keys)}: ${fault.msg}`
  })
  return words.filter((text) => text !== "").join("; ")
}

function isKey(value: unknown): boolean {
  return typeof value === "string" || typeof value === "number"
}
