import { timingSafeEqual } from "node:crypto"
import { Elysia } from "elysia"
import { GatewayError } from "../../errors.ts"
import { accountRoutes } from "./accounts.ts"
import { auditRoutes } from "./audit.ts"
import { callRoutes } from "./calls.ts"
import { creditRoutes } from "./credits.ts"
import { keyRoutes } from "./keys.ts"
import type { Operators } from "./operators.ts"
import { statisticsRoutes } from "./statistics.ts"
import { upstreamRoutes } from "./upstreams.ts"
import { usageRoutes } from "./usage.ts"

export type { Operators }

/**
 * `/admin`, for operators: every route behind the one token. Without a token there is no such route, and every address below
 * it is as unknown as any other.
 */
export function adminRoutes(operators: Operators) {
  const admin = new Elysia({ name: "admin", prefix: "/admin" })
  const { admin_token } = operators
  if (admin_token === null) return admin
  return admin
    .onBeforeHandle(({ request }) => {
      authorize(request.headers.get("authorization"), admin_token)
    })
    .use(accountRoutes(operators))
    .use(creditRoutes(operators))
    .use(keyRoutes(operators))
    .use(callRoutes(operators))
    .use(usageRoutes(operators))
    .use(statisticsRoutes(operators))
    .use(upstreamRoutes(operators))
    .use(auditRoutes(operators))
}

/** Throws unless `Authorization: Bearer` carries the token (D15). The time it takes says nothing about either. */
function authorize(header: string | null, admin_token: string): void {
  const [, given] = /^Bearer +(\S+) *$/i.exec(header ?? "") ?? []
  if (given === undefined || !timingSafeEqual(digest(given), digest(admin_token))) {
    throw new GatewayError("invalid_api_key", {
      message: "The admin token is missing or incorrect. Send it as Authorization: Bearer <token>.",
    })
  }
}

/** Digests have one length, which the comparison needs; a secret's own length stays hidden. */
function digest(secret: string): Buffer {
  return new Bun.CryptoHasher("sha256").update(secret).digest()
}
