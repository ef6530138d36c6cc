import { beforeEach, expect, test } from "bun:test"
import { eq, sql } from "drizzle-orm"
import { nextId } from "../../src/id.ts"
import { MAX_BALANCE_NANO } from "../../src/ledger/accounts/credits.ts"
import { accounts, credits } from "../../src/ledger/schema/tables.ts"
import { printUsd } from "../../src/money.ts"
import { mount, refusal, send, testAdmin } from "./admin-harness.ts"

let account: string
let path: string

const adminApi = await testAdmin()
beforeEach(async () => {
  account = await adminApi.openAccount()
  path = `/admin/accounts/${account}/credits`
})

async function balance(id = account): Promise<string> {
  return (await adminApi.ask("GET", `/admin/accounts/${id}`)).body.balance
}

test("POST credits writes the credit and moves the balance", async () => {
  const id = nextId()
  const { body: before } = await adminApi.ask("GET", `/admin/accounts/${account}`)
  const first = await adminApi.ask("POST", path, { id, amount: "10.000000001", reason: "Invoice 5" })
  expect(first.status).toBe(201)
  expect(first.body as unknown).toEqual({
    id,
    amount: "10.000000001",
    kind: "payment",
    priority: 50,
    effective_at: null,
    expires_at: null,
    source_ref: null,
    call_id: null,
    left: "10.000000001",
    expired: "0",
    voided: "0",
    reason: "Invoice 5",
    created_at: expect.any(String),
    account: { ...before, balance: "10.000000001", available: "10.000000001" },
  })
})

test("without an id every credit is another one", async () => {
  const one = await adminApi.ask("POST", path, { amount: "1" })
  const two = await adminApi.ask("POST", path, { amount: "1" })
  expect([one.status, two.status]).toEqual([201, 201])
  expect(one.body.id).not.toBe(two.body.id)
  expect(await balance()).toBe("2")
})

test("the same id again changes nothing and answers 200 with the original, the account as it is now", async () => {
  const id = nextId()
  const first = await adminApi.ask("POST", path, { id, amount: "5", reason: "first" })
  await adminApi.ask("POST", path, { amount: "2" })
  const again = await adminApi.ask("POST", path, { id: id.toUpperCase(), amount: "5.0", reason: "second" })
  expect(again.status).toBe(200)
  expect(again.body as unknown).toEqual({
    ...first.body,
    account: { ...first.body.account, balance: "7", available: "7" },
  })
})

test("a negative credit is a correction and may make the balance negative", async () => {
  const reply = await adminApi.ask("POST", path, { amount: "-2.5" })
  expect([reply.status, reply.body.account.balance]).toEqual([201, "-2.5"])
})

test("the same id with another amount or for another account is 400 and moves nothing", async () => {
  const id = nextId()
  const other = await adminApi.openAccount()
  await adminApi.ask("POST", path, { id, amount: "5" })
  const conflicts = [
    await adminApi.ask("POST", path, { id, amount: "6" }),
    await adminApi.ask("POST", path, { id, amount: "-5" }),
    await adminApi.ask("POST", `/admin/accounts/${other}/credits`, { id, amount: "5" }),
  ]
  expect(conflicts.map(refusal)).toEqual(Array(3).fill({ status: 400, code: "invalid_request", param: "id" }))
  expect(conflicts.map(({ text }) => text.includes(account))).toEqual([false, false, false])
  expect([await balance(), await balance(other)]).toEqual(["5", "0"])
})

test("50 posts of one id at once move the money once", async () => {
  const id = nextId()
  const replies = await Promise.all(
    Array.from({ length: 50 }, () => adminApi.ask("POST", path, { id, amount: "10" })),
  )
  const statuses = replies.map(({ status }) => status).sort()
  expect(statuses).toEqual([...Array<number>(49).fill(200), 201])
  expect(new Set(replies.map(({ body }) => body.account.balance))).toEqual(new Set(["10"]))
  expect(await balance()).toBe("10")
})

test("one id for ten accounts at once moves money on one of them", async () => {
  const id = nextId()
  const others = await Promise.all(Array.from({ length: 10 }, () => adminApi.openAccount()))
  const replies = await Promise.all(
    others.map((other) => adminApi.ask("POST", `/admin/accounts/${other}/credits`, { id, amount: "3" })),
  )
  expect(replies.map(({ status }) => status).sort()).toEqual([201, ...Array<number>(9).fill(400)])
  const balances = await Promise.all(others.map((other) => balance(other)))
  expect(balances.sort()).toEqual([...Array<string>(9).fill("0"), "3"])
})

test("a credit that waits for the account counts from the balance it then finds", async () => {
  const { promise: written, resolve: write } = Promise.withResolvers<void>()
  const { promise: waiting, resolve: wait } = Promise.withResolvers<void>()
  const near_limit = MAX_BALANCE_NANO - 2_000_000_000n
  const holder = adminApi.database.transaction(async (tx) => {
    await tx.update(accounts).set({ balance_nano: near_limit }).where(eq(accounts.id, account))
    write()
    await waiting
  })
  await written
  const fitting = adminApi.ask("POST", path, { amount: "2" })
  await blockedBy(1)
  const refused = adminApi.ask("POST", path, { amount: "2.000000001" })
  await blockedBy(2)
  wait()
  await holder
  expect((await fitting).body.account.balance).toBe(printUsd(MAX_BALANCE_NANO))
  expect(refusal(await refused)).toEqual({ status: 400, code: "invalid_request", param: "amount" })
})

/** Resolves once `count` statements wait for a lock. */
async function blockedBy(count: number): Promise<void> {
  const waiting = sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
  while ((await adminApi.database.execute(waiting)).length < count);
}

test.each(["", "-"])(
  "a balance that int8 cannot hold is 400, but a credit made before is still known (%s)",
  async (sign) => {
    const most = `${sign}999999999.999999999`
    const id = nextId()
    expect((await adminApi.ask("POST", path, { id, amount: most })).status).toBe(201)
    for (let at = 0; at < 3; at++)
      expect((await adminApi.ask("POST", path, { amount: most })).status).toBe(201)
    const refused = await adminApi.ask("POST", path, { amount: most })
    expect(refusal(refused)).toEqual({ status: 400, code: "invalid_request", param: "amount" })
    expect((await adminApi.ask("POST", path, { id, amount: most })).status).toBe(200)
    expect(await balance()).toBe(`${sign}3999999999.999999996`)
  },
)

test("a database that is too slow is a 503 with the id, and repeating it moves the money once", async () => {
  // Enough for the log of the request, which is written first, on a machine with much else to do.
  const hasty = mount({ database: adminApi.database, deadline_ms: 1_000 })
  const { promise: locked, resolve: lock } = Promise.withResolvers<void>()
  const { promise: waiting, resolve: wait } = Promise.withResolvers<void>()
  const holder = adminApi.database.transaction(async (tx) => {
    await tx.select().from(accounts).where(eq(accounts.id, account)).for("update")
    lock()
    await waiting
  })
  await locked
  const { status, headers, body } = await send(hasty, "POST", path, { amount: "4" })
  expect([status, body.error.code]).toEqual([503, "ledger_unavailable"])
  expect(headers.get("retry-after")).not.toBeNull()
  await blockedBy(1)
  wait()
  await holder
  const again = await adminApi.ask("POST", path, { id: body.error.id, amount: "4" })
  // Or the one that waited came second.
  expect([200, 201]).toContain(again.status)
  expect(await balance()).toBe("4")
})

test("GET credits lists them newest first, each once, whatever the page, also those of one instant", async () => {
  const ids: string[] = []
  for (let at = 1; at <= 5; at++) ids.push((await adminApi.ask("POST", path, { amount: `${at}` })).body.id)
  const together = Array.from({ length: 4 }, () => crypto.randomUUID())
  await adminApi.database
    .insert(credits)
    .values(together.map((id) => ({ id, account_id: account, amount_nano: 1n, created_at: new Date(0) })))
  const all = [...ids.toReversed(), ...together.sort().toReversed()]
  for (const limit of [1, 2, 3, 4, 5, 8, 9, 10]) expect(await adminApi.walk(path, limit)).toEqual(all)
  const { body } = await adminApi.ask("GET", `${path}?limit=1`)
  expect(body.data as unknown).toMatchObject([
    { id: ids[4], amount: "5", kind: "payment", left: "5", reason: null, created_at: expect.any(String) },
  ])
})
