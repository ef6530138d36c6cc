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

/**
 * Messages and token counts: `x-api-key` or `Authorization: Bearer`. A client that sends both with different keys is served
 * by the one that has the form of a key of ours; if both have it, or neither, it is refused.
 */
export function messagesCredential(headers: Headers): string {
  const named = headers.get("x-api-key")
  const borne = bearer(headers.get("authorization"))
  const is_ours = named !== null && checksumHolds(named)
  if (!is_ours) return wellFormed(borne)
  if (borne !== null && borne !== named && checksumHolds(borne)) {
    throw new GatewayError("invalid_api_key", {
      message: "The x-api-key and Authorization headers contain different keys. Send one key.",
    })
  }
  return named
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
