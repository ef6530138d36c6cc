import { timingSafeEqual } from "node:crypto"
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { Actor } from "../../ledger/accounts/operators.ts"
import { OIDC } from "../../oidc/person.ts"
import { SessionBody } from "../../wire/operators.ts"
import { answer, SESSION_COOKIE } from "../reference/operation.ts"
import { ofOperators } from "../reference/routes.ts"
import { forbidStoring } from "../routing.ts"
import { actorOf, authorized, isAuthorized, operatorsOnly, type SessionRequest } from "./authorize.ts"
import { beginning, ending } from "./change-log.ts"
import type { Operators } from "./operators.ts"

const SESSION_S = 12 * 3_600
const SECRET_BYTES = 32
/** The length of `SECRET_BYTES` bytes in Base64url. */
const RANDOM_CHARACTERS = 43
/** The attribute of a cookie that is sent by HTTPS only. */
export const SECURE = "; Secure"

/** `/admin/session`: the console signs in with the admin token and gets a session cookie (D50). */
export function sessionRoutes(operators: Operators, admin_token: string) {
  const { ledger } = operators
  const guard = operatorsOrConsole(operators, admin_token)
  return new Elysia({ name: "admin-session" })
    .onAfterHandle(forbidStoring)
    .onBeforeHandle(beginning(operators))
    .onAfterHandle(ending)
    .get(
      "/session",
      ({ request }) => {
        const { name: actor, role } = actorOf(request)
        return { actor, role }
      },
      {
        ...ofOperators({
          response: {
            200: answer("Who the request comes from.", SessionBody, {
              configured: { actor: "configured", role: "admin" },
            }),
          },
          operationId: "getSession",
          tag: "Service",
          summary: "Show who is signed in",
          description:
            "Returns the name and the role of the operator whose token or session the request has.",
          credentials: ["adminToken", "adminSession"],
        }),
        transform: guard,
      },
    )
    .post(
      "/session",
      async ({ request, set, status }) => {
        const secure = secureAttribute(request.headers)
        set.headers["set-cookie"] = await openedSession(operators, admin_token, request, SESSION_S, secure)
        return status(204, undefined)
      },
      {
        ...ofOperators({
          response: { 204: answer("A session was opened. `Set-Cookie` has its cookie.", Type.Void()) },
          operationId: "openSession",
          tag: "Service",
          summary: "Sign in to the console",
          description:
            "Opens a session of the console for 12 hours. Its cookie is accepted in place of the admin token, from pages of this gateway only. Programs send the admin token instead.",
        }),
        transform: operatorsOnly(operators, admin_token),
      },
    )
    .delete(
      "/session",
      async ({ request, set, status }) => {
        const secret = secretOf(request, admin_token)
        if (secret !== null) await ledger.endSession(hashOf(secret, admin_token))
        set.headers["set-cookie"] = cookie("", 0, secureAttribute(request.headers))
        return status(204, undefined)
      },
      {
        ...ofOperators({
          response: { 204: answer("The session has ended.", Type.Void()) },
          operationId: "endSession",
          tag: "Service",
          summary: "Sign out of the console",
          description: "Ends the session of the cookie.",
          credentials: ["adminToken", "adminSession"],
        }),
        transform: guard,
      },
    )
}

/** A hook that throws unless the request has the admin token, or the cookie of an open session from the same origin. */
export function operatorsOrConsole(operators: Operators, admin_token: string) {
  const tokenOnly = operatorsOnly(operators, admin_token)
  return async ({ request }: SessionRequest): Promise<void> => {
    if (isAuthorized(request)) return
    const secret = request.headers.has("authorization") ? null : secretOf(request, admin_token)
    const actor = secret === null ? null : await operators.ledger.actorOfSession(hashOf(secret, admin_token))
    if (actor === null || isOutside(actor, operators)) await tokenOnly({ request })
    else authorized(request, actor)
  }
}

/** True for a person of an OpenID provider that is no longer configured (D103). */
function isOutside({ name, operator_id }: Actor, { identity_provider = null }: Operators): boolean {
  return operator_id === null && name.startsWith(OIDC) && identity_provider === null
}

/** Opens a session for whom the request comes from, and returns its cookie. */
export async function openedSession(
  { ledger }: Operators,
  admin_token: string,
  request: Request,
  last_s: number,
  secure: string,
): Promise<string> {
  const secret = newSecret(admin_token)
  await ledger.openSession(hashOf(secret, admin_token), last_s, actorOf(request))
  return cookie(secret, last_s, secure)
}

/** The secret in the cookie. Null if missing, not signed with this token, or of another origin. */
function secretOf({ headers, method }: Request, admin_token: string): string | null {
  if (!isOwnOrigin(headers, method)) return null
  const secret = cookieIn(headers, SESSION_COOKIE)
  return secret !== null && isSigned(secret, admin_token) ? secret : null
}

/** The value of a cookie; null without it. */
export function cookieIn(headers: Headers, wanted: string): string | null {
  const pairs = (headers.get("cookie") ?? "").split(";").map((pair) => pair.trim().split("="))
  return pairs.find(([name]) => name === wanted)?.[1] ?? null
}

/** A random text and its signature, so that a forged cookie is refused without a query. */
function newSecret(admin_token: string): string {
  const random = crypto.getRandomValues(Buffer.alloc(SECRET_BYTES)).toString("base64url")
  return random + signatureOf(random, admin_token)
}

function isSigned(secret: string, admin_token: string): boolean {
  const random = secret.slice(0, RANDOM_CHARACTERS)
  const given = Buffer.from(secret.slice(RANDOM_CHARACTERS))
  const expected = Buffer.from(signatureOf(random, admin_token))
  return given.byteLength === expected.byteLength && timingSafeEqual(given, expected)
}

function signatureOf(random: string, admin_token: string): string {
  return new Bun.CryptoHasher("sha256", admin_token).update(`session ${random}`).digest("base64url")
}

/** True for a page of this gateway, by `Sec-Fetch-Site`, or over plain HTTP by `Origin`, which GET and HEAD lack. */
function isOwnOrigin(headers: Headers, method: string): boolean {
  const site = headers.get("sec-fetch-site")
  if (site !== null) return site === "same-origin"
  const origin = headers.get("origin")
  if (origin === null) return method === "GET" || method === "HEAD"
  return URL.canParse(origin) && new URL(origin).host === headers.get("host")
}

/** `Origin` tells whether the page came by HTTPS. */
function secureAttribute(headers: Headers): string {
  return headers.get("origin")?.startsWith("https://") ? SECURE : ""
}

/** Scripts cannot read the cookie, and only `/admin` gets it. */
function cookie(secret: string, last_s: number, secure: string): string {
  return `${SESSION_COOKIE}=${secret}; Path=/admin; Max-Age=${last_s}; HttpOnly; SameSite=Strict${secure}`
}

/** With the roles' prefix, so that a gateway from before the roles, to which each session is one with all rights, finds no session. */
function hashOf(secret: string, admin_token: string): string {
  return new Bun.CryptoHasher("sha256", admin_token).update(`role ${secret}`).digest("hex")
}
