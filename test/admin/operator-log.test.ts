import { expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { drizzle } from "drizzle-orm/postgres-js"
import { nextId } from "../../src/id.ts"
import { endLostChanges } from "../../src/ledger/accounts/operator-log.ts"
import { objectOf } from "../../src/wire/usage.ts"
import { feedReaches } from "../support/horizon.ts"
import {
  linesIn,
  mount,
  nowhere,
  openAdminHarness,
  operationsOf,
  send,
  TOKEN,
  testAdmin,
} from "./admin-harness.ts"

const KEPT = "sk_canary_4f1d9a"
const told: string[] = []
const adminApi = await testAdmin({
  addressOf: () => "192.0.2.7",
  onChange: (role, outcome) => told.push(`${role} ${outcome}`),
})

const operatorOf = async (name: string, role: string) =>
  (await adminApi.ask("POST", "/admin/operators", { name, role })).body

async function log(query = "") {
  const { status, text } = await adminApi.ask("GET", `/admin/log${query}`)
  expect(status).toBe(200)
  return JSON.parse(text).data
}

test("D102 a change has an entry: who, from where, what, before, after and why", async () => {
  const operator = await operatorOf("Ann", "support")
  const account = await adminApi.openAccount()
  const key = (await adminApi.ask("POST", `/admin/accounts/${account}/keys`, {})).body.id
  told.length = 0
  await adminApi.ask(
    "PATCH",
    `/admin/keys/${key}`,
    { suspended: true },
    {
      authorization: `Bearer ${operator.token}`,
      "x-tollgate-reason": encodeURIComponent("Ticket 4711: Müller"),
      "x-forwarded-for": "198.51.100.3",
    },
  )
  const [entry] = await log(`?resource=${key}`)
  expect(entry).toMatchObject({
    ...{ actor: "Ann", operator_id: operator.id, role: "support" },
    ...{ address: "192.0.2.7", forwarded_for: "198.51.100.3" },
    ...{ method: "PATCH", route: "/admin/keys/:id", resource_id: key, made_id: key },
    ...{ reason: "Ticket 4711: Müller", request: { suspended: true }, status: 200, outcome: "done" },
    before: { id: key, suspended: false },
    after: { id: key, suspended: true },
  })
  expect(told).toEqual(["support done"])
  await feedReaches(adminApi.database)
  const { text } = await adminApi.ask("GET", "/admin/events?types=tollgate.operator.changed")
  const [event] = linesIn(text).filter(({ id }) => id === entry.id)
  expect(event).toMatchObject({ source: "/operators/Ann", subject: "Ann", data: entry })
})

test("D102 every operation that changes something is in the log, whatever its answer, and no other", async () => {
  const account = await adminApi.openAccount()
  const operations = operationsOf(mount({ database: adminApi.database }))
  for (const { method, path, query, body } of operations) {
    const before = (await log("?limit=1"))[0]?.id
    const { status } = await adminApi.ask(method, path.replace(":id", account) + query, body)
    const [latest] = await log("?limit=1")
    const is_logged = method !== "GET" && !/(?:journal\/(?:check|dump)|reconciliation)$/.test(path)
    expect([method, path, latest.id !== before]).toEqual([method, path, is_logged])
    if (!is_logged) continue
    const outcome = status < 400 ? "done" : "refused"
    expect(latest).toMatchObject({ method, route: path, actor: "configured", status, outcome })
  }
})

test("D102 a request that is not valid, or not allowed, changes nothing and has no entry", async () => {
  const before = (await log("?limit=1"))[0]?.id
  const reader = await operatorOf("Bob", "read")
  const [made] = await log("?limit=1")
  await adminApi.ask("POST", "/admin/accounts", { name: "" })
  await adminApi.ask("POST", "/admin/accounts", { name: "x" }, { authorization: "Bearer wrong" })
  await adminApi.ask("POST", "/admin/accounts", { name: "x" }, { authorization: `Bearer ${reader.token}` })
  expect((await log("?limit=1"))[0].id).toBe(made.id)
  expect(made.id).not.toBe(before)
})

test("D102 no secret and no name of an end user is in the log or its events", async () => {
  const account = await adminApi.openAccount()
  const { key } = (await adminApi.ask("POST", `/admin/accounts/${account}/keys`, {})).body
  const sink = { name: "canary", url: `https://hooks.example.com/${KEPT}`, allow_private: true }
  const { body: made } = await adminApi.ask("POST", "/admin/sinks", sink)
  const secrets = [KEPT, key, made.secret, TOKEN]
  await adminApi.ask("PATCH", `/admin/sinks/${made.id}`, { url: `https://hooks.example.com/2/${KEPT}` })
  secrets.push((await adminApi.ask("POST", `/admin/sinks/${made.id}/rotate`, {})).body.secret)
  const vendor = { ...sink, name: "v", url: "https://api.stripe.com", kind: "stripe" }
  await adminApi.ask("POST", "/admin/sinks", { ...vendor, meter: "m", token: KEPT })
  const { id, token } = await operatorOf("Eve", "read")
  secrets.push(token, (await adminApi.ask("POST", `/admin/operators/${id}/rotate`, {})).body.token)
  const reason = `leaked ${key}, ${token} and ${TOKEN}`
  await adminApi.ask("POST", `/admin/accounts/${account}/credits`, { amount: "1", reason })
  await adminApi.ask("PATCH", `/admin/accounts/${account}`, { name: "x" }, { "x-tollgate-reason": reason })
  await adminApi.ask("POST", `/admin/accounts/${account}/forget-end-user`, { end_user: KEPT })
  const each = { name: "x", selector: "end_user", selected: KEPT, amount: "1", per: "day" }
  await adminApi.ask("POST", `/admin/accounts/${account}/budgets`, each)
  const kept = await adminApi.database.execute<{ text: string }>(sql`
    SELECT c::text || coalesce(e::text, '') AS text FROM tollgate.operator_changes c
    LEFT JOIN tollgate.operator_change_ends e USING (id)`)
  const shown = kept.map(({ text }) => text).join() + JSON.stringify(await log())
  for (const secret of secrets) {
    expect(secret).toMatch(/^.{14,}$/)
    expect(shown).not.toContain(secret)
  }
  const [, changed] = (await log(`?resource=${made.id}`)).toReversed()
  expect(changed.before.url).toMatch(/^https:\/\/hooks\.example\.com\/… \([0-9a-f]{12}\)$/)
  expect(changed.after.url).not.toBe(changed.before.url)
})

test("D102 a change whose entry cannot be written is not made; one whose outcome cannot be is, and stays unknown", async () => {
  const account = await adminApi.openAccount()
  const rename = (name: string) => adminApi.ask("PATCH", `/admin/accounts/${account}`, { name })
  const nameNow = async () => (await adminApi.ask("GET", `/admin/accounts/${account}`)).body.name
  const { database } = adminApi
  await database.execute(sql`ALTER TABLE tollgate.operator_changes RENAME TO away`)
  expect((await rename("first")).status).toBe(500)
  await database.execute(sql`ALTER TABLE tollgate.away RENAME TO operator_changes`)
  expect(await nameNow()).toBe("Acme")
  await database.execute(sql`ALTER TABLE tollgate.operator_change_ends RENAME TO away`)
  expect((await rename("second")).status).toBe(200)
  await database.execute(sql`ALTER TABLE tollgate.away RENAME TO operator_change_ends`)
  expect(await nameNow()).toBe("second")
  const [entry] = await log(`?resource=${account}`)
  expect(entry).toMatchObject({ status: null, outcome: "unknown", after: null, before: { name: "Acme" } })
})

test("D102 a change that lost its gateway becomes an event after ten minutes, once", async () => {
  const [old, fresh] = [nextId(Date.now() - 11 * 60_000), nextId()]
  for (const [id, minutes] of [
    [old, 11],
    [fresh, 9],
  ])
    await adminApi.database.execute(sql`INSERT INTO tollgate.operator_changes (id, at, actor, role, method, route)
      VALUES (${id}, now() - ${minutes}::int * interval '1 minute', 'Lost', 'admin', 'POST', '/admin/accounts')`)
  await endLostChanges(adminApi.database)
  await endLostChanges(adminApi.database)
  await feedReaches(adminApi.database)
  const { text } = await adminApi.ask("GET", "/admin/events?types=tollgate.operator.changed&limit=1000")
  const ids = linesIn<{ id: string; subject: string; data: { outcome: string } }>(text)
    .filter(({ subject }) => subject === "Lost")
    .map(({ id, data }) => [id, data.outcome])
  expect(ids).toEqual([[old, "unknown"]])
})

test("D102 the log is found by actor, resource and time, page by page", async () => {
  const operator = await operatorOf("Zoe", "admin")
  const authorization = `Bearer ${operator.token}`
  const ids: string[] = []
  for (const name of ["a", "b", "c"])
    ids.unshift((await adminApi.ask("POST", "/admin/accounts", { name }, { authorization })).body.id)
  const made = (entries: { made_id: string }[]) => entries.map(({ made_id }) => made_id)
  expect(made(await log("?actor=Zoe"))).toEqual(ids)
  expect(await adminApi.walk("/admin/log?actor=Zoe", 2)).toHaveLength(3)
  expect(made(await log(`?resource=${ids[1]}`))).toEqual(ids.slice(1, 2))
  expect(await log("?actor=Zoe&from=2099-01-01")).toEqual([])
})

test("D102 without the first shard nothing is changed", async () => {
  const gone = nowhere()
  const shard = { open: true, database: adminApi.database }
  const app = mount({
    database: adminApi.database,
    deadline_ms: 1_000,
    shards: [
      { ...shard, name: "a", database: drizzle(gone) },
      { ...shard, name: "b" },
    ],
  })
  const before = await adminApi.database.execute(sql`SELECT FROM tollgate.accounts`)
  expect((await send(app, "POST", "/admin/accounts", { name: "x" })).status).toBe(503)
  expect(await adminApi.database.execute(sql`SELECT FROM tollgate.accounts`)).toHaveLength(before.length)
  await gone.end()
})

test("D101, D102 with several shards, operators and the log are in the first one, whatever the account's shard", async () => {
  const [a, b] = [await openAdminHarness(), await openAdminHarness()]
  const app = mount({
    database: a.database,
    shards: [
      { name: "a", open: false, database: a.database },
      { name: "b", open: true, database: b.database },
    ],
  })
  const ask = async (method: string, path: string, token: string, body?: object) => {
    const headers = { authorization: `Bearer ${token}` }
    return objectOf(JSON.parse((await send(app, method, `/admin${path}`, body, headers)).text))
  }
  const made = await ask("POST", "/operators", TOKEN, { name: "Ann", role: "billing" })
  const token = String(made.token)
  const { id, shard } = await ask("POST", "/accounts", token, { name: "x" })
  await ask("PATCH", `/accounts/${String(id)}`, token, { name: "y" })
  const { data } = await ask("GET", `/log?resource=${String(id)}`, token)
  expect(shard).toBe("b")
  expect(data).toMatchObject([
    { actor: "Ann", method: "PATCH", before: { name: "x", shard: "b" }, after: { name: "y", shard: "b" } },
    { actor: "Ann", method: "POST", before: null, made_id: id },
  ])
  expect(await b.database.execute(sql`SELECT FROM tollgate.operator_changes`)).toHaveLength(0)
  await a.close()
  await b.close()
})
