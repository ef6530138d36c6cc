import { afterAll, afterEach, beforeEach, expect, test } from "bun:test"
import { drizzle } from "drizzle-orm/postgres-js"
import type { OidcSettings } from "../../src/config/oidc.ts"
import { connect } from "../../src/ledger/database/address.ts"
import { identityProvider } from "../../src/oidc/identity-provider.ts"
import { type AdminHarness, mount, testAdmin } from "../admin/admin-harness.ts"
import { ACCESS_TOKEN, newKey, type ScriptedIssuer, startScriptedIssuer, token } from "./scripted-issuer.ts"

/** Answers of a provider that is down, broken or false (D103). */

const CLIENT_SECRET = "client-secret-canary-0123456789abcdef"
const UNUSABLE =
  "Example did not answer as it must, so nobody was signed in. Try again, or sign in with a token; the gateway&#x27;s log says why."

/** The header that has the address of a request in these tests. */
const SENDER = "x-sender"

const script = await startScriptedIssuer("tollgate")
/** The name of a person without a verified email. */
const SUB = `ann (${new URL(script.issuer).host})`
const settings: OidcSettings = {
  ...{ issuer: script.issuer, client_id: "tollgate", client_secret: CLIENT_SECRET, name: "Example" },
  ...{ public_url: "https://tollgate.example.com", scopes: ["openid"], role_claim: "groups" },
  ...{ roles: { staff: "read" }, name_claim: "email", allowed: null, session_ms: 60_000 },
}
const adminApi = await testAdmin()
let app: AdminHarness["app"]
const reasons: string[] = []
const texts: string[] = []

beforeEach(restart)
afterEach(() => {
  script.claims = {}
  script.answers = {}
})
afterAll(() => script.stop())

/** Another process: it knows nothing of the provider yet. */
function restart(): void {
  app = mount({
    ...{ database: adminApi.database, deadline_ms: 10_000 },
    identity_provider: identityProvider(settings),
    signInFailed: (reason) => void reasons.push(reason),
    senderOf: ({ headers }) => headers.get(SENDER) ?? "",
  })
}

async function begin() {
  const answer = await app.handle(new Request("http://localhost/admin/oidc"))
  const [cookie = ""] = (answer.headers.get("set-cookie") ?? "").split(";")
  return { answer, cookie, asked: new URL(answer.headers.get("location") ?? "http://none").searchParams }
}

async function end({ cookie, asked }: Awaited<ReturnType<typeof begin>>, query: object = {}, sender = "") {
  const search = new URLSearchParams({ code: "code-canary", state: asked.get("state") ?? "", ...query })
  const request = new Request(`http://localhost/admin/oidc/callback?${search}`, {
    headers: { cookie, [SENDER]: sender },
  })
  const answer = await app.handle(request)
  const text = await answer.text()
  texts.push(text)
  return { answer, said: /role="alert">([^<]*)</.exec(text)?.[1] ?? null }
}

/** Signs in with claims of the flow's nonce. */
async function signIn(claims: object = {}) {
  const flow = await begin()
  script.claims = { nonce: flow.asked.get("nonce"), ...claims }
  return end(flow)
}

test("D103 an honest token signs in; the cookies are sent by HTTPS only", async () => {
  const { answer } = await begin()
  expect(answer.headers.get("set-cookie")).toMatch(
    /^tollgate_oidc=[\w-]{43}; Path=\/admin\/oidc\/callback; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/,
  )
  const signed_in = await signIn()
  expect(signed_in.answer.status).toBe(303)
  expect(signed_in.answer.headers.getSetCookie()).toEqual([
    expect.stringMatching(/^tollgate_session=.*; Max-Age=60; HttpOnly; SameSite=Strict; Secure$/),
    expect.stringMatching(/^tollgate_oidc=; .*; Secure$/),
  ])
})

const past = Math.floor(Date.now() / 1_000) - 3_600
test.each<[string, string, object]>([
  ["another nonce", '"nonce" claim value', { nonce: "x" }],
  ["no nonce", '"nonce" (nonce) claim missing', { nonce: undefined }],
  ["another audience", '"aud" (audience)', { aud: "other" }],
  ["another authorized party", '"azp"', { aud: ["tollgate", "other"], azp: "other" }],
  ["another issuer", '"iss" (issuer)', { iss: "https://other.example.com" }],
  ["a time that is over", "expiration is past", { exp: past }],
  ["no expiry", "claim missing", { exp: undefined }],
  ["no subject", '"sub" (subject) claim missing', { sub: undefined }],
])("D103 a token with %s opens nothing", async (_, reason, claims) => {
  const { answer, said } = await signIn(claims)
  expect([answer.status, said, answer.headers.get("set-cookie")]).toEqual([502, UNUSABLE, null])
  expect(reasons.at(-1)).toContain(reason)
})

test("D103 a token that another key has signed, or none, or the client's secret, opens nothing", async () => {
  const { sign } = script
  const other = await newKey()
  const hmac = (text: string) =>
    Promise.resolve(new Bun.CryptoHasher("sha256", CLIENT_SECRET).update(text).digest())
  const changed = async (claims: object) => {
    const [head, , signature] = (await sign(claims)).split(".")
    const [, payload] = (await sign({ ...claims, groups: ["staff", "more"] })).split(".")
    return [head, payload, signature].join(".")
  }
  const forgers: [string, ScriptedIssuer["sign"]][] = [
    ["signature verification failed", (claims) => token(claims, other.sign)],
    ["signature verification failed", changed],
    ['unexpected JWT "alg"', (claims) => token(claims, hmac, "HS256")],
    ['unexpected JWT "alg"', (claims) => token(claims, () => Promise.resolve(new Uint8Array()), "none")],
  ]
  for (const [reason, forge] of forgers) {
    script.sign = forge
    const { answer, said } = await signIn()
    expect([answer.status, said, answer.headers.get("set-cookie")]).toEqual([502, UNUSABLE, null])
    expect(reasons.at(-1)).toContain(reason)
  }
  script.sign = sign
  expect((await signIn()).answer.status).toBe(303)
})

test.each<[string, string, string, () => Response]>([
  [
    "discovery is away",
    "unexpected HTTP status code",
    "/.well-known/openid-configuration",
    () => new Response(null, { status: 503 }),
  ],
  [
    "discovery is another's",
    '"issuer" property does not match',
    "/.well-known/openid-configuration",
    () => Response.json({ issuer: "https://x" }),
  ],
  ["tokens are away", "Token Endpoint response", "/token", () => new Response("oops", { status: 500 })],
  ["tokens are no JSON", "must be application/json", "/token", () => new Response("<html>")],
  [
    "there is no ID token",
    '"id_token" property',
    "/token",
    () => Response.json({ access_token: ACCESS_TOKEN, token_type: "bearer" }),
  ],
  ["keys are away", "JSON Web Key Set", "/jwks", () => new Response(null, { status: 500 })],
  ["there are no keys", "no applicable keys", "/jwks", () => Response.json({ keys: [] })],
  [
    "UserInfo is of somebody else",
    'unexpected "response" body "sub"',
    "/userinfo",
    () => Response.json({ sub: "bob", email: "x" }),
  ],
])("D103 one sentence tells when %s", async (_, reason, path, answerWith) => {
  const flow = await begin()
  script.claims = { nonce: flow.asked.get("nonce"), email: undefined }
  script.answers = { [path]: answerWith }
  restart()
  const { answer, said } = await end(flow)
  expect([answer.status, said, answer.headers.get("set-cookie")]).toEqual([502, UNUSABLE, null])
  expect(reasons.at(-1)).toContain(reason)
  if (!path.startsWith("/.well-known")) return
  restart()
  expect((await begin()).answer.status).toBe(502)
})

test("D103 a wrong client secret and an unknown error are told, without the provider's own words", async () => {
  for (const [error, shown] of [
    ["invalid_client", "invalid_client"],
    ["<b>markup</b>", "without a known code"],
  ] as const) {
    script.answers = { "/token": () => Response.json({ error, error_description: "x" }, { status: 401 }) }
    const { answer, said } = await signIn()
    const sentence = `Example refused the sign-in (${shown}). Start again from the console.`
    expect([answer.status, said]).toEqual([403, sentence])
  }
})

test("D103 roles and names may come from UserInfo; the token's claims count before them", async () => {
  const more = { sub: "ann", email: "bob@example.com", email_verified: true, groups: ["none"] }
  const rows: [token: object, more: object, name: string][] = [
    [{ email: undefined }, more, "bob@example.com"],
    [{ email: undefined, email_verified: false }, more, "bob@example.com"],
    [{ email: undefined }, { ...more, email_verified: undefined }, SUB],
    [{ email_verified: undefined }, more, SUB],
  ]
  for (const [claims, told, name] of rows) {
    script.answers = { "/userinfo": () => Response.json(told) }
    expect((await signIn(claims)).answer.status).toBe(303)
    const { text } = await adminApi.ask("GET", "/admin/log?limit=1")
    expect(JSON.parse(text).data).toMatchObject([{ actor: `oidc:${name}`, role: "read" }])
  }
})

test("D103 without the database nobody gets in, and one sentence says so", async () => {
  const nowhere = { socket_path: "/nonexistent/.s.PGSQL.5432", user: "nobody", database: "none" }
  const flow = await begin()
  script.claims = { nonce: flow.asked.get("nonce") }
  app = mount({
    ...{ database: drizzle(connect(nowhere, { backoff: () => 0 })), deadline_ms: 1_000 },
    identity_provider: identityProvider(settings),
  })
  const { answer } = await end(flow)
  expect([answer.status, answer.headers.get("set-cookie")]).toEqual([503, null])
  expect(texts.at(-1)).toContain("The database did not respond.")
})

test("D103 a session of a provider that is no longer configured opens nothing", async () => {
  const { answer } = await signIn()
  const [cookie = ""] = (answer.headers.getSetCookie()[0] ?? "").split(";")
  const ask = async (gateway: AdminHarness["app"]) =>
    (await gateway.handle(new Request("http://localhost/admin/session", { headers: { cookie } }))).status
  expect(await ask(app)).toBe(200)
  expect(await ask(mount({ database: adminApi.database, deadline_ms: 10_000 }))).toBe(401)
})

test("D103 no page and no reason of the log has a token, a code or a secret", () => {
  expect(reasons.length).toBeGreaterThan(15)
  const shown = [...reasons, ...texts].join("\n")
  for (const secret of [ACCESS_TOKEN, CLIENT_SECRET, "code-canary", "eyJ"])
    expect(shown).not.toContain(secret)
})

test("D78 D103 sign-ins that wait for the provider are few and shared by addresses, and few failures are logged", async () => {
  const flow = await begin()
  const { promise, resolve } = Promise.withResolvers<void>()
  const refusal = async () => {
    await promise
    return Response.json({ error: "invalid_grant" }, { status: 400 })
  }
  script.answers = { "/token": refusal }
  const before = reasons.length
  const flood = Array.from({ length: 100 }, () => end(flow, {}, "one"))
  const other = end(flow, {}, "another")
  resolve()
  const statuses = (await Promise.all(flood)).map(({ answer }) => answer.status)
  const counts = Map.groupBy(statuses, (status) => status)
  expect([...counts.keys()].sort()).toEqual([403, 503])
  expect(counts.get(403)?.length).toBeLessThanOrEqual(60)
  expect((await other).answer.status).toBe(403)
  expect(reasons.length - before).toBeLessThanOrEqual(60)
})
