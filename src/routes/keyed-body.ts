import { hashOf } from "../admission/key.ts"
import type { Gateway } from "../gateway.ts"
import { readBody } from "./request-body.ts"

/** The body of a request, and the hash of the key it came with. */
export interface KeyedBody {
  readonly key_hash: string
  readonly bytes: Uint8Array
}

/**
 * What calls, quotes and token counts do alike, in the order of D30: the credential's form, then what `refuse` knows
 * against the key before a body is looked at (D38), then the body's media type and size.
 */
export async function readKeyedBody(
  gateway: Gateway,
  request: Request,
  credentialOf: (headers: Headers) => string,
  refuse: (gateway: Gateway, key_hash: string) => void,
): Promise<KeyedBody> {
  const key_hash = hashOf(credentialOf(request.headers))
  refuse(gateway, key_hash)
  return { key_hash, bytes: await readBody(request, gateway.config.limits) }
}
