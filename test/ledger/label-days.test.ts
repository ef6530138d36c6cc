import { expect, test } from "bun:test"
import { OTHER } from "../../src/ledger/schema/labels.ts"
import { sumUsage } from "./sum-usage.ts"
import { FIRST, falsify, sumAnew, testDatabase } from "./test-database.ts"

/** D94: the most labels that have sums of their own. hours.test.ts compares sums by label with the journal. */

const DAY_MS = 86_400_000
const FIRST_DAY = Date.parse("2026-03-03T00:00:00Z")
const DAYS = 3
const span = { from: new Date(FIRST_DAY), to: new Date(FIRST_DAY + DAYS * DAY_MS) }
/** More than have sums of their own in a day. */
const MANY = 10_050

const db = await testDatabase()
const crowded = await db.account(10n ** 12n)

test("D94: an account has sums of at most 10,000 labels in a day; those that cost least are summed together", async () => {
  const { account_id, key_id } = crowded
  await falsify(db.sql, async (tx) => {
    await tx`INSERT INTO tollgate.labels (id, account_id, tags, created_at)
      SELECT 1000 + n, ${account_id}, jsonb_build_object('n', n::text), ${span.from} FROM generate_series(1, ${MANY}) n`
    const id = `(lpad(to_hex(${FIRST_DAY}), 12, '0') || lpad(to_hex(n), 20, '0'))::uuid`
    await tx.unsafe(`INSERT INTO tollgate.holds
      (id, account_id, key_id, gateway_id, amount_nano, held_at, terms_id, stream, labels_id)
      SELECT ${id}, '${account_id}', '${key_id}', '${account_id}', 1, '${span.from.toISOString()}', ${FIRST}, false, 1000 + n
      FROM generate_series(1, ${MANY}) n`)
    await tx.unsafe(`INSERT INTO tollgate.ends
      (id, account_id, key_id, charge_nano, freed_nano, ended_at, terms_id, outcome, basis)
      SELECT ${id}, '${account_id}', '${key_id}', n, 1, '${span.from.toISOString()}', ${FIRST}, 'settled', 'usage'
      FROM generate_series(1, ${MANY}) n`)
  })
  await sumAnew(db, FIRST_DAY + DAYS * DAY_MS)
  const [row] = await db.sql`SELECT count(DISTINCT labels_id)::int AS labels FROM tollgate.label_days
    WHERE account_id = ${account_id}`
  expect(row?.labels).toBe(10_001)
  const report = await sumUsage(
    db.database.operators,
    { ...span, by: "tag:n", account_ids: [account_id] },
    MANY,
  )
  const others = report.groups.find(({ values }) => values[0] === OTHER)
  expect(others).toMatchObject({ calls: 50, charge_nano: 1_275n })
  expect(report.total).toMatchObject({ calls: MANY, charge_nano: BigInt((MANY * (MANY + 1)) / 2) })
  const people = await sumUsage(db.database.operators, { ...span, by: "end_user", account_ids: [account_id] })
  expect(people.groups.map(({ values, calls }) => [values[0], calls])).toEqual([
    ["", 10_000],
    [OTHER, 50],
  ])
})
