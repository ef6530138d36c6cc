import { checksumHolds } from "../admission/key.ts"
import { catalogue, GatewayError } from "../errors.ts"
import type { AgentSession } from "../wire/call.ts"

/**
 * Reads the headers of a request: its key (D20), its API version (D21), and the headers to forward (D65).
 *
 * The functions for credentials check only the form of a key, and throw `invalid_api_key`. A header that is sent twice
 * arrives as one value with a comma, which no key contains. Query strings are never read.
 */

/** The scheme is case-insensitive (RFC 9110 section 11.1); the key is not. */
const BEARER = /^[Bb][Ee][Aa][Rr][Ee][Rr] +[^ ]+$/

/** Chat: `Authorization: Bearer`; `x-api-key` is ignored. */
export function chatCredential(headers: Headers): string {
  return wellFormed(bearer(headers.get("authorization")))
}

/** The same, without a check of its form. */
export function uncheckedCredential(headers: Headers): string {
  const key = bearer(headers.get("authorization"))
  if (key === null) throw new GatewayError("invalid_api_key")
  return key
}

/**
 * Messages and token counts: `x-api-key` or `Authorization: Bearer`. A client that sends both with different keys is served
 * by the one in the form of a Tollgate key. If both have that form, or neither has it, the request is refused.
 */
export function messagesCredential(headers: Headers): string {
  const x_api_key = headers.get("x-api-key")
  const token = bearer(headers.get("authorization"))
  const is_ours = x_api_key !== null && checksumHolds(x_api_key)
  if (!is_ours) return wellFormed(token)
  if (token !== null && token !== x_api_key && checksumHolds(token)) {
    throw new GatewayError("invalid_api_key", {
      message: "The x-api-key and Authorization headers contain different keys. Send one key.",
    })
  }
  return x_api_key
}

/** Model list: as for chat, or with a version header as for count tokens. */
export function modelListCredential(headers: Headers, hasVersionHeader: boolean): string {
  return hasVersionHeader ? messagesCredential(headers) : chatCredential(headers)
}

function bearer(authorization: string | null): string | null {
  if (authorization === null || !BEARER.test(authorization)) return null
  return authorization.slice(authorization.lastIndexOf(" ") + 1)
}

function wellFormed(key: string | null): string {
  if (key === null || !checksumHolds(key)) throw new GatewayError("invalid_api_key")
  return key
}

/** The vendor of a messages API, and the version of that API, a calendar date (D21). */
type VendorVersion = ReturnType<typeof vendorVersion>

const DATE = /^\d{4}-\d{2}-\d{2}$/
/** Limits for the headers and the query string that are forwarded (D65). */
const MAX_HEADERS = 32
const MAX_CHARS = 2048
const PRINTABLE = /^[\x20-\x7e]*$/
/** A key of this gateway must not reach a provider. */
const OWN_KEY = /tg_live_/i

/** The first configured vendor whose version header is present. */
export function vendorOf(headers: Headers, vendors: readonly string[]): string | undefined {
  return vendors.find((vendor) => headers.has(versionHeader(vendor)))
}

export function hasVersionHeader(headers: Headers, vendors: readonly string[]): boolean {
  return vendorOf(headers, vendors) !== undefined
}

/** Anthropic SDKs append `/v1` to their base URL. */
const TWICE_V1 = `${catalogue.not_found.message} The base URL of Anthropic SDKs has no /v1.`

/** The vendor in a path that ends with `suffix`, unescaped (D21). Throws `not_found` if not in `vendors`. */
export function vendorInPath(path: string, suffix: string, vendors: readonly string[]): string {
  const vendor = path.slice(1, -suffix.length)
  if (vendors.includes(vendor)) return vendor
  throw new GatewayError("not_found", vendor === "v1" ? { message: TWICE_V1 } : {})
}

/**
 * The version that a request asks for. On a vendor's path it is that vendor's header; on the plain path (`pathVendor`
 * null), the header of exactly one configured vendor. Throws `invalid_request`, with the header's name as `param`, if
 * it is missing, doubled, or not a calendar date. The result is safe to send on as a header.
 */
export function vendorVersion(headers: Headers, vendors: readonly string[], pathVendor: string | null) {
  const vendor = pathVendor ?? theOneVendor(headers, vendors)
  const name = versionHeader(vendor)
  const version = headers.get(name)
  if (version === null)
    throw invalid(name, `The ${name} header is required. Set it to a date such as 2023-06-01.`)
  if (!isCalendarDate(version))
    throw invalid(name, `The ${name} header must be one date, such as 2023-06-01.`)
  return { vendor, version }
}

/**
 * The headers of a request that are forwarded (D65): its version, and every other header of its vendor, such as
 * `<vendor>-beta`. Throws `invalid_request` for more than 32 of them, a value of more than 2,048 printable ASCII characters,
 * and one with a key of this gateway in it.
 */
export function passedHeaders(headers: Headers, { vendor, version }: VendorVersion): Record<string, string> {
  const passed: Record<string, string> = { [versionHeader(vendor)]: version }
  const prefix = `${vendor}-`
  let count = 0
  headers.forEach((value, name) => {
    if (!name.startsWith(prefix) || value === "" || name in passed) return
    count += 1
    if (count > MAX_HEADERS) throw invalid(name, `At most ${MAX_HEADERS} ${prefix}* headers can be sent.`)
    passed[name] = forwardable(value, name, `The ${name} header`)
  })
  return passed
}

/** The query string of a URL with its question mark, within the same limits. Empty if there is none. */
export function passedQuery(url: string): string {
  const start = url.indexOf("?")
  return start === -1 ? "" : forwardable(url.slice(start), "query", "The query string")
}

/** The form of a session or agent id that a client made. The ledger stores it unchanged. */
const CLIENT_ID = /^(?!null$)[\w.:-]{1,128}$/i

/** The session and the agent of a request (D65). Null if it names none, or none in a valid form. */
export function sessionOf(headers: Headers): AgentSession | null {
  const session_id = clientId(headers.get("x-claude-code-session-id"))
  const agent_id = clientId(headers.get("x-claude-code-agent-id"))
  return session_id === null && agent_id === null ? null : { session_id, agent_id }
}

function clientId(value: string | null): string | null {
  return value !== null && CLIENT_ID.test(value) ? value : null
}

function forwardable(value: string, param: string, what: string): string {
  if (value.length > MAX_CHARS || !PRINTABLE.test(value))
    throw invalid(param, `${what} must be at most ${MAX_CHARS} printable ASCII characters.`)
  if (OWN_KEY.test(value)) throw invalid(param, `${what} must not contain an API key.`)
  return value
}

function theOneVendor(headers: Headers, vendors: readonly string[]): string {
  const named = vendors.filter((vendor) => headers.has(versionHeader(vendor)))
  const [vendor, second] = named
  if (vendor === undefined) {
    const names = vendors.map(versionHeader)
    throw invalid(
      names[0] ?? "version",
      `A version header is required: ${names.join(" or ") || "no vendor is configured"}.`,
    )
  }
  if (second !== undefined) {
    throw invalid(
      versionHeader(second),
      `Send only one version header, not ${named.map(versionHeader).join(" and ")}.`,
    )
  }
  return vendor
}

/** A day that exists: 2024-02-29 does, 2023-02-29 does not. */
function isCalendarDate(text: string): boolean {
  if (!DATE.test(text)) return false
  const time_ms = Date.parse(`${text}T00:00:00Z`)
  return !Number.isNaN(time_ms) && new Date(time_ms).toISOString().startsWith(text)
}

function versionHeader(vendor: string): string {
  return `${vendor}-version`
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError("invalid_request", { param, message })
}
