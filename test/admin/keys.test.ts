import { beforeEach, expect, test } from "bun:test"
import { eq } from "drizzle-orm"
import { checksumHolds, hashOf } from "../../src/admission/key.ts"
import { keys } from "../../src/ledger/schema/tables.ts"
import { testAdmin } from "./admin-harness.ts"

let account: string
let path: string

const adminApi = await testAdmin()
beforeEach(async () => {
  account = await adminApi.openAccount()
  path = `/admin/accounts/${account}/keys`
})

test("D26 POST keys shows the key this once; the ledger keeps its hash and prefix", async () => {
  const { status, body, headers } = await adminApi.ask("POST", path, {})
  expect([status, headers.get("cache-control")]).toEqual([201, "no-store"])
  expect(body as unknown).toEqual({
    id: expect.any(String),
    name: null,
    key: expect.any(String),
    prefix: body.key.slice(0, 12),
    models: null,
    expires_at: null,
    suspended: false,
    spending_limit: null,
    group: null,
    labels: {},
    required_tags: [],
    client_tags: "accepted",
    created_at: expect.any(String),
    previous_until: null,
  })
  expect(checksumHolds(body.key)).toBe(true)
  const rows = await adminApi.database.select().from(keys).where(eq(keys.id, body.id))
  expect(rows).toMatchObject([{ account_id: account, hash: hashOf(body.key), prefix: body.prefix }])
  expect(Bun.inspect(rows)).not.toContain(body.key)
})

test("POST keys takes a name, models that need not exist, and an expiry with an offset", async () => {
  const models = ["gpt-5-mini", "not configured yet", "Ünïcode"]
  const asked = { name: "ci", models, expires_at: "2999-01-02T03:04:05.678+02:00" }
  const { body } = await adminApi.ask("POST", path, asked)
  expect(body as unknown).toMatchObject({ name: "ci", models, expires_at: "2999-01-02T01:04:05.678Z" })
  const { body: list } = await adminApi.ask("GET", path)
  const { key, ...shown } = body
  expect(list.data as unknown).toEqual([{ ...shown, spent: null, revoked_at: null, last_used_at: null }])
})

test("DELETE a key revokes it, and it alone; again changes nothing", async () => {
  const { body: stays } = await adminApi.ask("POST", path, {})
  const { body: goes } = await adminApi.ask("POST", path, {})
  const first = await adminApi.ask("DELETE", `/admin/keys/${goes.id}`)
  expect([first.status, first.text]).toEqual([204, ""])
  const revoked_at = (await adminApi.ask("GET", path)).body.data.map((key) => [key.id, key.revoked_at])
  expect(revoked_at as unknown).toEqual([
    [goes.id, expect.any(String)],
    [stays.id, null],
  ])
  expect((await adminApi.ask("DELETE", `/admin/keys/${goes.id.toUpperCase()}`)).status).toBe(204)
  const again = (await adminApi.ask("GET", path)).body.data.map((key) => [key.id, key.revoked_at])
  expect(again).toEqual(revoked_at)
})

test("GET keys lists an account's own keys, newest first, each once, whatever the page", async () => {
  const ids: string[] = []
  for (let at = 0; at < 5; at++) ids.push((await adminApi.ask("POST", path, {})).body.id)
  await adminApi.ask("POST", `/admin/accounts/${await adminApi.openAccount()}/keys`, {})
  for (const limit of [1, 2, 4, 5, 6]) expect(await adminApi.walk(path, limit)).toEqual(ids.toReversed())
})

test("D26 no answer but a key's creation shows a key or a hash", async () => {
  const { body } = await adminApi.ask("POST", path, {})
  await adminApi.ask("GET", path)
  await adminApi.ask("DELETE", `/admin/keys/${body.id}`)
  await adminApi.ask("POST", path, { name: [body.key] })
  await adminApi.ask("GET", `/admin/calls?key=${body.key}`)
  await adminApi.ask("GET", `/admin/keys/${body.key}`)
  expect(adminApi.texts.length).toBeGreaterThan(10)
  const shown = adminApi.texts.filter((text) => /tg_live_[0-9A-Za-z]{36}|[0-9a-f]{64}/.test(text))
  expect(shown).toEqual([])
})
