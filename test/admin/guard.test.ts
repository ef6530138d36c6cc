import { expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { drizzle } from "drizzle-orm/postgres-js"
import { makeKey } from "../../src/admission/key.ts"
import { nextId } from "../../src/id.ts"
import { createAccount } from "../../src/ledger/accounts/accounts.ts"
import { answerOf } from "../../src/ledger/database/answer.ts"
import { mount, nowhere, operationsOf, send, TOKEN, testAdmin } from "./admin-harness.ts"

const adminApi = await testAdmin()
const id = await adminApi.openAccount()
const operations = operationsOf(mount({ database: adminApi.database, deadline_ms: 1_000 })).map(
  (operation) => ({
    ...operation,
    path: operation.path.replace(":id", id).replace(":month", "2026-03"),
  }),
)

test.each([
  ["none", ""],
  ["empty", "Bearer "],
  ["no scheme", TOKEN],
  ["another scheme", `Basic ${TOKEN}`],
  ["another token", "Bearer operator-token"],
  ["the token and more", `Bearer ${TOKEN}x`],
  ["the token in capitals", `Bearer ${TOKEN.toUpperCase()}`],
  ["two tokens", `Bearer ${TOKEN}, Bearer ${TOKEN}`],
  ["two words", `Bearer ${TOKEN} ${TOKEN}`],
  ["a user's key", `Bearer ${makeKey()}`],
])("D15 every operation is 401 with this authorization: %s", async (_, authorization) => {
  for (const { method, path } of [...operations, { method: "HEAD", path: "/admin/accounts" }]) {
    const reply = await adminApi.ask(method, path, undefined, { authorization })
    expect(reply.status).toBe(401)
    if (method !== "HEAD") expect(reply.body.error.code).toBe("invalid_api_key")
    expect(reply.text).not.toContain(TOKEN)
  }
})

test("D30 a wrong token is reported before anything else is", async () => {
  const headers = { authorization: "Bearer wrong", "content-type": "text/plain" }
  expect((await adminApi.ask("POST", "/admin/accounts", "{", headers)).status).toBe(401)
  expect((await adminApi.ask("GET", "/admin/accounts?limit=x", undefined, headers)).status).toBe(401)
  expect((await adminApi.ask("GET", "/admin/accounts/x", undefined, headers)).status).toBe(401)
})

test("D30 an id that is none is reported before what is wrong with the query string or the body", async () => {
  const headers = { "content-type": "text/plain" }
  expect((await adminApi.ask("POST", "/admin/accounts/x/credits", "{", headers)).status).toBe(404)
  expect((await adminApi.ask("PATCH", "/admin/keys/x", "{")).status).toBe(404)
  expect((await adminApi.ask("PATCH", "/admin/keys/%zz", { suspended: 1 })).status).toBe(404)
  expect((await adminApi.ask("GET", "/admin/accounts/x/balance?at=x&y=1")).status).toBe(404)
})

test("D16 a parameter that is not known is reported before the others, and not repeated", async () => {
  const { status, body, text } = await adminApi.ask("GET", "/admin/accounts?limit=x&canary=1&canary=2")
  expect([status, body.error.param, body.error.message]).toEqual([
    400,
    null,
    "Unknown query parameter. This endpoint accepts: external_id, search, sort, limit, after.",
  ])
  expect(text).not.toContain("canary")
})

test("x-api-key and a query string carry no token", async () => {
  const authorization = ""
  expect(
    (await adminApi.ask("GET", "/admin/audit", undefined, { authorization, "x-api-key": TOKEN })).status,
  ).toBe(401)
  expect(
    (await adminApi.ask("GET", `/admin/audit?token=${TOKEN}`, undefined, { authorization })).status,
  ).toBe(401)
})

test.each([`Bearer ${TOKEN}`, `bearer ${TOKEN}`, `Bearer   ${TOKEN}  `])(
  "the token lets in: %p",
  async (authorization) => {
    expect((await adminApi.ask("GET", "/admin/audit", undefined, { authorization })).status).toBe(200)
  },
)

test("without a token every address of /admin is an unknown route", async () => {
  const closed = mount({ admin_token: null, database: adminApi.database, deadline_ms: 1_000 })
  const { request_id: _, ...body } = (await send(closed, "GET", "/nowhere")).body
  for (const { method, path } of operations) {
    const reply = await send(closed, method, path, undefined, { authorization: "Bearer null" })
    const { request_id: __, ...same } = reply.body
    expect([reply.status, same]).toEqual([404, body])
  }
})

test("HEAD works where GET does, and needs the token", async () => {
  const reply = await adminApi.ask("HEAD", "/admin/accounts")
  expect([reply.status, reply.text]).toEqual([200, ""])
})

test("what a failed statement leaves for the log shows none of its parameters", async () => {
  const gone = nowhere()
  const creating = createAccount(drizzle(gone), { id: nextId(), name: "canary" })
  const refused: unknown = await answerOf(creating, 1_000).catch((e) => e)
  const dividing = adminApi.database.execute(sql`SELECT 1 / 0, ${"canary"}::text`)
  const wrong: unknown = await answerOf(dividing, 1_000).catch((e) => e)
  expect(Bun.inspect(refused)).toContain("ENOENT")
  expect(Bun.inspect(wrong)).toContain("22012")
  expect(Bun.inspect([refused, wrong])).not.toContain("canary")
  await gone.end()
})
