import { timingSafeEqual } from "node:crypto"
import { GatewayError } from "../../errors.ts"

/** A hook that throws unless the request has `Authorization: Bearer` with the admin token (D15). */
export function operatorsOnly(admin_token: string) {
  const expected = digest(admin_token)
  return ({ request: { headers } }: { readonly request: Request }): void => {
    const [, given] = /^Bearer +(\S+) *$/i.exec(headers.get("authorization") ?? "") ?? []
    if (given === undefined || !timingSafeEqual(digest(given), expected)) {
      throw new GatewayError("invalid_api_key", {
        message: "The admin token is missing or incorrect. Send it as Authorization: Bearer <token>.",
      })
    }
  }
}

/** A comparison in constant time needs equal lengths. Digests have one, and hide the length of the secret. */
function digest(secret: string): Buffer {
  return new Bun.CryptoHasher("sha256").update(secret).digest()
}
