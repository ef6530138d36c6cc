import { expect, test } from "bun:test"
import fc from "fast-check"
import { checkDay, sumHours } from "../../src/ledger/reports/sum-hours.ts"
import { sumUsage } from "../../src/ledger/reports/usage-sums.ts"
import { OTHER } from "../../src/ledger/schema/labels.ts"
import { FIRST, falsify, testDatabase } from "./test-database.ts"

/** D94: sums by end user and tag are those of the journal, whatever is summed up already. */

const DAY_MS = 86_400_000
const FIRST_DAY = Date.parse("2026-03-03T00:00:00Z")
const DAYS = 3
const span = { from: new Date(FIRST_DAY), to: new Date(FIRST_DAY + DAYS * DAY_MS) }
/** More than have sums of their own in a day. */
const MANY = 10_050

const db = await testDatabase()
const account = await db.account(10n ** 12n)
const crowded = await db.account(10n ** 12n)

interface Call {
  readonly labels_id: number | null
  readonly ended_ms: number
  readonly charge: number
  readonly corrected_ms: number | null
  readonly left: boolean
}

const calls: fc.Arbitrary<Call[]> = fc.array(
  fc.record({
    labels_id: fc.option(fc.integer({ min: 1, max: 9 }), { freq: 3, nil: null }),
    ended_ms: fc.nat(DAYS * DAY_MS - 1),
    charge: fc.nat(5_000),
    corrected_ms: fc.option(fc.nat(DAYS * DAY_MS - 1), { freq: 2, nil: null }),
    left: fc.boolean(),
  }),
  { minLength: 1, maxLength: 60 },
)

/** Nine combinations of two end users or none, and of two teams or none. */
async function label(): Promise<void> {
  const people = [crypto.randomUUID(), crypto.randomUUID(), null]
  const teams = [{ team: "search" }, { team: "ads", feature: "rag" }, { feature: "rag" }]
  for (const [at, end_user_id] of people.entries())
    for (const [of, tags] of teams.entries())
      await db.sql`INSERT INTO tollgate.labels (id, account_id, end_user_id, tags, created_at)
        VALUES (${3 * at + of + 1}, ${account.account_id}, ${end_user_id}, ${db.sql.json(tags)}, ${span.from})
        ON CONFLICT DO NOTHING`
}

/** The journal, with nothing but these calls. */
async function plant(planted: readonly Call[]): Promise<void> {
  const { account_id, key_id } = account
  const rows = planted.map((call, at) => {
    const at_ms = (FIRST_DAY + call.ended_ms).toString(16).padStart(12, "0")
    const id = `${at_ms.slice(0, 8)}-${at_ms.slice(8)}-7000-8000-${at.toString(16).padStart(12, "0")}`
    const { labels_id, ended_ms, charge, corrected_ms, left } = call
    return {
      ...{ id, labels_id, charge: left ? 0 : charge, ended_at: new Date(FIRST_DAY + ended_ms) },
      corrected_at: new Date(FIRST_DAY + Math.max(ended_ms, corrected_ms ?? 0)),
      outcome: left ? "released" : corrected_ms === null ? "settled" : "expired",
    }
  })
  await falsify(db.sql, async (tx) => {
    await tx`DELETE FROM tollgate.corrections WHERE account_id = ${account_id}`
    await tx`DELETE FROM tollgate.ends WHERE account_id = ${account_id}`
    await tx`DELETE FROM tollgate.holds WHERE account_id = ${account_id}`
    const given = tx`json_to_recordset(${JSON.stringify(rows)}::text::json) AS r
      (id uuid, labels_id int, ended_at timestamptz, charge bigint, corrected_at timestamptz, outcome text)`
    await tx`INSERT INTO tollgate.holds (id, account_id, key_id, gateway_id, amount_nano, held_at, terms_id, stream, labels_id)
      SELECT r.id, ${account_id}, ${key_id}, ${account_id}, 2500, r.ended_at, ${FIRST}, false, r.labels_id FROM ${given}`
    await tx`INSERT INTO tollgate.ends (id, account_id, key_id, charge_nano, freed_nano, ended_at, terms_id, outcome, basis, failure)
      SELECT r.id, ${account_id}, ${key_id}, r.charge, 2500, r.ended_at, ${FIRST}, r.outcome::tollgate.end_outcome, 'none',
        CASE WHEN r.outcome = 'released' THEN 'client_left'::tollgate.failure END FROM ${given}`
    await tx`INSERT INTO tollgate.corrections (id, account_id, key_id, charge_nano, difference_nano, corrected_at, terms_id, basis)
      SELECT r.id, ${account_id}, ${key_id}, r.charge + 7, 7, r.corrected_at, ${FIRST}, 'none' FROM ${given}
      WHERE r.outcome = 'expired'`
  })
}

/** Forgets all sums, and closes the hours of the first days again. */
async function sumUntil(days: number): Promise<void> {
  for (const table of ["hours", "days", "hour_latencies", "day_latencies", "label_days"])
    await db.sql.unsafe(`TRUNCATE tollgate.${table}`)
  await db.sql`UPDATE tollgate.summed SET hours_until = NULL, days_until = NULL, labels_until = NULL`
  if (days > 0)
    await sumHours(db.database.upkeep, () => false, Date.now() - FIRST_DAY - days * DAY_MS - DAY_MS / 48)
}

/** Calls, abandoned calls and charge of each group, read from the journal alone. */
async function inJournal(group: string): Promise<Map<string, string>> {
  const rows = await db.sql.unsafe(`
    SELECT coalesce(${group}, '') AS name, count(*) AS calls, count(*) FILTER (WHERE e.failure = 'client_left') AS abandoned,
      sum(e.charge_nano + coalesce(c.difference_nano, 0)) AS charge
    FROM tollgate.ends e JOIN tollgate.holds h ON h.id = e.id LEFT JOIN tollgate.corrections c ON c.id = e.id
      LEFT JOIN tollgate.labels l ON l.id = h.labels_id WHERE e.account_id = '${account.account_id}' GROUP BY 1`)
  return new Map(
    rows.map(({ name, calls, abandoned, charge }) => [String(name), [calls, abandoned, charge].join()]),
  )
}

async function inReport(by: "end_user" | "tag:team"): Promise<Map<string, string>> {
  const account_ids = [account.account_id]
  const { groups } = await sumUsage(db.database.operators, { ...span, by, account_ids })
  const said = groups.filter(({ calls }) => calls > 0)
  return new Map(
    said.map(({ values, calls, abandoned, charge_nano }) => [
      String(values[0]),
      [calls, abandoned, charge_nano].join(),
    ]),
  )
}

test("D94: sums by tag and by end user equal those of the journal", async () => {
  await label()
  await fc.assert(
    fc.asyncProperty(calls, fc.nat(DAYS + 1), async (planted, days) => {
      await plant(planted)
      await sumUntil(days)
      expect(await inReport("tag:team")).toEqual(await inJournal("l.tags ->> 'team'"))
      expect(await inReport("end_user")).toEqual(await inJournal("l.end_user_id::text"))
    }),
    { numRuns: 10, seed: 11, endOnFailure: true },
  )
})

test("D94: days that a gateway without labels has closed get their labels afterwards", async () => {
  await plant(fc.sample(calls, { numRuns: 1, seed: 3 })[0] ?? [])
  const expected = await inJournal("l.tags ->> 'team'")
  await sumUntil(DAYS)
  await db.sql`TRUNCATE tollgate.label_days`
  await db.sql`UPDATE tollgate.summed SET labels_until = NULL`
  expect(await inReport("tag:team")).toEqual(expected)
  await sumHours(db.database.upkeep, () => false, Date.now())
  const [row] = await db.sql`SELECT labels_until = days_until AS whole FROM tollgate.summed`
  expect(row?.whole).toBeTrue()
  expect(await inReport("tag:team")).toEqual(expected)
  expect(await checkDay(db.database.upkeep, span.from)).toMatchObject({ differed: 0 })
  await db.sql`INSERT INTO tollgate.label_days SELECT * FROM tollgate.label_days WHERE from_at = ${span.from} LIMIT 1`
  expect(await checkDay(db.database.upkeep, span.from)).toMatchObject({ differed: 1 })
  expect(await inReport("tag:team")).toEqual(expected)
})

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
  await sumUntil(DAYS)
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
