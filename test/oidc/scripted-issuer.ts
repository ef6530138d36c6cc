/** An issuer that answers as a test says: its tokens can be false in any way. */
export interface ScriptedIssuer {
  readonly issuer: string
  /** The claims of the next ID token, besides those of an honest one. */
  claims: Readonly<Record<string, unknown>>
  /** The next answer of an endpoint by its path, in place of an honest one. */
  answers: Readonly<Record<string, () => Response | Promise<Response>>>
  /** Makes the ID token of its claims. */
  sign(claims: object): Promise<string>
  stop(): Promise<void>
}

export const KEY_ID = "the-key"

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")

type Signer = (text: string) => Promise<ArrayBuffer | Uint8Array>

/** A key pair for ES256, as a signer and as a JWK. */
export async function newKey() {
  const algorithm = { name: "ECDSA", namedCurve: "P-256" }
  const { privateKey, publicKey } = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"])
  const jwk = await crypto.subtle.exportKey("jwk", publicKey)
  const sign: Signer = (text) =>
    crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, privateKey, Buffer.from(text))
  return { sign, jwk: { ...jwk, kid: KEY_ID, alg: "ES256", use: "sig" } }
}

/** A JWT of these claims. */
export async function token(claims: object, sign: Signer, alg = "ES256"): Promise<string> {
  const text = `${encoded({ alg, kid: KEY_ID })}.${encoded(claims)}`
  return `${text}.${Buffer.from(new Uint8Array(await sign(text))).toString("base64url")}`
}

export async function startScriptedIssuer(client_id: string): Promise<ScriptedIssuer> {
  const key = await newKey()
  const honest = (claims: object) => token(claims, key.sign)
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch({ url }) {
      const { pathname, origin } = new URL(url)
      const scripted = script.answers[pathname]
      if (scripted !== undefined) return scripted()
      if (pathname === "/.well-known/openid-configuration")
        return Response.json({
          issuer: origin,
          authorization_endpoint: `${origin}/authorize`,
          token_endpoint: `${origin}/token`,
          userinfo_endpoint: `${origin}/userinfo`,
          jwks_uri: `${origin}/jwks`,
          id_token_signing_alg_values_supported: ["ES256"],
        })
      if (pathname === "/jwks") return Response.json({ keys: [key.jwk] })
      if (pathname !== "/token") return new Response(null, { status: 404 })
      const now = Math.floor(Date.now() / 1_000)
      const claims = { iss: origin, aud: client_id, sub: "ann", iat: now, exp: now + 60, groups: ["staff"] }
      const named = { email: "ann@example.com", email_verified: true }
      const id_token = await script.sign({ ...claims, ...named, ...script.claims })
      return Response.json({ access_token: ACCESS_TOKEN, token_type: "bearer", id_token })
    },
  })
  const script: ScriptedIssuer = {
    issuer: `http://127.0.0.1:${server.port}`,
    claims: {},
    answers: {},
    sign: honest,
    stop: () => server.stop(true),
  }
  return script
}

export const ACCESS_TOKEN = "access-token-canary"
