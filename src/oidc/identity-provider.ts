import * as oauth from "oauth4webapi"
import type { OidcSettings } from "../config/oidc.ts"
import { type Claims, type Person, personOf, valuesOf } from "./person.ts"

/** The route that the provider sends the browser back to, and the only one that gets the cookie of a flow. */
export const CALLBACK = "/admin/oidc/callback"

/** For each of the provider's answers. */
const DEADLINE_MS = 10_000
/** Metadata is read again after this, so that a provider may move its endpoints and keys. */
const METADATA_MS = 60_000
/** The difference between the provider's clock and this one that is allowed. */
const CLOCK_TOLERANCE_S = 30

/** A refused sign-in. The message is for the person, `reason` for the log; neither has a token or a secret. */
export class SignInRefused extends Error {
  override readonly name = "SignInRefused"
  readonly status: 400 | 403 | 502
  readonly reason: string

  constructor(status: SignInRefused["status"], message: string, reason: string) {
    super(message)
    this.status = status
    this.reason = reason
  }
}

/** An OpenID provider, asked by Authorization Code flow with PKCE (D103). Nothing about a flow is kept in this process. */
export type IdentityProvider = ReturnType<typeof identityProvider>

export function identityProvider(settings: OidcSettings) {
  const { client_id, client_secret, role_claim, name_claim } = settings
  const issuer = new URL(settings.issuer)
  const name = settings.name ?? issuer.host
  const client: oauth.Client = { client_id, [oauth.clockTolerance]: CLOCK_TOLERANCE_S }
  /** It must be registered at the provider. */
  const redirect_uri = settings.public_url + CALLBACK
  const unusable = `${name} did not answer as it must, so nobody was signed in. Try again, or sign in with a token; the gateway's log says why.`
  let metadata: { readonly until_ms: number; readonly found: Promise<oauth.AuthorizationServer> } | null =
    null

  const options = () => ({
    signal: AbortSignal.timeout(DEADLINE_MS),
    // The configuration allows http for this machine only.
    [oauth.allowInsecureRequests]: issuer.protocol === "http:",
  })

  function discovered(): Promise<oauth.AuthorizationServer> {
    if (metadata !== null && metadata.until_ms > Date.now()) return metadata.found
    const found = oauth
      .discoveryRequest(issuer, options())
      .then((answer) => oauth.processDiscoveryResponse(issuer, answer))
    metadata = { until_ms: Date.now() + METADATA_MS, found }
    found.catch(() => {
      metadata = null
    })
    return found
  }

  function authentication({ token_endpoint_auth_methods_supported: methods }: oauth.AuthorizationServer) {
    if (client_secret === null) return oauth.None()
    // Providers differ in how they decode a secret in `Authorization`.
    return methods?.includes("client_secret_post")
      ? oauth.ClientSecretPost(client_secret)
      : oauth.ClientSecretBasic(client_secret)
  }

  /** The claims of a valid ID token; those of UserInfo too if the token has no role or name. */
  async function claimsOf(
    query: URLSearchParams,
    { state, nonce, verifier }: ReturnType<typeof partsOf>,
  ): Promise<Claims> {
    const server = await discovered()
    const checked = oauth.validateAuthResponse(server, client, query, state)
    const answer = await oauth.authorizationCodeGrantRequest(
      ...([server, client, authentication(server), checked] as const),
      ...([redirect_uri, verifier, options()] as const),
    )
    const expected = { expectedNonce: nonce, requireIdToken: true }
    const tokens = await oauth.processAuthorizationCodeResponse(server, client, answer, expected)
    await oauth.validateApplicationLevelSignature(server, answer, options())
    const claims = oauth.getValidatedIdTokenClaims(tokens)
    if (claims === undefined) throw new Error("no ID token")
    const is_whole = [role_claim, name_claim].every((claim) => valuesOf(claims, claim).length > 0)
    if (is_whole || server.userinfo_endpoint === undefined) return claims
    const told = await oauth.userInfoRequest(server, client, tokens.access_token, options())
    const more = await oauth.processUserInfoResponse(server, client, claims.sub, told)
    // A flag is about the email beside it.
    const { email_verified } = Object.hasOwn(claims, "email") ? claims : more
    return { ...more, ...claims, email_verified }
  }

  async function callProvider<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    try {
      return await ask()
    } catch (error) {
      const refused =
        error instanceof oauth.AuthorizationResponseError || error instanceof oauth.ResponseBodyError
      if (!refused) throw new SignInRefused(502, unusable, reasonOf(error))
      const code = /^[\w.-]{1,64}$/.test(error.error) ? error.error : "without a known code"
      const message = `${name} refused the sign-in (${code}). Start again from the console.`
      throw new SignInRefused(403, message, `${error.name} ${code}`)
    }
  }

  return {
    name,
    settings,
    redirect_uri,
    /** Rejects with a `SignInRefused` if the issuer has no usable discovery document. */
    discover: () => callProvider(async () => void (await discovered())),
    /** The provider's page for a new flow with this secret. */
    async authorizationUrl(secret: string): Promise<string> {
      const { state, nonce, verifier } = partsOf(secret)
      return callProvider(async () => {
        const { authorization_endpoint } = await discovered()
        if (authorization_endpoint === undefined) throw new Error("no authorization_endpoint")
        const url = new URL(authorization_endpoint)
        const parameters = {
          client_id,
          redirect_uri,
          response_type: "code",
          scope: settings.scopes.join(" "),
          code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
          code_challenge_method: "S256",
          ...{ state, nonce },
        }
        for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
        return url.href
      })
    },
    /** The person whom the provider sent back with this query, in the flow of `secret`. Rejects with a `SignInRefused`. */
    async person(query: URLSearchParams, secret: string | null): Promise<Person> {
      const flow = secret === null ? null : partsOf(secret)
      if (flow === null || query.get("state") !== flow.state) throw notStartedHere()
      const person = personOf(await callProvider(() => claimsOf(query, flow)), settings)
      if (person !== null) return person
      throw new SignInRefused(502, unusable, "sub and the claim of the name make no name")
    },
  }
}

/** The words of the library or the runtime, which have no tokens. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown"
  const { message } = error
  const code = "code" in error && typeof error.code === "string" ? error.code : ""
  return message.includes(code) ? message : `${message} (${code})`
}

function notStartedHere(): SignInRefused {
  return new SignInRefused(
    400,
    "This sign-in was not started in this browser, or more than 10 minutes ago. Start it again from the console.",
    "another state",
  )
}

/** A flow's secrets, made of the cookie's, so that every process can end it and nothing needs signing. */
function partsOf(secret: string) {
  const part = (use: string) => new Bun.CryptoHasher("sha256").update(`${use} ${secret}`).digest("base64url")
  return { state: part("state"), nonce: part("nonce"), verifier: part("verifier") }
}
