import { timingSafeEqual } from "node:crypto"
import { Elysia } from "elysia"
import { GatewayError } from "../../errors.ts"
import { parseId } from "../../id.ts"
import { readJsonBody } from "../../wire/json.ts"
import { readBody } from "../request-body.ts"
import { forbidStoring, readQuery } from "../routing.ts"
import { accountRoutes } from "./accounts.ts"
import { callRoutes } from "./calls.ts"
import { creditRoutes } from "./credits.ts"
import { keyRoutes } from "./keys.ts"
import { ledgerCheckRoutes } from "./ledger-checks.ts"
import type { Operators } from "./operators.ts"
import { reportRoutes } from "./reports.ts"
import { upstreamRoutes } from "./upstreams.ts"

export type { Operators }

/**
 * `/admin`, for operators: every route behind the one token, which comes before the body and the parameters (D30). Without a token there is no such route, and every address below
 * it is as unknown as any other.
 */
export function adminRoutes(operators: Operators) {
  const admin = new Elysia({ name: "admin", prefix: "/admin" })
  const { admin_token } = operators
  if (admin_token === null) return admin
  const guard = ({ request }: { request: Request }) => {
    authorize(request.headers.get("authorization"), admin_token)
  }
  return admin
    .onParse(guard)
    .onParse(({ request, params: { id } = {} }) => jsonBody(request, id, operators))
    .onTransform(guard)
    .derive(readQuery)
    .onAfterHandle(forbidStoring)
    .use(accountRoutes(operators))
    .use(creditRoutes(operators))
    .use(keyRoutes(operators))
    .use(callRoutes(operators))
    .use(reportRoutes(operators))
    .use(upstreamRoutes(operators))
    .use(ledgerCheckRoutes(operators))
}

/**
 * The JSON object that a request carries, which Elysia validates. An id that is none is reported before the faults of a
 * body (D30), so then it is not looked at; nor where no operation takes one.
 */
async function jsonBody(
  request: Request,
  id: string | null | undefined,
  { limits }: Operators,
): Promise<object> {
  const is_unread = request.method === "DELETE" || (id !== undefined && (id === null || parseId(id) === null))
  return is_unread ? {} : readJsonBody(await readBody(request, limits))
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
