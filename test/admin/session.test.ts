import { expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { drizzle } from "drizzle-orm/postgres-js"
import { type AdminHarness, mount, nowhere, TOKEN, testAdmin } from "./admin-harness.ts"

type App = AdminHarness["app"]
const ORIGIN = "http://gateway.test:8080"
const SAME = { "sec-fetch-site": "same-origin" }

const adminApi = await testAdmin()

const another = (operators: Parameters<typeof mount>[0] | object = {}) =>
  mount({ database: adminApi.database, ...operators })

function ask(app: App, method: string, path: string, headers: Record<string, string>) {
  return app.handle(
    new Request(`${ORIGIN}/admin${path}`, { method, headers: { host: "gateway.test:8080", ...headers } }),
  )
}

async function signIn(origin = ORIGIN) {
  const answer = await ask(adminApi.app, "POST", "/session", { authorization: `Bearer ${TOKEN}`, origin })
  expect(answer.status).toBe(204)
  const [pair = "", ...attributes] = (answer.headers.get("set-cookie") ?? "").split("; ")
  return { answer, cookie: pair, attributes }
}

const statusOf = async (app: App, cookie: string) =>
  (await ask(app, "GET", "/accounts", { cookie, ...SAME })).status

test("D50 the cookie is for /admin alone, out of reach of pages, for 12 hours, and by HTTPS where the page came so", async () => {
  const plain = await signIn()
  expect(plain.attributes).toEqual(["Path=/admin", "Max-Age=43200", "HttpOnly", "SameSite=Strict"])
  expect((await signIn("https://gateway.test")).attributes).toEqual([...plain.attributes, "Secure"])
  expect(plain.answer.headers.get("cache-control")).toBe("no-store")
  expect(plain.cookie).toMatch(/^tollgate_session=[\w-]{86}$/)
  expect(plain.cookie).not.toBe((await signIn()).cookie)
})

test.each([
  ["no token", {}],
  ["a wrong token", { authorization: "Bearer wrong" }],
])("D50 %s opens no session, and neither does a session", async (_, headers) => {
  const { cookie } = await signIn()
  const answer = await ask(adminApi.app, "POST", "/session", { ...headers, cookie, ...SAME })
  expect([answer.status, answer.headers.get("set-cookie")]).toEqual([401, null])
})

test("D50 a session holds on every gateway of the database until it is signed out of at one of them", async () => {
  const [mine, other] = [await signIn(), await signIn()]
  const gateways = [adminApi.app, another()]
  for (const app of gateways) expect(await statusOf(app, mine.cookie)).toBe(200)
  const out = await ask(another(), "DELETE", "/session", { cookie: mine.cookie, ...SAME })
  expect(out.status).toBe(204)
  expect(out.headers.get("set-cookie")).toStartWith("tollgate_session=; Path=/admin; Max-Age=0;")
  for (const app of gateways) expect(await statusOf(app, mine.cookie)).toBe(401)
  expect(await statusOf(adminApi.app, other.cookie)).toBe(200)
})

test("D50 a session ends with its time, and with the admin token; its secret is not in the database", async () => {
  const { cookie } = await signIn()
  expect(await statusOf(another({ admin_token: "another-token-of-operators" }), cookie)).toBe(401)
  const rows = await adminApi.database.execute(sql`SELECT * FROM tollgate.console_sessions`)
  expect(JSON.stringify(rows)).not.toContain(cookie.split("=")[1] ?? "")
  await adminApi.database.execute(sql`UPDATE tollgate.console_sessions SET expires_at = now()`)
  expect(await statusOf(adminApi.app, cookie)).toBe(401)
  await signIn()
  expect(await adminApi.database.execute(sql`SELECT * FROM tollgate.console_sessions`)).toHaveLength(1)
})

test.each<[string, string, Record<string, string>, number]>([
  ["a page of the gateway", "POST", SAME, 415],
  ["a page of the gateway, by plain HTTP", "POST", { origin: ORIGIN }, 415],
  ["a page of the gateway, by plain HTTP", "GET", {}, 200],
  ["a page of another site", "POST", { "sec-fetch-site": "cross-site", origin: "https://evil.test" }, 401],
  ["a page of another site", "GET", { "sec-fetch-site": "cross-site" }, 401],
  ["a page of another port", "POST", { "sec-fetch-site": "same-site", origin: ORIGIN }, 401],
  ["a page of another port, by plain HTTP", "POST", { origin: "http://gateway.test:9000" }, 401],
  ["a page without an origin", "POST", { origin: "null" }, 401],
  ["the address bar", "GET", { "sec-fetch-site": "none" }, 401],
  ["no browser", "DELETE", {}, 401],
  ["a page, with a wrong token beside it", "GET", { ...SAME, authorization: "Bearer wrong" }, 401],
])("D50 the cookie from %s: %s %j is %i", async (_, method, headers, status) => {
  const { cookie } = await signIn()
  const path = method === "DELETE" ? "/session" : "/accounts"
  const answer = await ask(adminApi.app, method, path, { cookie: `other=1; ${cookie}`, ...headers })
  expect(answer.status).toBe(status)
})

test("D50 the cookie does not let its owner guess the admin token as fast as a hash", async () => {
  const { cookie } = await signIn()
  const [, secret = ""] = cookie.split("=")
  const signed = new Bun.CryptoHasher("sha256", TOKEN).update(`session ${secret.slice(0, 43)}`)
  expect(secret.slice(43)).not.toBe(signed.digest("base64url"))
  expect(await statusOf(another(), cookie)).toBe(200)
})

test.each(["x", "A".repeat(86), ""])(
  "D50 a cookie that no gateway has made is refused without the ledger: %p",
  async (secret) => {
    const app = another({ database: drizzle(nowhere()), deadline_ms: 1_000 })
    expect(await statusOf(app, `tollgate_session=${secret}`)).toBe(401)
    const { cookie } = await signIn()
    expect(await statusOf(app, cookie)).toBe(503)
    expect(await statusOf(app, `${cookie}x`)).toBe(401)
  },
)
