import { expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import { floorId, nextId } from "../../src/id.ts"
import { addMonths, JOURNAL_TABLES } from "../../src/ledger/archive/months.ts"
import { sealMonth } from "../../src/ledger/archive/seals.ts"
import { seals } from "../../src/ledger/schema/sums.ts"
import { holds } from "../../src/ledger/schema/tables.ts"
import { falsify, testAdmin } from "./admin-harness.ts"

/** `/admin/journal` (D71). */

let month: string

const adminApi = await testAdmin()
await addMonths(adminApi.database)
// The present month counts as over.
const sealed = await sealMonth(adminApi.database, () => false, -35 * 24 * 3_600_000)
month = sealed?.month.slice(0, 7) ?? ""

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

test("knows no seal of an open month, nor an hour that a seal does not have", async () => {
  expect(await check({ month: "1999-01" })).toMatchObject({ status: 404 })
  expect(await check({ month, from: nextId() })).toMatchObject({ status: 404 })
})

test("D75 a month is dropped only when it is detached and a dump with its hash was noted", async () => {
  const { database, ask } = adminApi
  const drop = () => ask("POST", "/admin/journal/drop", { month })
  const note = (hash: string) =>
    ask("POST", "/admin/journal/dumped", { month, hash, archive: "s3://backups/one.gz" })
  const [seal] = await database.select().from(seals)
  const { body } = await ask("POST", "/admin/journal/dump", { month })
  expect(body).toMatchObject({
    next: null,
    lines: [expect.stringContaining(seal?.hash ?? "none"), expect.any(String), expect.any(String)],
  })
  expect(await note("0".repeat(64))).toMatchObject({ status: 400, body: { error: { param: "month" } } })
  expect(await drop()).toMatchObject({ status: 400, body: { error: { param: "month" } } })
  expect(await note(seal?.hash ?? "")).toMatchObject({ status: 200 })
  const refused = await drop()
  expect(refused.status).toBe(400)
  expect(refused.text).toContain("This month is not detached yet")
  const name = month.replace("-", "_")
  for (const table of JOURNAL_TABLES)
    await database.execute(
      sql.raw(`ALTER TABLE tollgate.${table} DETACH PARTITION tollgate.${table}_${name}`),
    )
  await database.execute(
    sql`UPDATE tollgate.months SET detached_at = now() WHERE month = ${`${month}-01`}::date`,
  )
  expect(await drop()).toMatchObject({ status: 200 })
  expect((await ask("GET", "/admin/journal")).body.data[2]).toMatchObject({
    month,
    archive: "s3://backups/one.gz",
    dropped_at: expect.any(String),
  })
  expect(await ask("GET", `/admin/calls/${floorId(new Date(`${month}-02`))}`)).toMatchObject({
    status: 410,
    body: {
      error: { code: "archived", message: `The calls of ${month} are archived: s3://backups/one.gz.` },
    },
  })
  expect(await ask("POST", "/admin/journal/dump", { month })).toMatchObject({ status: 404 })
  for (const path of ["dump", "drop"])
    expect(await ask("POST", `/admin/journal/${path}`, { month: "1999-01" })).toMatchObject({ status: 404 })
})
