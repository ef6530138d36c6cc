import { describe, expect, test } from "bun:test"
import { sql } from "drizzle-orm"
import fc from "fast-check"
import { nextId } from "../../src/id.ts"
import { countedKinds, recordOf } from "../../src/kinds.ts"
import { MAX_GROUPS } from "../../src/ledger/reports/usage-sums.ts"
import { corrections, ends, holds } from "../../src/ledger/schema/tables.ts"
import { parseJsonNumber, printUsd } from "../../src/money.ts"
import { csvRows } from "../../src/wire/csv.ts"
import type { OperatorUsageReport, OperatorUsageSums } from "../../src/wire/usage-report.ts"
import { falsify, linesIn, plantCall, plantCalls, testAdmin } from "./admin-harness.ts"

const adminApi = await testAdmin()

async function usage(query: string): Promise<OperatorUsageReport> {
  const { status, text } = await adminApi.ask("GET", `/admin/usage?${query}`)
  if (status !== 200) throw new Error(text)
  return JSON.parse(text)
}

const NO_BUCKETS = recordOf(countedKinds, () => 0)
const zero = {
  calls: 0,
  abandoned: 0,
  prompt_tokens: 0,
  cached_tokens: 0,
  completion_tokens: 0,
  charge: "0",
  cost: "0",
  profit: "0",
  provider_cost: "0",
  overage: "0",
  buckets: NO_BUCKETS,
}
const tokens = { prompt_tokens: 10, cached_tokens: 4, completion_tokens: 20 }
const settled = { state: "settled", basis: "usage", ...tokens }

describe("D48 what is summed", () => {
  test("calls that have ended, whatever became of them; what was charged above the hold is the overage", async () => {
    const account_id = nextId()
    const at = { account_id, ended_at: new Date("2026-03-01T10:00:00Z") }
    for (const call of [
      {},
      { state: "open", checkpoint_nano: 9n, basis: "partial", ...tokens },
      { ...settled, charge_nano: 4_000n },
      { ...settled, charge_nano: 7_000n, notes: ["overage"] },
      { ...settled, state: "expired", charge_nano: 1n },
      { state: "released", charge_nano: 0n, failure: "no_output" },
      { state: "released", charge_nano: 0n, failure: "client_left" },
    ])
      await plantCall(adminApi.database, { ...at, ...call })
    const sums = {
      ...zero,
      ...{ calls: 5, abandoned: 1, prompt_tokens: 30, cached_tokens: 12, completion_tokens: 60 },
      ...{ charge: "0.000011001", cost: "0.000011001", overage: "0.000002" },
    }
    expect(await usage(`account=${account_id}&from=2026-03-01&to=2026-03-02`)).toEqual({
      from: "2026-03-01T00:00:00.000Z",
      to: "2026-03-02T00:00:00.000Z",
      by: "day",
      data: [{ group: "2026-03-01", name: null, ...sums }],
      left_out: 0,
      total: sums,
    })
  })

  test("D105 a group of several dimensions has the value of each, and names", async () => {
    const account_id = nextId()
    const key_id = nextId()
    await adminApi.database.execute(sql`INSERT INTO tollgate.keys (id, account_id, name, hash, prefix)
      VALUES (${key_id}, ${account_id}, 'production', ${key_id}, 'tg')`)
    const at = { account_id, key_id, ...settled, charge_nano: 4_000n }
    await plantCall(adminApi.database, { ...at, model: "one", ended_at: new Date("2026-03-01T10:00:00Z") })
    await plantCall(adminApi.database, { ...at, model: "two", ended_at: new Date("2026-03-02T10:00:00Z") })
    const asked = `account=${account_id}&from=2026-03-01&to=2026-03-03`
    const { by, data } = await usage(`${asked}&by=day,key,model`)
    expect(by).toBe("day,key,model")
    expect(
      data.map(({ group, name, groups, names, charge }) => ({ group, name, groups, names, charge })),
    ).toEqual(
      [
        ["2026-03-01", "one"],
        ["2026-03-02", "two"],
      ].map(([day, model]) => ({
        ...{ group: day ?? "", name: null, charge: "0.000004", names: { key: "production" } },
        groups: { day: day ?? "", key: key_id, model: model ?? "" },
      })),
    )
  })

  test("sums beyond 2^63 nano-USD are exact", async () => {
    const account_id = nextId()
    const charge_nano = 2n ** 63n - 1n
    const at = { account_id, ended_at: new Date("2026-03-01T10:00:00Z"), ...settled, charge_nano }
    for (let n = 0; n < 3; n++) await plantCall(adminApi.database, { ...at, amount_nano: 0n })
    const { total } = await usage(`account=${account_id}&from=2026-03-01&to=2026-03-02`)
    expect(total.charge).toBe(printUsd(3n * charge_nano))
    expect(total.overage).toBe(printUsd(3n * charge_nano))
  })

  test("days and hours are those in which the call ended, in UTC, in their order", async () => {
    const account_id = nextId()
    const plant = (time: string) =>
      plantCall(adminApi.database, {
        account_id,
        held_at: new Date("2026-01-01T00:00:00Z"),
        ended_at: new Date(time),
        ...settled,
        charge_nano: 1n,
      })
    for (const time of ["2026-02-28T23:59:59.999Z", "2026-03-01T00:00:00Z", "2026-03-01T00:59:59.999Z"])
      await plant(time)
    await plant("2026-03-03T05:00:00Z")
    const days = await usage(`account=${account_id}&from=2026-02-28&to=2026-03-04`)
    expect(days.data.map(({ group, calls }) => [group, calls])).toEqual([
      ["2026-02-28", 1],
      ["2026-03-01", 2],
      ["2026-03-03", 1],
    ])
    const hours = await usage(`account=${account_id}&from=2026-02-28T23:30:00Z&to=2026-03-04&by=hour`)
    expect(hours.data.map(({ group, calls }) => [group, calls])).toEqual([
      ["2026-02-28T23:00:00.000Z", 1],
      ["2026-03-01T00:00:00.000Z", 2],
      ["2026-03-03T05:00:00.000Z", 1],
    ])
    const part = await usage(`account=${account_id}&from=2026-03-01T00:30:00Z&to=2026-03-03T05:00:00Z`)
    expect(part.data.map(({ group, calls }) => [group, calls])).toEqual([["2026-03-01", 1]])
  })

  test("keys and accounts with their names, the dearest first", async () => {
    const account_id = await adminApi.openAccount("Dear")
    const made = await adminApi.ask("POST", `/admin/accounts/${account_id}/keys`, { name: "night" })
    const plant = (key_id: string, charge_nano: bigint) =>
      plantCall(adminApi.database, { account_id, key_id, model: "by-key", ...settled, charge_nano })
    const unknown = nextId()
    await plant(unknown, 5n)
    await plant(made.body.id, 3n)
    await plant(made.body.id, 3n)
    const by_key = await usage(`account=${account_id}&by=key`)
    expect(by_key.data.map(({ group, name, charge }) => [group, name, charge])).toEqual([
      [made.body.id, "night", "0.000000006"],
      [unknown, null, "0.000000005"],
    ])
    const by_account = await usage("model=by-key&by=account")
    expect(by_account.data.map(({ group, name, calls }) => [group, name, calls])).toEqual([
      [account_id, "Dear", 3],
    ])
  })

  test(`D105 at most ${MAX_GROUPS} groups are shown beside the total; CSV and NDJSON have all`, async () => {
    const model = "many-accounts"
    const rows = Array.from({ length: MAX_GROUPS + 2 }, (_, n) => ({
      id: nextId(),
      account_id: nextId(),
      model,
      ended_at: new Date("2026-04-01T00:00:00Z"),
      ...settled,
      charge_nano: BigInt(n),
    }))
    await plantCalls(adminApi.database, rows)
    const report = await usage(`model=${model}&by=account&from=2026-04-01&to=2026-04-02`)
    expect([report.data.length, report.left_out, report.total.calls]).toEqual([MAX_GROUPS, 2, MAX_GROUPS + 2])
    expect(report.data.at(0)?.charge).toBe(printUsd(BigInt(MAX_GROUPS + 1)))
    expect(report.data.at(-1)?.charge).toBe(printUsd(2n))
    for (const format of ["csv", "ndjson"]) {
      const path = `/admin/usage?model=${model}&by=account&from=2026-04-01&to=2026-04-02&format=${format}`
      const { status, text } = await adminApi.ask("GET", path)
      const found =
        format === "csv" ? (csvRows(text) ?? []).map((row) => Object.fromEntries(row)) : linesIn(text)
      const pairs = found.map(({ group, charge }) => `${group} ${charge}`)
      const all = rows.map(({ account_id, charge_nano }) => `${account_id} ${printUsd(charge_nano)}`)
      expect([format, status, pairs.toSorted()]).toEqual([format, 200, all.toSorted()])
    }
  })
})

describe("D48 the range", () => {
  test("without from and to: the last 30 UTC days until now, today's included", async () => {
    const before = Date.now()
    const answer_ms = 1_000 // D58: the ledger's clock may be ahead of this machine's by the time of one answer
    const { from, to, by } = await usage(`account=${nextId()}`)
    expect(by).toBe("day")
    expect(Date.parse(to)).toBeWithin(before, Date.now() + answer_ms)
    const today = new Date(`${to.slice(0, 10)}T00:00:00Z`)
    expect(from).toBe(new Date(today.getTime() - 29 * 86_400_000).toISOString())
  })

  test.each([
    ["to=2026-11-01", "2026-10-02T00:00:00.000Z", "2026-11-01T00:00:00.000Z"],
    ["to=2026-11-01T00:00:00.001Z", "2026-10-03T00:00:00.000Z", "2026-11-01T00:00:00.001Z"],
    ["to=1970-01-02", "1970-01-01T00:00:00.000Z", "1970-01-02T00:00:00.000Z"],
    ["to=1970-01-01", "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z"],
    ["from=2024-01-01&to=2025-01-01", "2024-01-01T00:00:00.000Z", "2025-01-01T00:00:00.000Z"],
    ["from=2026-11-01&to=2026-11-01", "2026-11-01T00:00:00.000Z", "2026-11-01T00:00:00.000Z"],
    ["from=9998-12-31&to=9999-12-31", "9998-12-31T00:00:00.000Z", "9999-12-31T00:00:00.000Z"],
    ["from=2026-11-01&to=2026-12-02&by=hour", "2026-11-01T00:00:00.000Z", "2026-12-02T00:00:00.000Z"],
  ])("%s is from %s to %s", async (query, from, to) => {
    expect(await usage(query)).toMatchObject({ from, to })
  })
})

test("D48 whatever it is summed by, it is the same sum; ranges that meet add up; filters narrow", async () => {
  const start_ms = Date.UTC(2025, 0, 1)
  const span_ms = 5 * 86_400_000
  const account_ids = [nextId(), nextId()]
  const key_ids = [nextId(), nextId(), nextId()]
  const models = ["alpha", "beta"]
  const call = fc.record({
    at_ms: fc.integer({ min: 0, max: span_ms }),
    account: fc.nat(1),
    key: fc.nat(2),
    model: fc.nat(1),
    open: fc.boolean(),
    amount_nano: fc.bigInt(0n, 10n ** 15n),
    charge_nano: fc.bigInt(0n, 10n ** 15n),
    prompt_tokens: fc.nat(100_000_000),
    completion_tokens: fc.nat(100_000_000),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(call, { maxLength: 25 }), fc.nat(span_ms), async (calls, cut_ms) => {
      await falsify(adminApi.database, sql`TRUNCATE ${holds}, ${ends}, ${corrections}`)
      await plantCalls(
        adminApi.database,
        calls.map(({ at_ms, account, key, model, open, charge_nano, ...rest }) => ({
          id: nextId(),
          account_id: account_ids[account] ?? "",
          key_id: key_ids[key] ?? "",
          model: models[model] ?? "",
          ended_at: new Date(start_ms + at_ms),
          ...rest,
          cached_tokens: rest.prompt_tokens >> 1,
          ...(open ? {} : { state: "settled", charge_nano, basis: "usage" }),
        })),
      )
      const closed = calls.filter(({ open }) => !open)
      const time = (ms: number) => new Date(start_ms + ms).toISOString()
      const range = `from=${time(0)}&to=${time(span_ms + 1)}`
      for (const by of ["model", "key", "account", "day", "hour"]) {
        const { data, total } = await usage(`${range}&by=${by}`)
        expect(total).toEqual(summed(closed))
        expect(added(data)).toEqual(total)
        expect(data.every(({ calls }) => calls > 0)).toBe(true)
      }
      const parts = [`from=${time(0)}&to=${time(cut_ms)}`, `from=${time(cut_ms)}&to=${time(span_ms + 1)}`]
      const halves = await Promise.all(parts.map(usage))
      expect(added(halves.map(({ total }) => total))).toEqual(summed(closed))
      const narrow = await usage(`${range}&account=${account_ids[0]}&key=${key_ids[1]}&model=beta`)
      expect(narrow.total).toEqual(
        summed(closed.filter(({ account, key, model }) => account === 0 && key === 1 && model === 1)),
      )
    }),
    { numRuns: 10 },
  )
})

interface Closed {
  readonly amount_nano: bigint
  readonly charge_nano: bigint
  readonly prompt_tokens: number
  readonly completion_tokens: number
}

function summed(calls: readonly Closed[]): OperatorUsageSums {
  const sum = (of: (call: Closed) => number) => calls.reduce((total, call) => total + of(call), 0)
  const money = (of: (call: Closed) => bigint) =>
    printUsd(calls.reduce((total, call) => total + of(call), 0n))
  return {
    ...zero,
    calls: calls.length,
    prompt_tokens: sum(({ prompt_tokens }) => prompt_tokens),
    cached_tokens: sum(({ prompt_tokens }) => prompt_tokens >> 1),
    completion_tokens: sum(({ completion_tokens }) => completion_tokens),
    charge: money(({ charge_nano }) => charge_nano),
    cost: money(({ charge_nano }) => charge_nano),
    overage: money(({ amount_nano, charge_nano }) =>
      charge_nano > amount_nano ? charge_nano - amount_nano : 0n,
    ),
  }
}

/** The sum of sums, the money as it was printed. */
function added(groups: readonly OperatorUsageSums[]): OperatorUsageSums {
  const sum = (values: readonly unknown[]) => values.reduce<number>((total, one) => total + Number(one), 0)
  const money = (values: readonly unknown[]) =>
    printUsd(values.reduce<bigint>((total, one) => total + (parseJsonNumber(String(one), 9) ?? 0n), 0n))
  const entries = Object.entries(zero).map(([field, none]) => {
    const values = groups.map((group) => new Map<string, unknown>(Object.entries(group)).get(field))
    return [field, typeof none === "number" ? sum(values) : typeof none === "string" ? money(values) : none]
  })
  return { ...zero, ...Object.fromEntries(entries) }
}
