import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import fc from "fast-check"
import type { TransactionSql } from "postgres"
import { connectDatabase } from "../../src/ledger/database/database.ts"
import { piecesOf } from "../../src/ledger/database/span.ts"
import { EntriesArchived } from "../../src/ledger/entries.ts"
import { balanceAt } from "../../src/ledger/reports/balance.ts"
import { addLatencies, latencies } from "../../src/ledger/reports/latency.ts"
import { outcomes } from "../../src/ledger/reports/outcomes.ts"
import { checkDay, firstDay, sumHours } from "../../src/ledger/reports/sum-hours.ts"
import { timelineCells } from "../../src/ledger/reports/timeline.ts"
import type { GroupSums } from "../../src/ledger/reports/usage-sums.ts"
import type { Grouping } from "../../src/wire/usage-report.ts"
import { plantCalls } from "../admin/admin-harness.ts"
import { thrown } from "../support/thrown.ts"
import { sumUsage } from "./sum-usage.ts"
import {
  falsify,
  numberedId,
  openTestDatabase,
  openTransaction,
  sumAnew,
  type TestDatabase,
} from "./test-database.ts"

const HOUR_MS = 3_600_000
const FIRST_MS = Date.parse("2026-03-03T00:00:00Z")
const moment = (ms: number) => new Date(FIRST_MS + ms)
const SPAN_MS = 60 * HOUR_MS
const never = () => false

let db: TestDatabase
let owners: readonly { readonly account_id: string; readonly key_id: string }[]

beforeAll(async () => {
  db = await openTestDatabase()
  owners = [await db.account(10n ** 12n), await db.account(10n ** 12n)]
  const random = fc.sample(
    fc.record({
      owner: fc.nat(1),
      model: fc.constantFrom("model", "other"),
      upstream: fc.constantFrom("first", "second"),
      held_ms: fc.nat(SPAN_MS),
      took_ms: fc.oneof(fc.nat(90_000), fc.nat(5 * HOUR_MS)),
      late_ms: fc.option(fc.nat(30 * HOUR_MS), { nil: null, freq: 2 }),
      state: fc.constantFrom("settled" as const, "released" as const, "expired" as const, "open" as const),
      charge: fc.nat(5_000),
      tokens: fc.nat(100),
      ttft_ms: fc.option(fc.nat(20_000), { nil: null }),
    }),
    { numRuns: 600, seed: 7 },
  )
  await plantCalls(
    db.database.operators,
    random.map(
      ({ owner, model, upstream, held_ms, took_ms, late_ms, state, charge, tokens, ttft_ms }, at) => {
        const held_at = moment(held_ms)
        const usage = { prompt_tokens: tokens, cached_tokens: 0, completion_tokens: tokens % 7 }
        const corrected = {
          charge_nano: BigInt(charge + tokens),
          corrected_at: moment(held_ms + took_ms + (late_ms ?? 0)),
          ...usage,
        }
        return {
          id: numberedId(held_at, at),
          ...ownerOf(owner),
          model,
          upstream,
          held_at,
          state,
          amount_nano: 2_500n,
          ...(state !== "open" && { ended_at: moment(held_ms + took_ms), charge_nano: BigInt(charge) }),
          basis: state === "settled" ? "usage" : "none",
          failure: state === "released" ? "no_output" : null,
          ...usage,
          ttft_ms,
          duration_ms: took_ms,
          ...(state === "expired" && late_ms !== null && { corrected }),
        }
      },
    ),
  )
  // Some have a price multiplier (D69), some count buckets (D60), some have a provider's cost, which once had no bound (D90), and
  // others the key of an upstream (D93).
  const counted = "CASE WHEN x.charge_nano % 2 = 0 THEN ARRAY[(x.charge_nano % 5)::int, 0, 2, 0, 1, 0, 3] END"
  await falsify(db.sql, async (tx) => {
    await label(tx)
    await tx.unsafe(`UPDATE tollgate.ends x
      SET margin_bp = CASE WHEN x.charge_nano % 3 = 0 THEN 12500 END, buckets = ${counted},
        details = CASE x.charge_nano % 4 WHEN 0 THEN '{"provider_cost_nano": "7"}'
          WHEN 1 THEN '{"provider_cost_nano": "${"9".repeat(30)}"}' WHEN 2 THEN '{"key": "blue"}' END::jsonb`)
    await tx.unsafe(`UPDATE tollgate.corrections x SET margin_bp = e.margin_bp, buckets = ${counted}, details = e.details
      FROM tollgate.ends e WHERE e.id = x.id`)
  })
})
afterAll(() => db.close())

/** Labels for most calls, of few end users and teams, and some without an end user (D94). */
async function label(tx: TransactionSql): Promise<void> {
  const [people, at] = [[crypto.randomUUID(), null, crypto.randomUUID()], moment(-HOUR_MS)]
  for (const [owner, { account_id }] of owners.entries()) {
    for (const [person, end_user_id] of people.entries())
      for (const team of ["search", "ads", null]) {
        const id = 100 * owner + 10 * person + (team?.length ?? 0)
        const tags = team === null ? { feature: "rag" } : { team }
        await tx`INSERT INTO tollgate.labels (id, account_id, end_user_id, tags, created_at)
          VALUES (${id + 1}, ${account_id}, ${end_user_id}, ${tx.json(tags)}, ${at})`
      }
    await tx`UPDATE tollgate.holds h SET labels_id = (SELECT l.id FROM tollgate.labels l WHERE l.account_id = h.account_id
      ORDER BY md5(h.id::text || l.id) LIMIT 1) WHERE h.account_id = ${account_id} AND h.amount_nano % 10 = 0
      AND right(h.id::text, 1) < 'c'`
  }
}

function ownerOf(at: number) {
  const owner = owners[at]
  if (owner === undefined) throw new Error("there is no such owner")
  return { account_id: owner.account_id, key_id: owner.key_id }
}

const until = (hours: number | null) => sumAnew(db, hours === null ? null : FIRST_MS + hours * HOUR_MS)

/** Every report on a span, as text: of everybody, of an account, of a key and of a model. */
async function reports(from_ms: number, to_ms: number): Promise<string> {
  const [from, to] = [moment(from_ms), moment(to_ms)]
  const { operators } = db.database
  const [{ account_id, key_id }] = [ownerOf(0)]
  const found: unknown[] = [await balanceAt(operators, account_id, from)]
  for (const by of ["model", "key", "account", "day", "hour", "end_user", "tag:team"] as const)
    found.push(await sumUsage(operators, { from, to, by }))
  for (const [by, group] of [
    ["model", "model"],
    ["key", key_id],
    ["account", account_id],
  ] as const)
    found.push(await timelineCells(operators, { from, to }, by, [group]))
  for (const filter of [{ key_id }, { model: "other" }]) {
    found.push(await sumUsage(operators, { from, to, by: "hour", ...filter }))
    found.push(await timelineCells(operators, { from, to, ...filter }, "model", ["model"]))
    found.push(await sumUsage(operators, { from, to, by: "tag:team", ...filter }))
  }
  const account_ids = [account_id]
  for (const by of ["key", "tag:team", "end_user", "tag:nothing"] as const)
    found.push(await sumUsage(operators, { from, to, by, account_ids }))
  for (const filter of [{}, { key_id }, { account_ids }, { model: "model" }]) {
    found.push(addLatencies([await latencies(operators, { from, to, ...filter })]))
    found.push(await outcomes(operators, { from, to, ...filter }))
  }
  return JSON.stringify(found, (_, value) => (typeof value === "bigint" ? `${value}` : value), 1)
}

const spans = [
  [0, SPAN_MS],
  [-HOUR_MS, 100 * HOUR_MS],
  [1_234_567, 50 * HOUR_MS + 77_777],
  [3 * HOUR_MS, 4 * HOUR_MS],
  [5 * HOUR_MS + 1, 6 * HOUR_MS - 1],
  [30 * HOUR_MS, 30 * HOUR_MS],
] as const

/** The sums of entries by several dimensions, read without the reports. */
async function chargedBy(dimensions: readonly Grouping[]): Promise<Record<string, string>> {
  const rows = await db.sql`
    WITH entries AS (
      SELECT id, terms_id, details, ended_at AS at, charge_nano AS nano, 1 AS calls FROM tollgate.ends
      UNION ALL SELECT id, terms_id, details, corrected_at, difference_nano, 0 FROM tollgate.corrections)
    SELECT t.model, t.upstream, coalesce(x.details ->> 'key', '') AS upstream_key, h.account_id AS account, h.key_id AS key,
      '' AS session, coalesce(l.end_user_id::text, '') AS end_user, coalesce(l.tags ->> 'team', '') AS "tag:team",
      to_char(x.at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, to_char(x.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24') AS hour,
      x.nano, x.calls
    FROM entries x JOIN tollgate.holds h USING (id) JOIN tollgate.terms t ON t.id = x.terms_id
      LEFT JOIN tollgate.labels l ON l.id = h.labels_id
    WHERE x.at >= ${moment(0)} AND x.at < ${moment(SPAN_MS)}`
  const sums = new Map<string, [bigint, number]>()
  for (const row of rows) {
    const place = dimensions.map((by) => row[by]).join("|")
    const [nano, calls] = sums.get(place) ?? [0n, 0]
    sums.set(place, [nano + BigInt(row.nano), calls + row.calls])
  }
  return Object.fromEntries([...sums].map(([place, sum]) => [place, sum.join(" in ")]))
}

function found(groups: readonly GroupSums[], dimensions: readonly Grouping[]): Record<string, string> {
  const rows = groups.map(({ values, charge_nano, calls }) => {
    const texts = values.map((value, at) =>
      typeof value === "string" ? value : value.toISOString().slice(0, dimensions[at] === "day" ? 10 : 13),
    )
    return [texts.join("|"), `${charge_nano} in ${calls}`]
  })
  expect(new Set(rows.map(([place]) => place)).size).toBe(rows.length)
  return Object.fromEntries(rows)
}

const whole = { from: moment(0), to: moment(SPAN_MS) }
const several = [
  ["model", "day", "key"],
  ["day", "model"],
  ["upstream", "upstream_key"],
  ["hour", "account"],
  ["tag:team", "upstream", "day"],
  ["account", "tag:team", "end_user", "model"],
  ["hour", "tag:team"],
  ["upstream_key", "tag:team", "session", "day"],
] as const

describe("D72: what reports say does not depend on what is summed up already", () => {
  const from_entries: string[] = []

  test.each([null, 25, 200])("the sums end after %p hours", async (hours) => {
    await until(hours)
    const [row] = await db.sql`SELECT hours_until FROM tollgate.summed`
    expect(row?.hours_until ?? null).toEqual(hours === null ? null : moment(hours * HOUR_MS))
    const all = await sumUsage(db.database.operators, { from: moment(0), to: moment(SPAN_MS), by: "model" })
    expect(all.total.profit_nano).not.toBe(0n)
    expect([all.total.buckets.reasoning > 0, all.total.buckets.audio_input]).toEqual([true, 0])
    for (const [at, [from_ms, to_ms]] of spans.entries()) {
      const found = await reports(from_ms, to_ms)
      from_entries[at] ??= found
      expect(found).toBe(from_entries[at])
    }
  })

  test.each([null, 25, 200])(
    "D105 each group of several dimensions is the sum of its entries, with sums of %p hours",
    async (hours) => {
      await until(hours)
      for (const dimensions of several) {
        const [by, ...further] = dimensions
        const { groups, left_out } = await sumUsage(db.database.operators, { ...whole, by, further })
        expect({ dimensions, groups: found(groups, dimensions), left_out }).toEqual({
          dimensions,
          groups: await chargedBy(dimensions),
          left_out: 0,
        })
      }
    },
  )

  test("a span over whole days reads days, hours and entries only where it must", () => {
    const summed_until = { hours: moment(49 * HOUR_MS), days: moment(48 * HOUR_MS) }
    const pieces = (step_ms?: number) =>
      piecesOf({ from: moment(-HOUR_MS - 5), to: moment(60 * HOUR_MS) }, summed_until, step_ms).map(
        ({ source, from, to }) => [source, from.getTime() - FIRST_MS, (to?.getTime() ?? 0) - FIRST_MS],
      )
    expect(pieces()).toEqual([
      ["entries", -HOUR_MS - 5, -HOUR_MS],
      ["hours", -HOUR_MS, 0],
      ["days", 0, 48 * HOUR_MS],
      ["hours", 48 * HOUR_MS, 49 * HOUR_MS],
      ["entries", 49 * HOUR_MS, 60 * HOUR_MS],
    ])
    expect(pieces(HOUR_MS).map(([source]) => source)).toEqual(["entries", "hours", "entries"])
    expect(pieces(60_000).map(([source]) => source)).toEqual(["entries"])
  })
})

test("D105 what is left out is cheaper than what is shown; the total has all", async () => {
  const range = { ...whole, by: "day", further: ["model", "key"] } as const
  const all = await sumUsage(db.database.operators, range)
  const some = await sumUsage(db.database.operators, range, 5)
  expect(some.left_out).toBe(all.groups.length - 5)
  expect(some.total).toEqual(all.total)
  const dear = some.groups.map(({ charge_nano }) => charge_nano)
  const least = dear.find((one) => dear.every((other) => other >= one)) ?? 0n
  const dearer = all.groups.filter(({ charge_nano }) => charge_nano > least)
  expect(dearer.every((group) => some.groups.some((shown) => Bun.deepEquals(shown, group)))).toBe(true)
  const days = some.groups.map(({ values: [day] }) => String(day instanceof Date ? day.getTime() : day))
  expect(days).toEqual(days.toSorted())
})

test("D94: days that a gateway without labels has closed get their labels afterwards", async () => {
  const { upkeep } = db.database
  await until(72)
  const right = await reports(0, SPAN_MS)
  await db.sql`TRUNCATE tollgate.label_days`
  await db.sql`UPDATE tollgate.summed SET labels_until = NULL`
  expect(await reports(0, SPAN_MS)).toBe(right)
  await sumHours(upkeep, never, Date.now())
  const [row] = await db.sql`SELECT labels_until = days_until AS whole FROM tollgate.summed`
  expect(row?.whole).toBeTrue()
  expect(await reports(0, SPAN_MS)).toBe(right)
  expect(await checkDay(upkeep, moment(0))).toMatchObject({ differed: 0 })
  await db.sql`INSERT INTO tollgate.label_days SELECT * FROM tollgate.label_days WHERE from_at = ${moment(0)} LIMIT 1`
  expect(await checkDay(upkeep, moment(0))).toMatchObject({ differed: 1 })
  expect(await reports(0, SPAN_MS)).toBe(right)
})

describe("D72: sums are proved by their entries", () => {
  test("a day that nobody touched does not differ; a wrong, a missing and an invented sum do, and are right afterwards", async () => {
    await until(72)
    const { upkeep } = db.database
    const right = await reports(0, SPAN_MS)
    const next = moment(24 * HOUR_MS)
    expect(await firstDay(upkeep)).toEqual(moment(0))
    expect(await checkDay(upkeep, moment(0))).toMatchObject({ day: moment(0), differed: 0, next })
    expect(await checkDay(upkeep, moment(48 * HOUR_MS))).toMatchObject({ differed: 0, next: null })
    await db.sql`UPDATE tollgate.hours SET charge_nano = charge_nano + 1 WHERE ctid = (
      SELECT ctid FROM tollgate.hours WHERE from_at >= ${moment(0)} AND from_at < ${moment(24 * HOUR_MS)} AND calls > 0 LIMIT 1)`
    await db.sql`DELETE FROM tollgate.day_latencies WHERE from_at = ${moment(0)}`
    await db.sql`INSERT INTO tollgate.days SELECT * FROM tollgate.days WHERE from_at = ${moment(0)} LIMIT 1`
    expect(await reports(0, SPAN_MS)).not.toBe(right)
    const checked = await checkDay(upkeep, moment(0))
    expect(checked?.differed).toBeGreaterThanOrEqual(3)
    expect(checked?.sums).toBeGreaterThan(50)
    expect(await reports(0, SPAN_MS)).toBe(right)
    expect(await checkDay(upkeep, moment(0))).toMatchObject({ differed: 0 })
    expect(await checkDay(upkeep, moment(72 * HOUR_MS))).toBeNull()
  })

  test("sums that are older than a kind do not differ, whatever was corrected", async () => {
    await until(72)
    for (const table of ["hours", "days"]) {
      const zeros = await db.sql.unsafe(
        `UPDATE tollgate.${table} SET page = NULL, provider_cost_nano = NULL WHERE page = 0 AND provider_cost_nano = 0`,
      )
      expect(zeros.count).toBeGreaterThan(0)
    }
    for (const day of [0, 24, 48])
      expect(await checkDay(db.database.upkeep, moment(day * HOUR_MS))).toMatchObject({ differed: 0 })
  })

  test("an entry that somebody added by hand to a closed hour is found", async () => {
    await until(72)
    await falsify(
      db.sql,
      (tx) => tx`UPDATE tollgate.ends SET charge_nano = charge_nano + 1 WHERE id = (
        SELECT id FROM tollgate.ends WHERE ended_at >= ${moment(0)} AND ended_at < ${moment(24 * HOUR_MS)} LIMIT 1)`,
    )
    expect((await checkDay(db.database.upkeep, moment(0)))?.differed).toBeGreaterThan(0)
  })

  test("two processes close each hour once", async () => {
    await until(null)
    const close_ms = Date.now() - FIRST_MS - 48 * HOUR_MS
    const other = await connectDatabase(db.address)
    await Promise.all([
      sumHours(db.database.upkeep, never, close_ms),
      sumHours(other.upkeep, never, close_ms),
    ])
    await sumHours(db.database.upkeep, never, close_ms)
    const rows =
      await db.sql`SELECT FROM tollgate.hours GROUP BY from_at, account_id, key_id, terms_id, outcome, basis, failure
      HAVING count(*) > 1`
    expect(rows).toHaveLength(0)
    expect(await checkDay(db.database.upkeep, moment(0))).toMatchObject({ differed: 0 })
    await other.close()
  })
})

test("D72: an hour stays open while a transaction that began in it may still write", async () => {
  const { upkeep } = db.database
  await until(72)
  let began_ms = 0
  const writing = await openTransaction(db.sql, async (tx) => {
    const [row] = await tx`SELECT extract(epoch FROM now())::float8 * 1000 AS began_ms`
    began_ms = Number(row?.began_ms)
  })
  // The hour in which it began, seen from behind its end.
  const hour_ms = Math.floor(began_ms / HOUR_MS) * HOUR_MS
  await db.sql`UPDATE tollgate.summed SET hours_until = ${new Date(hour_ms)}, days_until = ${new Date(hour_ms)}`
  const after_ms = -2 * HOUR_MS
  expect(await sumHours(upkeep, never, after_ms)).toBe(0)
  await writing.commit()
  expect(await sumHours(upkeep, never, after_ms)).toBeGreaterThan(0)
})

test("D105 the key of an upstream is in entries only, so archived ones refuse it; the upstream is in the sums", async () => {
  await db.sql`INSERT INTO tollgate.months (month, to_id, detached_at) VALUES ('2026-03-01', ${numberedId(whole.to, 0)}, now())
    ON CONFLICT (month) DO UPDATE SET detached_at = now()`
  await db.sql`INSERT INTO tollgate.seals (month, sealed_at, entries, calls, charge_nano, hash)
    VALUES ('2026-03-01', ${whole.to}, 0, 0, 0, 'x')`
  const { operators } = db.database
  const { groups } = await sumUsage(operators, { ...whole, by: "upstream", further: ["day"] })
  expect(found(groups, ["upstream", "day"])).toEqual(await chargedBy(["upstream", "day"]))
  const of_entries = sumUsage(operators, { ...whole, by: "day", further: ["upstream_key"] })
  expect(await thrown(of_entries)).toBeInstanceOf(EntriesArchived)
})
