import { afterAll, beforeAll, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { nextId } from "../../src/id.ts"
import { addMonths } from "../../src/ledger/journal/months.ts"
import { sealMonth } from "../../src/ledger/journal/seals.ts"
import { holds } from "../../src/ledger/schema.ts"
import { seals } from "../../src/ledger/schema-sums.ts"
import { type AdminHarness, falsify, openAdminHarness } from "./admin-harness.ts"

/** `/admin/journal` (D71). */

let adminApi: AdminHarness
let month: string

beforeAll(async () => {
  adminApi = await openAdminHarness()
  await addMonths(adminApi.database)
  // The present month counts as over.
  const sealed = await sealMonth(adminApi.database, () => false, -35 * 24 * 3_600_000)
  month = sealed?.month.slice(0, 7) ?? ""
})
afterAll(() => adminApi.close())

const check = (body: unknown) => adminApi.ask("POST", "/admin/journal/check", body)

test("lists the months, latest first, with their seals", async () => {
  const { body } = await adminApi.ask("GET", "/admin/journal")
  const [seal] = await adminApi.database.select().from(seals)
  expect(body.data).toHaveLength(3)
  expect(body.data[0]).toMatchObject({ seal: null })
  expect(body.data[2]).toMatchObject({
    month,
    seal: {
      sealed_at: seal?.sealed_at.toISOString(),
      entries: 0,
      calls: 0,
      charge: "0",
      hash: seal?.hash,
    },
  })
})

test("says whether a sealed month is as it was sealed", async () => {
  expect((await check({ month })).body).toMatchObject({ entries: 0, matches: true, next: null })
  const call = nextId()
  await falsify(
    adminApi.database,
    sql`INSERT INTO ${holds} (id, account_id, key_id, gateway_id, amount_nano, terms_id, stream)
      VALUES (${call}, ${call}, ${call}, ${call}, 1, 1, true)`,
  )
  expect((await check({ month })).body).toMatchObject({ entries: 1, matches: false, next: null })
})

test.each([
  [{ month: "2026-13" }, "month"],
  [{ month: "2026-10", from: "x" }, "from"],
  [{}, "month"],
])("refuses %j", async (body, param) => {
  expect(await check(body)).toMatchObject({ status: 400, body: { error: { param } } })
})

test("knows no seal of an open month, nor an hour that a seal does not have", async () => {
  expect(await check({ month: "1999-01" })).toMatchObject({ status: 404 })
  expect(await check({ month, from: nextId() })).toMatchObject({ status: 404 })
})
