import { expect, test } from "bun:test"
import { eq, sql } from "drizzle-orm"
import { isId, nextId } from "../../src/id.ts"
import { changeAccount, createAccount } from "../../src/ledger/accounts/accounts.ts"
import { accounts } from "../../src/ledger/schema/tables.ts"
import { parseTime } from "../../src/wire/time.ts"
import { refusal, testAdmin } from "./admin-harness.ts"

const adminApi = await testAdmin()

test("POST /admin/accounts opens an account with nothing on it", async () => {
  const { status, body, headers } = await adminApi.ask("POST", "/admin/accounts", { name: "Ürün & Söhne 😀" })
  expect(status).toBe(201)
  expect(headers.get("content-type")).toStartWith("application/json")
  expect(headers.get("cache-control")).toBe("no-store")
  expect(body as unknown).toEqual({
    id: expect.any(String),
    name: "Ürün & Söhne 😀",
    external_id: null,
    balance: "0",
    held: "0",
    available: "0",
    credit_limit: "0",
    low_balance: null,
    may_manage_keys: false,
    price_multiplier: "1",
    suspended: false,
    created_at: expect.any(String),
  })
  expect(isId(body.id)).toBe(true)
  expect(parseTime(body.created_at)).not.toBeNull()
})

test("GET /admin/accounts/{id} shows balance, held and what is left, to the last nano-dollar", async () => {
  const id = await adminApi.openAccount()
  await adminApi.database
    .update(accounts)
    .set({ balance_nano: 9_007_199_254_740_993n, held_nano: 1n })
    .where(eq(accounts.id, id))
  const { status, body } = await adminApi.ask("GET", `/admin/accounts/${id}`)
  expect(status).toBe(200)
  expect(body).toMatchObject({
    id,
    balance: "9007199.254740993",
    held: "0.000000001",
    available: "9007199.254740992",
  })
  const upper = await adminApi.ask("GET", `/admin/accounts/${id.toUpperCase()}`)
  expect(upper.body.id).toBe(id)
})

test.each([
  ["no content type", ""],
  ["text", "text/plain"],
  ["a form", "application/x-www-form-urlencoded"],
  ["another JSON", "application/merge-patch+json"],
  ["another charset", "application/json; charset=utf-16"],
])("D15 415 for %s", async (_, type) => {
  const reply = await adminApi.ask("POST", "/admin/accounts", { name: "x" }, { "content-type": type })
  expect(refusal(reply)).toEqual({ status: 415, code: "unsupported_media_type", param: null })
})

test("D16 a refusal repeats nothing of the values it was sent", async () => {
  const secret = "tg_live_do-not-print-me"
  const { text } = await adminApi.ask("POST", "/admin/accounts", { name: [secret] })
  expect(text).not.toContain(secret)
})

test.each([
  ...["nonsense", "019f8b1c-0000-7000-8b7a-5d1f3c9e2a4", "%00", "%zz", "0", "null"].map(
    (id) => ["GET", `/admin/accounts/${id}`] as const,
  ),
  ["GET", "/admin/accounts/nope/credits"],
  ["POST", "/admin/accounts/nope/keys"],
  ["DELETE", "/admin/keys/nope"],
  ["GET", "/admin/calls/nope"],
])("%s %s is 404: no UUID", async (method, path) => {
  const { status, body } = await adminApi.ask(method, path, method === "POST" ? {} : undefined)
  expect([status, body.error.message]).toEqual([404, "The id in the path is not a valid UUID."])
})

test("GET /admin/accounts lists every account once, newest first, whatever the page", async () => {
  const made: string[] = []
  for (let at = 0; at < 7; at++) made.push(await adminApi.openAccount(`account ${at}`))
  const all = await adminApi.walk("/admin/accounts", 1_000)
  expect(all.slice(0, 7)).toEqual(made.toReversed())
  for (const limit of [1, 2, 3, all.length - 1, all.length, all.length + 1]) {
    expect(await adminApi.walk("/admin/accounts", limit)).toEqual(all)
  }
})

test("the last page is the last, also when it is full", async () => {
  const { length } = await adminApi.walk("/admin/accounts", 1_000)
  expect((await adminApi.ask("GET", `/admin/accounts?limit=${length}`)).body.next).toBeNull()
  expect((await adminApi.ask("GET", `/admin/accounts?limit=${length - 1}`)).body.next).not.toBeNull()
})

test("D94 an external id is one account's, finds it, and makes a request repeatable", async () => {
  const { body: made } = await adminApi.ask("POST", "/admin/accounts", {
    name: "a",
    external_id: "customer-1",
  })
  const repeated = await adminApi.ask("POST", "/admin/accounts", { name: "b", external_id: "customer-1" })
  expect([repeated.status, repeated.body]).toEqual([200, made])
  const taken = { status: 400, code: "invalid_request", param: "external_id" }
  const other = await adminApi.ask("POST", "/admin/accounts", {
    id: nextId(),
    name: "b",
    external_id: "customer-1",
  })
  expect(refusal(other)).toEqual(taken)
  const { body: plain } = await adminApi.ask("POST", "/admin/accounts", { name: "c" })
  const path = `/admin/accounts/${plain.id}`
  expect(refusal(await adminApi.ask("PATCH", path, { external_id: "customer-1" }))).toEqual(taken)
  const changed = await adminApi.ask("PATCH", path, { external_id: "customer-2" })
  expect(changed.body).toMatchObject({ external_id: "customer-2" })
  const found = await adminApi.ask("GET", "/admin/accounts?external_id=customer-2")
  expect(found.body.data.map(({ id }: { id: string }) => id)).toEqual([plain.id])
  expect((await adminApi.ask("PATCH", path, { external_id: null })).body).toMatchObject({ external_id: null })
})

test("D94 an external id that another account takes at the same time is a conflict", async () => {
  const [first, second] = await Promise.all(
    ["a", "b"].map(async (name) => createAccount(adminApi.database, { id: nextId(), name })),
  )
  if (first?.outcome !== "created" || second?.outcome !== "created") throw new Error("no account was made")
  let change = Promise.resolve<unknown>(null)
  await adminApi.database.transaction(async (transaction) => {
    await transaction.execute(
      sql`UPDATE tollgate.accounts SET external_id = 'taken' WHERE id = ${first.account.id}`,
    )
    change = changeAccount(adminApi.database, second.account.id, { external_id: "taken" })
    for (let waiting = 0; waiting === 0; ) {
      const [row] = await transaction.execute<{ waiting: number }>(
        sql`SELECT count(*)::int AS waiting FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'
          AND transactionid = pg_current_xact_id()::xid`,
      )
      waiting = row?.waiting ?? 0
    }
  })
  expect(await change).toBe("conflict")
})

test("accounts are found by a part of their name or external id, and sorted, page by page", async () => {
  const names = ["Zoé GmbH", "zeta", "Ähre", "alpha 100%", "Beta_1", "𝒵"]
  const made = new Map<string, string>()
  for (const name of names) made.set(name, await adminApi.openAccount(`sorted ${name}`))
  await adminApi.ask("PATCH", `/admin/accounts/${made.get("zeta")}`, {
    external_id: "Customer-77",
    credit_limit: "3",
  })
  await adminApi.ask("POST", `/admin/accounts/${made.get("Ähre")}/credits`, { amount: "2" })
  await adminApi.ask("POST", `/admin/accounts/${made.get("Beta_1")}/credits`, { amount: "907199254.740993" })
  const list = async (query: string) => {
    const ids = await adminApi.walk(`/admin/accounts?${query}`, 2)
    return ids.map((id) => names.find((name) => made.get(name) === id))
  }
  const by_name = ["alpha 100%", "Beta_1", "zeta", "Zoé GmbH", "Ähre", "𝒵"]
  expect(await list("search=SORTED&sort=name")).toEqual(by_name)
  expect(await list("search=sorted&sort=-name")).toEqual(by_name.toReversed())
  expect((await list("search=sorted&sort=-balance")).slice(0, 2)).toEqual(["Beta_1", "Ähre"])
  expect((await list("search=sorted&sort=available")).slice(-3)).toEqual(["Ähre", "zeta", "Beta_1"])
  expect(await list("search=sorted&sort=created")).toEqual(names)
  expect(await list("search=sorted")).toEqual(names.toReversed())
  expect(await list("search=omer-77")).toEqual(["zeta"])
  expect(await list(`search=${made.get("𝒵")?.toUpperCase()}`)).toEqual(["𝒵"])
  expect(await list("search=100%25")).toEqual(["alpha 100%"])
  expect(await list("search=a_1")).toEqual(["Beta_1"])
  expect(refusal(await adminApi.ask("GET", "/admin/accounts?sort=margin"))).toMatchObject({
    status: 400,
    param: "sort",
  })
})
