import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { LoadRate } from "../../admission/key-loads.ts"
import { GatewayError } from "../../errors.ts"
import { FairShare } from "../../ledger/database/fair-share.ts"
import { CALLBACK, type IdentityProvider, SignInRefused } from "../../oidc/identity-provider.ts"
import { OIDC } from "../../oidc/person.ts"
import { answer, described, text } from "../reference/operation.ts"
import { forbidStoring } from "../routing.ts"
import { pagePolicy } from "../served-file.ts"
import { authorized } from "./authorize.ts"
import { beginning, ending } from "./change-log.ts"
import type { Operators } from "./operators.ts"
import { cookieIn, openedSession, SECURE } from "./session.ts"

/** The cookie of a flow. It is sent when the provider sends the browser back, so it is not `SameSite=Strict`. */
const FLOW_COOKIE = "tollgate_oidc"
const FLOW_S = 600
const SECRET_BYTES = 32
/** The most sign-ins that wait for the provider. Addresses share them (D78), because anyone can send a made-up code. */
const MAX_PENDING = 64
/** The most failed sign-ins in the log, for the same reason. */
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

  /** A page for a person, unless the gateway itself failed. */
  function refused(error: unknown): Response {
    if (!(error instanceof SignInRefused)) throw error
    // Everybody can cause a 400, without the provider.
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
          502: answer("A page that says that the provider did not answer as it must.", PAGE),
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
          502: answer("A page that says that the provider did not answer as it must.", PAGE),
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

/** One sentence, and the way back. */
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
