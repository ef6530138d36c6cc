import { GatewayError } from "../errors.ts"
import type { Idempotency } from "../ledger/entries.ts"
import { hashOf } from "./key.ts"

const HEADER = "idempotency-key"
/** Printable ASCII; a header that is sent twice arrives as one value with a comma, and stands for itself. */
const KEY = /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/

/**
 * What a chat call's `Idempotency-Key` and its body, as it was sent, are known by (D43); null without one. Throws
 * `invalid_request` for a key that is none.
 */
export function idempotencyOf(headers: Headers, body: Uint8Array): Idempotency | null {
  const key = headers.get(HEADER)
  if (key === null) return null
  if (!KEY.test(key)) {
    throw new GatewayError("invalid_request", {
      message: "`Idempotency-Key`: expected 1 to 255 printable ASCII characters.",
      param: "Idempotency-Key",
    })
  }
  return { key_hash: hashOf(key), body_hash: hashOf(body) }
}
