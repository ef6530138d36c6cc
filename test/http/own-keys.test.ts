import { expect, test } from "bun:test"
import { makeKey } from "../../src/admission/key.ts"
import { nextId } from "../../src/id.ts"
import { connect } from "../../src/ledger/database/address.ts"
import type { CreatedKeyBody, KeyBody } from "../../src/wire/admin.ts"
import type { ChangeBody } from "../../src/wire/operators.ts"
import { chat, until, untilIs } from "../support/gateway.ts"
import { HELLO } from "../support/provider.ts"
import { testPair } from "../support/test-gateway.ts"
import { twoShards } from "../support/two-shards.ts"

/** D104: holders of keys change the keys of their account, at two gateways on two shards. */

const { gateway: first, other: second, shards } = await testPair({ answer: HELLO, place: await twoShards() })

interface Answer<Body> {
  readonly status: number
  readonly body: Body
  readonly code?: string
}

/** A request about keys, with the key of its holder. */
async function ask<Body = CreatedKeyBody>(
  key: string,
  method: string,
  path = "",
  body?: object,
  { url } = first,
): Promise<Answer<Body>> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" }
  const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
  const answer = await fetch(`${url}/v1/keys${path}`, init)
  const text = await answer.text()
  const read = text === "" ? null : JSON.parse(text)
  return { status: answer.status, body: read, ...(!answer.ok && { code: read.error.code }) }
}

const refused = { status: 403, code: "key_change_not_allowed" }

/** An account whose holders may change keys. */
async function customer(key: object = {}) {
  const account = await first.account("1")
  await first.admin("PATCH", `/accounts/${account.id}`, { may_manage_keys: true })
  await first.admin("PATCH", `/keys/${account.key_id}`, key)
  return account
}

async function calls(key: string, gateway = first): Promise<number> {
  const answer = await chat(gateway, key, { max_tokens: 5 })
  await answer.text()
  return answer.status
}

test("D104 a holder changes keys only where the operator allows it", async () => {
  const { id, key, key_id } = await first.account("1")
  for (const [method, path, body] of [
    ["POST", "", {}],
    ["POST", `/${key_id}/rotate`, {}],
    ["DELETE", `/${key_id}`, undefined],
  ] as const)
    expect(await ask(key, method, path, body)).toMatchObject(refused)
  expect(await ask(makeKey(), "POST", "", {})).toMatchObject({ status: 401, code: "invalid_api_key" })
  // Nothing that such a holder sends fills the log (D102).
  expect(await first.admin("GET", `/log?actor=key:${key_id}`)).toMatchObject({ data: [] })
  await first.admin("PATCH", `/accounts/${id}`, { may_manage_keys: true })

  const order = { id: nextId(), name: "jobs" }
  const twice = await Promise.all([ask(key, "POST", "", order), ask(key, "POST", "", order, second)])
  expect(twice.filter(({ status }) => status === 201)).toHaveLength(1)
  const made = twice.find(({ status }) => status === 201)
  // The other one came later, or at the same moment, when one change of an account runs at a time.
  expect((await ask(key, "POST", "", order)).status).toBe(200)
  expect(await calls(made?.body.key ?? "")).toBe(200)
  const listed = await ask<{ data: KeyBody[] }>(key, "GET")
  expect(listed.body.data.map(({ name }) => name)).toEqual(["jobs", null])
  expect(JSON.stringify(listed.body)).not.toContain(key)

  await first.admin("PATCH", `/keys/${key_id}`, { suspended: true })
  expect(await ask(key, "POST", "", {})).toMatchObject({ status: 403, code: "key_suspended" })
  expect((await ask(key, "GET")).status).toBe(200)
})

test("D104 no key that a holder makes has more rights than the one that makes it", async () => {
  const rights = {
    models: ["chat-model", "other"],
    expires_at: "2099-01-01T00:00:00.000Z",
    group: "acme/search",
    labels: { plan: "pro" },
    required_tags: ["team"],
    client_tags: "ignored",
  }
  const { id, key, key_id } = await customer({ ...rights, required_tags: null })
  await first.admin("PATCH", `/keys/${key_id}`, rights)
  const { body: same } = await ask(key, "POST", "", {})
  expect(same).toMatchObject(rights)
  const narrower = {
    models: ["other"],
    expires_at: "2098-01-01T00:00:00.000Z",
    group: "acme/search/web",
    spending_limit: { amount: "1", per: "day" },
  }
  const { body: less } = await ask(key, "POST", "", {
    ...narrower,
    labels: { team: "a" },
    required_tags: ["feature"],
  })
  expect(less).toMatchObject({
    ...narrower,
    labels: { plan: "pro", team: "a" },
    required_tags: ["team", "feature"],
    client_tags: "ignored",
  })
  for (const more of [
    { models: ["third"] },
    { expires_at: "2099-01-01T00:00:01Z" },
    { group: "acme" },
    { group: "acme/searches" },
    { labels: { plan: "free" } },
  ])
    expect(await ask(key, "POST", "", more)).toMatchObject(refused)

  const wide = await first.admin<CreatedKeyBody>("POST", `/accounts/${id}/keys`, {})
  for (const [method, path] of [
    ["POST", `/${wide.id}/rotate`],
    ["DELETE", `/${wide.id}`],
  ] as const)
    expect(await ask(key, method, path, {})).toMatchObject(refused)
  expect((await ask(key, "POST", `/${less.id}/rotate`, {})).status).toBe(200)
  const stranger = await customer()
  expect(await ask(stranger.key, "POST", `/${key_id}/rotate`, {})).toMatchObject({ status: 404 })
  expect(await ask(stranger.key, "DELETE", `/${key_id}`)).toMatchObject({ status: 404 })
})

test("D104 a key with a limit or a budget of its own rotates only itself, which gives no limit twice", async () => {
  const limit = { spending_limit: { amount: "0.0003", per: "month" } }
  const { id, key, key_id } = await customer(limit)
  const other = await first.admin<CreatedKeyBody>("POST", `/accounts/${id}/keys`, limit)
  expect(await calls(key)).toBe(200)
  await until(
    () => calls(key),
    (status) => status === 402,
  )
  const spentOf = async () =>
    (await first.admin<{ data: KeyBody[] }>("GET", `/accounts/${id}/keys`)).data.find(
      (one) => one.id === key_id,
    )?.spent
  const spent = await spentOf()
  expect(await ask(key, "POST", "", limit)).toMatchObject(refused)
  expect(await ask(key, "POST", `/${other.id}/rotate`, {})).toMatchObject(refused)
  const { body: rotated } = await ask(key, "POST", `/${key_id}/rotate`, {})
  expect(rotated).toMatchObject({ id: key_id, ...limit })
  for (const secret of [key, rotated.key]) expect(await calls(secret)).toBe(402)
  expect(await spentOf()).toBe(spent)

  const second_customer = await customer()
  const budget = { name: "jobs", selector: "key", selected: second_customer.key_id, unit: "requests" }
  await first.admin("POST", `/accounts/${second_customer.id}/budgets`, { ...budget, amount: "1", per: "day" })
  expect(await ask(second_customer.key, "POST", "", {})).toMatchObject(refused)
  const { body } = await ask(second_customer.key, "POST", `/${second_customer.key_id}/rotate`, {})
  expect(await calls(second_customer.key)).toBe(200)
  expect(await calls(body.key)).toBe(402)
})

async function endGrace(key_id: string): Promise<void> {
  for (const { address } of shards) {
    const sql = connect(address, { max: 1 })
    await sql`UPDATE tollgate.keys SET previous_until = now() WHERE id = ${key_id} AND previous_until IS NOT NULL`
    await sql.end()
  }
}

test("D104 after a rotation both secrets work for the grace time, then only the new one, at every gateway", async () => {
  const { id, key, key_id } = await customer()
  for (const gateway of [first, second]) expect(await calls(key, gateway)).toBe(200)
  const { body: rotated } = await ask(key, "POST", `/${key_id}/rotate`, { keep_hours: 1 })
  expect(rotated.id).toBe(key_id)
  for (const gateway of [first, second])
    for (const secret of [key, rotated.key, key]) expect(await calls(secret, gateway)).toBe(200)
  expect((await ask(key, "GET", "", undefined, second)).status).toBe(200)
  // A second click, or a repetition after a lost answer.
  expect(await ask(key, "POST", `/${key_id}/rotate`, { keep_hours: 1 })).toMatchObject({ status: 400 })

  const { shard } = await first.admin<{ shard: string }>("GET", `/accounts/${id}`)
  const to = shard === "a" ? "b" : "a"
  await untilIs(() => first.admin("POST", `/accounts/${id}/move`, { to }), { step: "done" })
  for (const secret of [key, rotated.key]) expect(await calls(secret, second)).toBe(200)
  await endGrace(key_id)
  for (const gateway of [first, second]) {
    expect(await calls(key, gateway)).toBe(401)
    expect(await calls(rotated.key, gateway)).toBe(200)
  }
  const { body: third } = await ask(rotated.key, "POST", `/${key_id}/rotate`, {})
  const { body: last } = await ask(third.key, "POST", `/${key_id}/rotate`, { keep_hours: 0 })
  for (const secret of [key, rotated.key, third.key]) expect(await calls(secret, second)).toBe(401)
  expect(await calls(last.key, second)).toBe(200)
})

test("D104 an operator rotates a customer's key in the same way, where its holders may not", async () => {
  const { key, key_id } = await first.account("1")
  const rotate = (body: object) => first.admin<CreatedKeyBody>("POST", `/keys/${key_id}/rotate`, body)
  for (const gateway of [first, second]) expect(await calls(key, gateway)).toBe(200)
  const rotated = await rotate({ keep_hours: 1 })
  expect(rotated).toMatchObject({ id: key_id, previous_until: expect.any(String) })
  for (const gateway of [first, second])
    for (const secret of [key, rotated.key]) expect(await calls(secret, gateway)).toBe(200)
  await expect(rotate({ keep_hours: 1 })).rejects.toThrow(/: 400 .*"param":"keep_hours"/)
  const last = await rotate({ keep_hours: 0 })
  expect(last.previous_until).toBeNull()
  for (const gateway of [first, second]) {
    for (const secret of [key, rotated.key]) expect(await calls(secret, gateway)).toBe(401)
    expect(await calls(last.key, gateway)).toBe(200)
  }
  await first.admin("DELETE", `/keys/${key_id}`)
  await expect(rotate({})).rejects.toThrow(/: 404 /)
  expect(await calls(last.key)).toBe(401)

  const read = () => first.admin<{ data: ChangeBody[] }>("GET", `/log?resource=${key_id}&limit=5`)
  const { data } = await until(read, (log) => log.data.length === 5)
  expect(data.map(({ actor, method, route, outcome }) => [actor, method, route, outcome])).toEqual([
    ["configured", "POST", "/admin/keys/:id/rotate", "refused"],
    ["configured", "DELETE", "/admin/keys/:id", "done"],
    ["configured", "POST", "/admin/keys/:id/rotate", "done"],
    ["configured", "POST", "/admin/keys/:id/rotate", "refused"],
    ["configured", "POST", "/admin/keys/:id/rotate", "done"],
  ])
  for (const secret of [key, rotated.key, last.key]) expect(JSON.stringify(data)).not.toContain(secret)
})

test("D104 a revoked key is refused immediately, and the last one that works stays", async () => {
  const { key, key_id } = await customer()
  const { body: made } = await ask(key, "POST", "", {})
  expect(await calls(made.key, second)).toBe(200)
  const { body: rotated } = await ask(key, "POST", `/${made.id}/rotate`, { keep_hours: 24 })
  expect(rotated.previous_until).toBeString()
  expect((await ask(key, "DELETE", `/${made.id}`)).status).toBe(204)
  const { body: listed } = await ask<{ data: KeyBody[] }>(key, "GET")
  expect(listed.data.find(({ id }) => id === made.id)).toMatchObject({
    revoked_at: expect.any(String),
    previous_until: null,
  })
  expect((await ask(key, "DELETE", `/${made.id}`)).status).toBe(204)
  expect(await calls(made.key, second)).toBe(401)
  expect(await ask(key, "DELETE", `/${key_id}`)).toMatchObject(refused)

  const { body: other } = await ask(key, "POST", "", {})
  const ended = await Promise.all([
    ask(key, "DELETE", `/${other.id}`),
    ask(other.key, "DELETE", `/${key_id}`, undefined, second),
  ])
  expect(ended.filter(({ status }) => status === 204)).toHaveLength(1)
  const working = await Promise.all([calls(key), calls(other.key)])
  expect(working.toSorted()).toEqual([200, 401])
})

test("D102 each change by a holder is in the log, with the key, the address and the outcome, and no secret", async () => {
  const { id, key, key_id } = await customer()
  const { body: made } = await ask(key, "POST", "", { name: "jobs" })
  const { body: rotated } = await ask(key, "POST", `/${made.id}/rotate`, {})
  await ask(key, "POST", `/${nextId()}/rotate`, {})
  await ask(key, "DELETE", `/${made.id}`)
  const read = () => first.admin<{ data: ChangeBody[] }>("GET", `/log?actor=key:${key_id}`)
  const { data } = await until(read, (log) => log.data.length === 4)
  expect(data.map(({ method, route, outcome }) => `${method} ${route} ${outcome}`)).toEqual([
    "DELETE /v1/keys/:id done",
    "POST /v1/keys/:id/rotate refused",
    "POST /v1/keys/:id/rotate done",
    "POST /v1/keys done",
  ])
  expect(data[0]).toMatchObject({ resource_id: made.id, before: { id: made.id, revoked_at: null } })
  expect(data[3]).toMatchObject({ role: "holder", resource_id: id, made_id: made.id, address: "127.0.0.1" })
  const text = JSON.stringify(data)
  for (const secret of [key, made.key, rotated.key]) expect(text).not.toContain(secret)
})

test.each([
  ["allowed", 404],
  ["not allowed, which takes a place of all accounts too,", 403],
])(
  "D104 an account asks for 60 changes of keys in a minute: beyond it, one that is %s is refused before it is recorded",
  async (_, status) => {
    const { key, key_id } = status === 404 ? await customer() : await first.account("1")
    const answers: Answer<CreatedKeyBody>[] = []
    do answers.push(await ask(key, "DELETE", `/${nextId()}`))
    while (answers.at(-1)?.status === status)
    expect(answers.pop()).toMatchObject({ status: 429, code: "rate_limited" })
    expect(answers.length).toBeGreaterThanOrEqual(60)
    expect(answers.length).toBeLessThan(90)
    const read = () => first.admin<{ data: ChangeBody[] }>("GET", `/log?actor=key:${key_id}&limit=100`)
    const { data } = await until(read, (log) => log.data.every(({ outcome }) => outcome === "refused"))
    expect(data).toHaveLength(status === 404 ? answers.length : 0)
  },
)
