import { afterAll, describe, expect, test } from "bun:test"
import { type Role, roles } from "../../src/wire/roles.ts"
import { BROWSER, browserless, openBrowser } from "../support/browser.ts"
import { freePort } from "../support/free-port.ts"
import { ADMIN_TOKEN, startGateway } from "../support/gateway.ts"
import { operatorOf } from "../support/operator.ts"
import { startProvider } from "../support/provider.ts"
import { CLIENT_ID, CLIENT_SECRET, CookieJar, returnAddress, startOpenProvider } from "./open-provider.ts"

/** Sign-in to the console by a real OpenID provider (D103). */

const verified = (login: string, groups: readonly string[]) => ({
  email: `${login}@example.com`,
  email_verified: true,
  groups,
})
const PEOPLE = {
  ...Object.fromEntries(roles.map((role) => [role, verified(role, ["staff", `${role}s`])])),
  several: verified("several", ["reads", "billings", "supports"]),
  nobody: verified("nobody", ["staff"]),
  unverified: { ...verified("admin", ["reads"]), email_verified: false },
}
const SAME = { "sec-fetch-site": "same-origin" }

const upstream = await startProvider()
const port = freePort()
const url = `http://127.0.0.1:${port}`
const provider = await startOpenProvider(`${url}/admin/oidc/callback`, PEOPLE)
const oidc = {
  issuer: provider.issuer,
  client_id: CLIENT_ID,
  client_secret: CLIENT_SECRET,
  public_url: url,
  name: "Example & Co",
  scopes: ["openid", "email", "groups"],
  roles: Object.fromEntries(roles.map((role) => [`${role}s`, role])),
  session: "1h",
}
const gateway = await startGateway(upstream, { admin: { port, oidc } })
const shards = [{ name: "main", open: true, address: gateway.address }] as const
const other = await startGateway(upstream, { admin: { port: 0, oidc } }, null, shards)
const other_url = `http://127.0.0.1:${other.service.admin_server?.port}`
afterAll(async () => {
  await other.stop()
  await gateway.stop()
  await provider.stop()
  await upstream.stop()
})

async function signIn(login: string) {
  const jar = new CookieJar()
  const answer = await jar.ask(await returnAddress(jar, `${url}/admin/oidc`, login))
  return { jar, answer }
}

const session = async (jar: CookieJar, at = url) => {
  const answer = await jar.ask(`${at}/admin/session`, { headers: SAME })
  return [answer.status, answer.status === 200 ? await answer.json() : null]
}

async function sentence(answer: Response): Promise<string> {
  expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8")
  expect(answer.headers.getSetCookie()).toEqual([])
  return /role="alert">([^<]*)</.exec(await answer.text())?.[1] ?? "none"
}

test.each<[string, Role]>([...roles.map((role): [string, Role] => [role, role]), ["several", "billing"]])(
  "D103 %s gets the role %s until the session ends, in a cookie like that of a token's session",
  async (login, role) => {
    const { jar, answer } = await signIn(login)
    expect([answer.status, answer.headers.get("location")]).toEqual([303, "/console"])
    expect(answer.headers.get("cache-control")).toBe("no-store")
    expect(answer.headers.getSetCookie().map((line) => line.replace(/=[\w-]{86};/, "=…;"))).toEqual([
      "tollgate_session=…; Path=/admin; Max-Age=3600; HttpOnly; SameSite=Strict",
      "tollgate_oidc=; Path=/admin/oidc/callback; Max-Age=0; HttpOnly; SameSite=Lax",
    ])
    expect(await session(jar)).toEqual([200, { actor: `oidc:${login}@example.com`, role }])
    const headers = { ...SAME, "content-type": "application/json" }
    const made = await jar.ask(`${url}/admin/accounts`, { method: "POST", headers, body: `{"name":"x"}` })
    expect(made.status).toBe(role === "billing" || role === "admin" ? 201 : 403)
  },
)

test("D103 the sign-in and each change stand in the log with the person's name", async () => {
  const { jar } = await signIn("billing")
  const headers = { ...SAME, "content-type": "application/json" }
  const body = JSON.stringify({ name: "Named", reason: "x" })
  await jar.ask(`${url}/admin/accounts`, { method: "POST", headers, body: body.replace(',"reason":"x"', "") })
  const operator = operatorOf(url)
  const { data } = await operator.admin<{ data: readonly object[] }>(
    "GET",
    "/log?actor=oidc%3Abilling%40example.com&limit=2",
  )
  const whose = { actor: "oidc:billing@example.com", role: "billing", operator_id: null, outcome: "done" }
  expect(data).toMatchObject([
    { ...whose, method: "POST", route: "/admin/accounts", after: { name: "Named" } },
    { ...whose, method: "GET", route: "/admin/oidc/callback", status: 303, address: "127.0.0.1" },
  ])
})

test("D103 nobody without a value that has a role, and no email that is not verified", async () => {
  const { jar, answer } = await signIn("nobody")
  expect(answer.status).toBe(403)
  expect(await sentence(answer)).toBe(
    "Example &amp; Co knows you as nobody@example.com, but no role of this gateway is given to you. Ask an operator with the role admin.",
  )
  expect(await session(jar)).toEqual([401, null])
  const unverified = await signIn("unverified")
  const actor = `oidc:unverified (${new URL(provider.issuer).host})`
  expect(await session(unverified.jar)).toEqual([200, { actor, role: "read" }])
})

test("D103 another process ends the sign-in; the session is everywhere, and ends by sign-out", async () => {
  const jar = new CookieJar()
  const back = new URL(await returnAddress(jar, `${url}/admin/oidc`, "read"))
  const { status } = await jar.ask(other_url + back.pathname + back.search, { method: "HEAD" })
  expect(status).toBe(303)
  const { data } = await operatorOf(url).admin<{ data: readonly object[] }>("GET", "/log?limit=1")
  expect(data).toMatchObject([{ actor: "oidc:read@example.com", method: "HEAD" }])
  for (const at of [url, other_url]) expect((await session(jar, at))[0]).toBe(200)
  const cookie = jar.get("tollgate_session") ?? ""
  const out = await jar.ask(`${url}/admin/session`, { method: "DELETE", headers: SAME })
  expect(out.status).toBe(204)
  jar.set("tollgate_session", cookie)
  for (const at of [url, other_url]) expect((await session(jar, at))[0]).toBe(401)
})

test("D103 an operator ends the sessions of one person, everywhere, and nobody else's", async () => {
  const jars = [(await signIn("read")).jar, (await signIn("read")).jar]
  const other_jar = (await signIn("admin")).jar
  const end = (actor: string, at: string) =>
    operatorOf(at).admin<{ actor: string; ended: number }>("POST", "/sessions/end", { actor })
  const { ended } = await end("oidc:read@example.com", other_url)
  expect(ended).toBeGreaterThanOrEqual(2)
  for (const jar of jars)
    for (const at of [url, other_url]) expect(await session(jar, at)).toEqual([401, null])
  expect((await session(other_jar))[0]).toBe(200)
  expect(await end("oidc:read@example.com", url)).toEqual({ actor: "oidc:read@example.com", ended: 0 })
  const { data } = await operatorOf(url).admin<{ data: readonly object[] }>("GET", "/log?limit=1")
  expect(data).toMatchObject([{ route: "/admin/sessions/end", request: { actor: "oidc:read@example.com" } }])
})

test("D103 an expired session opens nothing", async () => {
  const { jar } = await signIn("admin")
  const ended =
    await gateway.sql`UPDATE tollgate.console_sessions SET expires_at = now() WHERE actor = 'oidc:admin@example.com' RETURNING role`
  expect(ended.length).toBeGreaterThan(0)
  expect(await session(jar)).toEqual([401, null])
})

const NOT_HERE =
  "This sign-in was not started in this browser, or more than 10 minutes ago. Start it again from the console."

test("D103 another state, no cookie, and a cookie of another sign-in open nothing", async () => {
  const jar = new CookieJar()
  const back = await returnAddress(jar, `${url}/admin/oidc`, "admin")
  const tampered = new URL(back)
  tampered.searchParams.set("state", `${tampered.searchParams.get("state")}x`)
  const second = new CookieJar()
  await second.ask(`${url}/admin/oidc`)
  for (const [browser, address] of [
    [jar, tampered.href],
    [new CookieJar(), back],
    [second, back],
    [jar, `${url}/admin/oidc/callback`],
  ] as const) {
    const answer = await browser.ask(address)
    expect([answer.status, await sentence(answer)]).toEqual([400, NOT_HERE])
  }
  expect((await jar.ask(back)).status).toBe(303)
})

test("D103 a code is good once, and a refusal at the provider is told", async () => {
  const jar = new CookieJar()
  const back = await returnAddress(jar, `${url}/admin/oidc`, "admin")
  const secret = jar.get("tollgate_oidc") ?? ""
  expect((await jar.ask(back)).status).toBe(303)
  jar.set("tollgate_oidc", secret)
  const again = await jar.ask(back)
  const words = (code: string) =>
    `Example &amp; Co refused the sign-in (${code}). Start again from the console.`
  expect([again.status, await sentence(again)]).toEqual([403, words("invalid_grant")])
  const denied = new URL(back)
  denied.searchParams.delete("code")
  denied.searchParams.set("error", "access_denied")
  const answer = await jar.ask(denied.href)
  expect([answer.status, await sentence(answer)]).toEqual([403, words("access_denied")])
  const lines = gateway.lines.filter((line) => line.includes("a sign-in by the OpenID provider failed"))
  expect(lines.map((line) => JSON.parse(line).reason)).toContain("ResponseBodyError invalid_grant")
  expect(JSON.stringify([gateway.lines, other.lines])).not.toContain(CLIENT_SECRET)
  expect(gateway.lines.join()).not.toContain(new URL(back).searchParams.get("code") ?? "none")
})

test("D103 a forged Host does not change where the provider sends the browser", async () => {
  const answer = await new CookieJar().ask(`${url}/admin/oidc`, { headers: { host: "evil.test" } })
  const { searchParams } = new URL(answer.headers.get("location") ?? "")
  expect(searchParams.get("redirect_uri")).toBe(`${url}/admin/oidc/callback`)
  expect(searchParams.get("code_challenge_method")).toBe("S256")
})

describe.skipIf(browserless("a person signs in by a provider"))(`in headless Chromium (${BROWSER})`, () => {
  test("D103 a person signs in with the provider's pages, sees the console, and signs out", async () => {
    const browser = await openBrowser({ width: 1024, height: 800 })
    const page = await browser.context.newPage()
    await page.goto(`${url}/console`)
    await page.getByRole("button", { name: "Sign in with Example & Co" }).click()
    await page.getByPlaceholder("Enter any login").fill("read")
    await page.getByPlaceholder("and password").fill("any")
    await page.getByRole("button", { name: "Sign-in" }).click()
    await page.getByRole("button", { name: "Continue" }).click()
    await page.getByRole("heading", { name: "Overview" }).waitFor()
    const cookies = await browser.context.cookies()
    expect(cookies.find(({ name }) => name === "tollgate_session")).toMatchObject({
      ...{ path: "/admin", httpOnly: true, sameSite: "Strict" },
    })
    await page.getByRole("button", { name: "Sign out" }).click()
    // A request of the page that was on its way may end the session's view first, with other words.
    await page.getByRole("button", { name: "Sign in with Example & Co" }).waitFor()
    expect(await page.content()).not.toContain(ADMIN_TOKEN)
    await browser.close()
  }, 60_000)
})
