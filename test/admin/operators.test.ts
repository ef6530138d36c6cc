import { expect, spyOn, test } from "bun:test"
import { sql } from "drizzle-orm"
import { drizzle } from "drizzle-orm/postgres-js"
import { makeKey, OPERATOR_PREFIX } from "../../src/admission/key.ts"
import { nextId } from "../../src/id.ts"
import { createOperator, operatorsOfTokens } from "../../src/ledger/accounts/operators.ts"
import { connect } from "../../src/ledger/database/address.ts"
import { openDatabase } from "../../src/ledger/database/database.ts"
import { type Role, roles } from "../../src/wire/roles.ts"
import { BEFORE_OPERATORS, createOldLedger } from "../ledger/old-ledger.ts"
import { emptyDatabase } from "../support/database.ts"
import { mount, operationsOf, refusal, send, testAdmin } from "./admin-harness.ts"

const adminApi = await testAdmin()

interface Made {
  readonly id: string
  readonly token: string
  readonly authorization: string
}

let count = 0
async function make(role: Role, more: object = {}): Promise<Made> {
  const order = { name: `${role} ${count++}`, role, ...more }
  const { status, body } = await adminApi.ask("POST", "/admin/operators", order)
  expect(status).toBe(201)
  const { id, token } = body
  return { id, token, authorization: `Bearer ${token}` }
}

const ask = ({ authorization }: Pick<Made, "authorization">, method: string, path: string, body?: object) =>
  adminApi.ask(method, path, body, { authorization })

/** The least role for each operation; a GET needs `read`. */
const LEAST: Record<Exclude<Role, "read">, readonly string[]> = {
  support: ["DELETE /admin/keys/:id"],
  billing: [
    ...["POST /admin/accounts", "PATCH /admin/accounts/:id", "POST /admin/accounts/:id/keys"],
    ...["PATCH /admin/keys/:id", "POST /admin/accounts/:id/credits", "POST /admin/credits/:id/void"],
    ...["POST /admin/accounts/:id/budgets", "PATCH /admin/budgets/:id", "POST /admin/budgets/:id/reset"],
    ...["DELETE /admin/budgets/:id", "POST /admin/accounts/:id/prices", "POST /admin/prices/:id/end"],
    ...["POST /admin/price-lists", "PATCH /admin/price-lists/:id", "POST /admin/price-lists/:id/assignments"],
    ...["POST /admin/assignments/:id/end", "POST /admin/keys/:id/rotate"],
  ],
  admin: [
    ...["POST /admin/accounts/:id/move", "POST /admin/accounts/:id/forget-end-user"],
    ...["POST /admin/sinks", "PATCH /admin/sinks/:id", "POST /admin/sinks/:id/rotate"],
    ...["POST /admin/sinks/:id/replay", "DELETE /admin/sinks/:id", "POST /admin/operators"],
    ...["POST /admin/operators/:id/rotate", "DELETE /admin/operators/:id", "POST /admin/sums/check"],
    ...["POST /admin/sessions/end"],
    ...["POST /admin/journal/dump", "POST /admin/journal/dumped", "POST /admin/journal/drop"],
  ],
}
const OPEN = [
  ...["POST /admin/session", "DELETE /admin/session", "POST /admin/journal/check"],
  "POST /admin/reconciliation",
]

test("D101 each role may use the operations of its own and of those before it, and no other", async () => {
  const operations = operationsOf(mount({ database: adminApi.database }))
  const offered = new Set(operations.map(({ method, path }) => `${method} ${path}`))
  const listed = Object.values(LEAST).flat()
  expect([...listed, ...OPEN].filter((one) => !offered.has(one))).toEqual([])
  const made = await Promise.all(roles.map(async (role) => [role, await make(role)] as const))
  for (const { method, path, query, body } of operations) {
    const operation = `${method} ${path}`
    const least =
      roles.find((role) => role !== "read" && LEAST[role].includes(operation)) ??
      (method === "GET" || OPEN.includes(operation) ? "read" : null)
    expect([operation, least]).not.toEqual([operation, null])
    const own = path.replace(":id", nextId())
    const replies = made.map(async ([role, operator]) => {
      const reply = await ask(operator, method, own + query, body && { ...body, ...named(path) })
      const is_refused = reply.status === 403 && reply.body.error.code === "role_required"
      const is_allowed = roles.indexOf(role) >= roles.indexOf(least ?? "admin")
      expect([operation, role, !is_refused]).toEqual([operation, role, is_allowed])
      expect(reply.status).not.toBe(401)
    })
    await Promise.all(replies)
  }
})

/** A name for what must have another one each time. */
const named = (path: string) => (path === "/admin/operators" ? { name: nextId() } : {})

test("D101 made-up tokens are looked up in few statements, and operators get their answers", async () => {
  const reader = await make("read")
  const statements = spyOn(adminApi.database, "execute")
  const made_up = Array.from({ length: 50 }, () => `Bearer ${makeKey(OPERATOR_PREFIX)}`)
  const asked = [reader.authorization, ...made_up].map((authorization) =>
    ask({ authorization }, "GET", "/admin/accounts"),
  )
  const [own, ...others] = (await Promise.all(asked)).map(({ status }) => status)
  const count = statements.mock.calls.length
  statements.mockRestore()
  expect([own, new Set(others)]).toEqual([200, new Set([401])])
  expect(count).toBeLessThan(10)
})

test("D101 support may suspend, but change nothing else; the refusal names both roles", async () => {
  const support = await make("support")
  const account = await adminApi.openAccount()
  const key = (await adminApi.ask("POST", `/admin/accounts/${account}/keys`, {})).body.id
  for (const path of [`/admin/accounts/${account}`, `/admin/keys/${key}`]) {
    expect((await ask(support, "PATCH", path, { suspended: true })).status).toBe(200)
    const other = await ask(support, "PATCH", path, { suspended: false, name: "Mine" })
    expect([other.status, other.body.error.message]).toEqual([
      403,
      "This needs the role billing. Your role is support. Ask an operator with the role admin.",
    ])
    const [row] = await adminApi.database.execute<{ name: string | null; suspended_at: Date | null }>(
      sql`SELECT name, suspended_at FROM tollgate.keys WHERE id = ${key}`,
    )
    if (path.includes("keys")) expect(row).toMatchObject({ name: null, suspended_at: expect.anything() })
  }
})

test("D101 a role is refused before the body is read, and after a wrong token", async () => {
  const reader = await make("read")
  const send = (authorization: string) =>
    adminApi.ask("POST", "/admin/accounts", "{", { authorization, "content-type": "text/plain" })
  expect(refusal(await send(reader.authorization))).toMatchObject({ status: 403, code: "role_required" })
  expect((await send(`${reader.authorization}x`)).status).toBe(401)
})

test("D101 a token is shown once, kept as a hash, and its use is noted to the minute", async () => {
  const { id, token, authorization } = await make("read")
  expect(token).toMatch(/^tgo_[0-9A-Za-z]{36}$/)
  const again = await adminApi.ask("POST", "/admin/operators", { id, name: "again", role: "admin" })
  expect([again.status, JSON.parse(again.text)]).toEqual([200, expect.not.objectContaining({ token })])
  const row = async () => {
    const rows = await adminApi.database.execute<{ token_hash: string; last_used_at: string | null }>(
      sql`SELECT *, last_used_at::text FROM tollgate.operators WHERE id = ${id}`,
    )
    expect(JSON.stringify(rows)).not.toContain(token)
    return rows[0]
  }
  expect((await row())?.token_hash).toBe(new Bun.CryptoHasher("sha256").update(token).digest("hex"))
  expect((await row())?.last_used_at).toBeNull()
  await ask({ authorization }, "GET", "/admin/accounts")
  const first = (await row())?.last_used_at
  expect(first).toBeString()
  await ask({ authorization }, "GET", "/admin/accounts")
  expect((await row())?.last_used_at).toBe(first ?? "")
  await adminApi.database.execute(
    sql`UPDATE tollgate.operators SET last_used_at = now() - interval '61 seconds' WHERE id = ${id}`,
  )
  await ask({ authorization }, "GET", "/admin/accounts")
  expect(Date.parse((await row())?.last_used_at ?? "")).toBeGreaterThanOrEqual(Date.parse(first ?? ""))
})

test("D101 a revoked, expired or replaced token is refused by the next request on every gateway", async () => {
  const another = mount({ database: adminApi.database })
  const statuses = async ({ authorization }: Made) => {
    const asked = [adminApi.app, another].map((app) =>
      send(app, "GET", "/admin/accounts", undefined, { authorization }),
    )
    return (await Promise.all(asked)).map(({ status }) => status)
  }
  const revoked = await make("admin")
  expect(await statuses(revoked)).toEqual([200, 200])
  expect((await adminApi.ask("DELETE", `/admin/operators/${revoked.id}`)).status).toBe(204)
  expect(await statuses(revoked)).toEqual([401, 401])
  expect((await adminApi.ask("POST", `/admin/operators/${revoked.id}/rotate`, {})).status).toBe(404)
  const expired = await make("read", { expires_at: "2099-01-01T00:00:00Z" })
  expect(await statuses(expired)).toEqual([200, 200])
  await adminApi.database.execute(
    sql`UPDATE tollgate.operators SET expires_at = now() WHERE id = ${expired.id}`,
  )
  expect(await statuses(expired)).toEqual([401, 401])
  const replaced = await make("read")
  const { body: again } = await adminApi.ask("POST", `/admin/operators/${replaced.id}/rotate`, {})
  expect(await statuses(replaced)).toEqual([401, 401])
  expect(await statuses({ ...replaced, authorization: `Bearer ${again.token}` })).toEqual([200, 200])
})

test("D101 a session has the role of the token that opened it, and ends with it", async () => {
  const same_origin = { authorization: "", "sec-fetch-site": "same-origin" }
  const open = async (operator: Made) => {
    const { status, headers } = await ask(operator, "POST", "/admin/session")
    expect(status).toBe(204)
    const [cookie = ""] = (headers.get("set-cookie") ?? "").split(";")
    return (method: string, path: string, body?: object) => {
      const request = new Request(`http://localhost${path}`, {
        method,
        headers: { ...same_origin, cookie, "content-type": "application/json" },
        ...(body && { body: JSON.stringify(body) }),
      })
      request.headers.delete("authorization")
      return adminApi.app.handle(request)
    }
  }
  const [reader, other] = [await make("read"), await make("billing")]
  const [mine, theirs] = [await open(reader), await open(other)]
  expect(await (await mine("GET", "/admin/session")).json()).toMatchObject({ role: "read" })
  expect((await mine("POST", "/admin/accounts", { name: "x" })).status).toBe(403)
  expect((await theirs("POST", "/admin/accounts", { name: "x" })).status).toBe(201)
  await adminApi.ask("POST", `/admin/operators/${reader.id}/rotate`, {})
  await adminApi.ask("DELETE", `/admin/operators/${other.id}`)
  expect((await mine("GET", "/admin/session")).status).toBe(401)
  expect((await theirs("GET", "/admin/session")).status).toBe(401)
})

test.each([
  ["two operators with one name", "Ann", 400],
  ["the name of the configured token", "configured", 400],
  ["the name of the command line", "database", 400],
  ["a colon", "oidc:ann", 400],
  ["another name", "Bob", 201],
])("D101 names tell operators apart: %s", async (_, name, status) => {
  await adminApi.ask("POST", "/admin/operators", { name: "Ann", role: "read" })
  expect((await adminApi.ask("POST", "/admin/operators", { name, role: "read" })).status).toBe(status)
})

test("D101 an entry of a budget has the operator's name", async () => {
  const billing = await make("billing")
  const account = await adminApi.openAccount()
  const budget = { name: "x", selector: "all", amount: "1", per: "day" }
  const made = await ask(billing, "POST", `/admin/accounts/${account}/budgets`, budget)
  const { text } = await adminApi.ask("GET", `/admin/budgets/${made.body.id}/entries`)
  expect(JSON.parse(text).data).toMatchObject([{ data: { actor: expect.stringMatching(/^billing \d+$/) } }])
})

test("D101 an older ledger gets operators; a session of an older gateway opens nothing", async () => {
  const { address, drop } = await emptyDatabase()
  const client = connect(address, { max: 1, onnotice: () => {} })
  await createOldLedger(client, BEFORE_OPERATORS)
  await client`INSERT INTO tollgate.console_sessions (hash, expires_at) VALUES ('old', now() + interval '1 hour')`
  const opened = await openDatabase(address)
  const database = drizzle(client)
  expect([...(await client`SELECT actor, role, operator_id FROM tollgate.console_sessions`)]).toEqual([
    { actor: "configured", role: "admin", operator_id: null },
  ])
  const order = { id: nextId(), name: "Ann", role: "read", token_hash: "x", expires_at: null } as const
  expect(await createOperator(database, order)).toMatchObject({ outcome: "created" })
  const ann = { name: "Ann", role: "read", operator_id: order.id } as const
  expect(await operatorsOfTokens(database, ["x", "y"])).toEqual(new Map([["x", ann]]))
  await opened.close()
  await client.end()
  await drop()
})
