import { scryptSync, timingSafeEqual } from "node:crypto"
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { LoadRate } from "../../admission/key-loads.ts"
import { GatewayError } from "../../errors.ts"
import type { Actor } from "../../ledger/accounts/operators.ts"
import { FairShare } from "../../ledger/database/fair-share.ts"
import { CALLBACK, type IdentityProvider, SignInRefused } from "../../oidc/identity-provider.ts"
import { OIDC } from "../../oidc/person.ts"
import { SessionBody } from "../../wire/operators.ts"
import { answer, described, SESSION_COOKIE, text } from "../reference/operation.ts"
import { ofOperators } from "../reference/routes.ts"
import { forbidStoring } from "../routing.ts"
import { pagePolicy } from "../served-file.ts"
import { actorOf, authorized, isAuthorized, operatorsOnly, type SessionRequest } from "./authorize.ts"
import { beginning, ending } from "./change-log.ts"
import type { Operators } from "./operators.ts"

const SESSION_S = 12 * 3_600
const SECRET_BYTES = 32
/** The length of `SECRET_BYTES` bytes in Base64url. */
const RANDOM_CHARACTERS = 43
/** The attribute of a cookie that is sent by HTTPS only. */
const SECURE = "; Secure"

/** `/admin/session`: the console signs in with the admin token and gets a session cookie (D50). */
export function sessionRoutes(operators: Operators, admin_token: string) {
  const { ledger } = operators
  const guard = operatorsOrConsole(operators, admin_token)
  // Made now, because it would block the event loop during the first request.
  signingKeyOf(admin_token)
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

/** Opens a session for the sender of the request, and returns its cookie. */
async function openedSession(
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
function cookieIn(headers: Headers, wanted: string): string | null {
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
  const hasher = new Bun.CryptoHasher("sha256", signingKeyOf(admin_token))
  return hasher.update(`session ${random}`).digest("base64url")
}

const signing_keys = new Map<string, Buffer>()

/** A key derived from the admin token. Slow, so that the token cannot be guessed by the signature in a cookie. */
function signingKeyOf(admin_token: string): Buffer {
  const known = signing_keys.get(admin_token)
  if (known !== undefined) return known
  const made = scryptSync(admin_token, "session", SECRET_BYTES)
  signing_keys.set(admin_token, made)
  return made
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

/**
 * The hash of a session's secret, with a prefix: an older gateway, which has no roles, would otherwise give the session
 * all rights.
 */
function hashOf(secret: string, admin_token: string): string {
  return new Bun.CryptoHasher("sha256", signingKeyOf(admin_token)).update(`role ${secret}`).digest("hex")
}

/** The cookie of a sign-in. Not `SameSite=Strict`, because the provider sends the browser back with it. */
const FLOW_COOKIE = "tollgate_oidc"
const FLOW_S = 600
/**
 * Maximum number of sign-ins that wait for the provider. Addresses share them (D78), because anyone can send an
 * invented code.
 */
const MAX_PENDING = 64
/** Maximum number of failed sign-ins in the log, for the same reason. */
const LOGGED_PER_MINUTE = 60

const POLICY = pagePolicy()

/** `/admin/oidc`: sign-in to the console by the configured OpenID provider (D103). */
export function oidcRoutes(operators: Operators, admin_token: string, provider: IdentityProvider) {
  const { signInFailed, senderOf } = operators
  const { session_ms, public_url } = provider.settings
  const secure = public_url.startsWith("https:") ? SECURE : ""
  const flowCookie = (secret: string, last_s: number) =>
    `${FLOW_COOKIE}=${secret}; Path=${CALLBACK}; Max-Age=${last_s}; HttpOnly; SameSite=Lax${secure}`
  const begin = beginning(operators)
  const pending = new FairShare()
  const logged = new LoadRate()

  /** The answer to a failed sign-in: a page, unless the gateway itself failed. */
  function refused(error: unknown): Response {
    if (!(error instanceof SignInRefused)) throw error
    // Anyone can cause a 400, without the provider.
    if (error.status !== 400 && logged.wait("", LOGGED_PER_MINUTE, performance.now()) === 0) {
      logged.note("", LOGGED_PER_MINUTE, performance.now())
      signInFailed?.(error.reason)
    }
    return refusalPage(error)
  }

  return new Elysia({ name: "admin-oidc" })
    .onAfterHandle(forbidStoring)
    .onAfterHandle(ending)
    .get(
      "/oidc",
      async () => {
        try {
          const secret = crypto.getRandomValues(Buffer.alloc(SECRET_BYTES)).toString("base64url")
          return redirect(await provider.authorizationUrl(secret), flowCookie(secret, FLOW_S))
        } catch (error) {
          return refused(error)
        }
      },
      described({
        response: {
          303: answer(
            "The provider's page. `Set-Cookie` has the secret of this sign-in for 10 minutes.",
            Type.Void(),
          ),
          403: answer("A page that says why the provider refused.", PAGE),
          502: answer("A page that says that the provider did not answer, or not as specified.", PAGE),
        },
        operationId: "beginSignIn",
        tag: "Service",
        summary: "Sign in by the OpenID provider",
        description:
          "Sends the browser to the OpenID provider of `admin.oidc`. It exists only if one is configured, and is for browsers.",
      }),
    )
    .get(
      "/oidc/callback",
      async ({ request, route }) => {
        const sender = senderOf?.(request) ?? ""
        if (!pending.acquire(sender, 1, MAX_PENDING)) throw new GatewayError("overloaded")
        try {
          const query = new URL(request.url).searchParams
          const { name, role } = await provider.person(query, cookieIn(request.headers, FLOW_COOKIE))
          if (role === null) throw withoutRole(name, provider)
          authorized(request, { name, role, operator_id: null })
          await begin({ request, route })
          const session = await openedSession(operators, admin_token, request, session_ms / 1_000, secure)
          return redirect("/console", session, flowCookie("", 0))
        } catch (error) {
          return refused(error)
        } finally {
          pending.release(sender, 1)
        }
      },
      described({
        response: {
          303: answer("The console. `Set-Cookie` has the cookie of the session.", Type.Void()),
          400: answer("A page that says that the sign-in was not started in this browser.", PAGE),
          403: answer("A page that says why the provider refused, or that the person has no role.", PAGE),
          502: answer("A page that says that the provider did not answer, or not as specified.", PAGE),
        },
        operationId: "endSignIn",
        tag: "Service",
        summary: "Return from the OpenID provider",
        description:
          "The provider sends the browser here, with a code. Opens a session of the console with the role that the provider's claims give, until `admin.oidc.session` is over.",
        errors: ["ledger_unavailable", "overloaded"],
      }),
    )
}

function redirect(location: string, ...cookies: readonly string[]): Response {
  const headers = cookies.map((cookie): [string, string] => ["set-cookie", cookie])
  return new Response(null, { status: 303, headers: [["location", location], ...headers] })
}

function withoutRole(actor: string, { name: provider }: IdentityProvider): SignInRefused {
  const name = actor.slice(OIDC.length)
  const message = `${provider} knows you as ${name}, but no role of this gateway is given to you. Ask an operator with the role admin.`
  return new SignInRefused(403, message, "the person has no role")
}

/** A page with the error and a link to the console. */
function refusalPage({ status, message }: SignInRefused): Response {
  const html = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>Not signed in · Tollgate console</title><link rel="stylesheet" href="/console/assets/page.css"></head><body><main class="sign-in"><h1>Not signed in</h1><p role="alert">${Bun.escapeHTML(message)}</p><p><a href="/console">Go to the console</a></p></main></body></html>`
  const headers = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
  }
  return new Response(html, { status, headers })
}

const PAGE = text("text/html")
