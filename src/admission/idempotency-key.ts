import { GatewayError } from "../errors.ts"
import type { Idempotency } from "../ledger/entries.ts"
import type { OperationName } from "../wire/call.ts"
import { hashOf } from "./key.ts"

const HEADER = "idempotency-key"
/** Printable ASCII. A header that is sent twice arrives as one value with a comma, and counts as that value. */
const KEY = /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/

/**
 * The hashes of a call's `Idempotency-Key`, and of its operation and its body as sent (D43); null without the header.
 * Throws `invalid_request` for a malformed key.
 */
export function idempotencyOf(
  headers: Headers,
  operation: OperationName,
  body: Uint8Array,
): Idempotency | null {
  const key = headers.get(HEADER)
  if (key === null) return null
  if (!KEY.test(key)) {
    throw new GatewayError("invalid_request", {
      message: "`Idempotency-Key`: expected 1 to 255 printable ASCII characters.",
      param: "Idempotency-Key",
    })
  }
  return { key_hash: hashOf(key), body_hash: hashOf(requestOf(operation, body)) }
}

/** The bytes alone for a chat call, so that keys which were taken before there were operations count as the same. */
function requestOf(operation: OperationName, body: Uint8Array): Uint8Array {
  return operation === "chat" ? body : Buffer.concat([Buffer.from(`${operation}\n`), body])
}
