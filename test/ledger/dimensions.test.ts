import { afterAll, beforeAll, expect, test } from "bun:test"
import fc from "fast-check"
import { EntriesArchived } from "../../src/ledger/entries.ts"
import { type GroupSums, sumUsage } from "../../src/ledger/reports/usage-sums.ts"
import type { Grouping } from "../../src/wire/usage-report.ts"
import { plantCalls } from "../admin/admin-harness.ts"
import { falsify, numberedId, openTestDatabase, sumAnew, type TestDatabase } from "./test-database.ts"

/** D105: sums over several dimensions are those of the journal, whatever is summed up already. */

const HOUR_MS = 3_600_000
const FIRST_MS = Date.parse("2026-03-03T00:00:00Z")
const SPAN_MS = 60 * HOUR_MS
const span = { from: new Date(FIRST_MS), to: new Date(FIRST_MS + SPAN_MS) }
const FEATURES = ["search", "chat", ""]

let db: TestDatabase
let owners: readonly { readonly account_id: string; readonly key_id: string }[]

interface Charged extends Readonly<Record<Exclude<Grouping, `tag:${string}`> | "tag:feature", string>> {
  readonly nano: bigint
  readonly calls: number
}
let charged: readonly Charged[]

const drawn = fc.sample(
  fc.record({
    owner: fc.nat(1),
    model: fc.constantFrom("small", "large"),
    upstream: fc.constantFrom("first", "second"),
    upstream_key: fc.constantFrom("", "blue", "green"),
    feature: fc.nat(2),
    at_ms: fc.nat(SPAN_MS / 2),
    late_ms: fc.option(fc.nat(SPAN_MS / 2 - 1), { nil: null, freq: 2 }),
    nano: fc.nat(5_000),
    more: fc.integer({ min: -1_000, max: 1_000 }),
  }),
  { numRuns: 300, seed: 11 },
)

beforeAll(async () => {
  db = await openTestDatabase()
  owners = [await db.account(10n ** 12n), await db.account(10n ** 12n)]
  const calls = drawn.map((call, at) => ({
    ...call,
    id: numberedId(FIRST_MS + call.at_ms, at),
    ...owners[call.owner],
  }))
  await plantCalls(
    db.database.operators,
    calls.map(({ id, account_id = "", key_id = "", model, upstream, at_ms, late_ms, nano, more }) => ({
      ...{ id, account_id, key_id, model, upstream, amount_nano: 9_000n, charge_nano: BigInt(nano) },
      held_at: new Date(FIRST_MS + at_ms),
      ended_at: new Date(FIRST_MS + at_ms),
      state: late_ms === null ? "settled" : "expired",
      ...(late_ms !== null && {
        corrected: {
          charge_nano: BigInt(Math.max(0, nano + more)),
          corrected_at: new Date(FIRST_MS + at_ms + late_ms),
        },
      }),
    })),
  )
  await falsify(db.sql, async (tx) => {
    for (const [owner, { account_id }] of owners.entries())
      for (const [at, feature] of FEATURES.entries())
        await tx`INSERT INTO tollgate.labels (id, account_id, tags, created_at)
          VALUES (${owner * 10 + at + 1}, ${account_id}, ${tx.json(feature === "" ? { team: "x" } : { feature })}, ${span.from})`
    for (const { id, owner, feature, upstream_key } of calls) {
      await tx`UPDATE tollgate.holds SET labels_id = ${owner * 10 + feature + 1} WHERE id = ${id}`
      if (upstream_key === "") continue
      const details = tx.json({ key: upstream_key })
      await tx`UPDATE tollgate.ends SET details = ${details} WHERE id = ${id}`
      await tx`UPDATE tollgate.corrections SET details = ${details} WHERE id = ${id}`
    }
  })
  charged = calls.flatMap(({ account_id = "", key_id = "", ...call }) => {
    const at = (ms: number, nano: number, calls: number): Charged => {
      const time = new Date(FIRST_MS + ms).toISOString()
      return {
        ...{ model: call.model, operation: "chat", upstream: call.upstream, upstream_key: call.upstream_key },
        ...{ account: account_id, key: key_id, session: "", end_user: "" },
        ...{ day: time.slice(0, 10), hour: time.slice(0, 13), "tag:feature": FEATURES[call.feature] ?? "" },
        ...{ nano: BigInt(nano), calls },
      }
    }
    const own = at(call.at_ms, call.nano, 1)
    if (call.late_ms === null) return [own]
    return [own, at(call.at_ms + call.late_ms, Math.max(0, call.nano + call.more) - call.nano, 0)]
  })
})
afterAll(() => db.close())

/** The sums of the planted calls, computed without the ledger. */
function expected(dimensions: readonly (keyof Omit<Charged, "nano" | "calls">)[]): Record<string, string> {
  const sums = new Map<string, [bigint, number]>()
  for (const call of charged) {
    const place = dimensions.map((by) => call[by]).join("|")
    const [nano, calls] = sums.get(place) ?? [0n, 0]
    sums.set(place, [nano + call.nano, calls + call.calls])
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

const asked = [
  ["model", "day", "key"],
  ["day", "model"],
  ["upstream", "upstream_key"],
  ["hour", "account"],
  ["tag:feature", "upstream", "day"],
  ["account", "tag:feature", "end_user", "model"],
  ["hour", "tag:feature"],
  ["upstream_key", "tag:feature", "session", "day"],
] as const

test.each([null, 25, 48, 200])(
  "D105 each group is the sum of its calls, with sums of %p hours",
  async (hours) => {
    await sumAnew(db, hours === null ? null : FIRST_MS + hours * HOUR_MS)
    for (const dimensions of asked) {
      const [by, ...further] = dimensions
      const { groups, left_out } = await sumUsage(db.database.operators, { ...span, by, further })
      expect({ dimensions, groups: found(groups, dimensions), left_out }).toEqual({
        dimensions,
        groups: expected(dimensions),
        left_out: 0,
      })
    }
  },
)

test("D105 what is left out is cheaper than what is shown; the total has all", async () => {
  const range = { ...span, by: "day", further: ["model", "key"] } as const
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

test("D105 the key of an upstream is in entries only, so archived ones refuse it; the upstream is in the sums", async () => {
  await db.sql`INSERT INTO tollgate.months (month, to_id, detached_at) VALUES ('2026-03-01', ${numberedId(FIRST_MS + SPAN_MS, 0)}, now())
    ON CONFLICT (month) DO UPDATE SET detached_at = now()`
  await db.sql`INSERT INTO tollgate.seals (month, sealed_at, entries, calls, charge_nano, hash)
    VALUES ('2026-03-01', ${span.to}, 0, 0, 0, 'x')`
  const { operators } = db.database
  const { groups } = await sumUsage(operators, { ...span, by: "upstream", further: ["day"] })
  expect(found(groups, ["upstream", "day"])).toEqual(expected(["upstream", "day"]))
  const of_entries = sumUsage(operators, { ...span, by: "day", further: ["upstream_key"] })
  expect(await of_entries.catch((error) => error)).toBeInstanceOf(EntriesArchived)
})
