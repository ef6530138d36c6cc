import { GatewayError } from "../errors.ts"
import { checksumHolds } from "./key.ts"

/**
 * The key of a request (D20), checked by its form alone. Throws `invalid_api_key` if there is none, or none in the form
 * of a key. A header that is sent twice arrives joined by a comma, which no key contains. Query strings are never read.
 */

/** The scheme is case-insensitive (RFC 9110 section 11.1); the key is not. */
const BEARER = /^[Bb][Ee][Aa][Rr][Ee][Rr] +([^ ]+)$/

/** Chat: `Authorization: Bearer`; `x-api-key` is ignored. */
export function chatCredential(headers: Headers): string {
  return wellFormed(bearer(headers.get("authorization")))
}

/** Count tokens: `x-api-key`, or `Authorization: Bearer` when that is absent; both only when they say the same. */
export function messagesCredential(headers: Headers): string {
  const named = headers.get("x-api-key")
  const authorization = headers.get("authorization")
  if (named === null) return wellFormed(bearer(authorization))
  if (authorization !== null && bearer(authorization) !== named) {
    throw new GatewayError("invalid_api_key", {
      message: "The x-api-key and Authorization headers contain different keys. Send one key.",
    })
  }
  return wellFormed(named)
}

/** Model list: as for chat, or with a version header as for count tokens. */
export function modelListCredential(headers: Headers, hasVersionHeader: boolean): string {
  return hasVersionHeader ? messagesCredential(headers) : chatCredential(headers)
}

function bearer(authorization: string | null): string | null {
  return BEARER.exec(authorization ?? "")?.[1] ?? null
}

function wellFormed(key: string | null): string {
  if (key === null || !checksumHolds(key)) throw new GatewayError("invalid_api_key")
  return key
}
