import { describe, expect, test } from "bun:test"
import { countedKinds, recordOf } from "../../src/kinds.ts"
import type { Page, PageOf } from "../../src/ledger/database/page.ts"
import { TooManyGroups } from "../../src/ledger/entries.ts"
import { refusalSums } from "../../src/ledger/queue/refusals.ts"
import { attemptSums } from "../../src/ledger/reports/attempts.ts"
import { NOTHING_COUNTED } from "../../src/ledger/reports/counted.ts"
import { addLatencies } from "../../src/ledger/reports/latency.ts"
import { mergePages } from "../../src/ledger/reports/merge.ts"
import { addStatements } from "../../src/ledger/reports/statement.ts"
import { notedSums } from "../../src/ledger/reports/usage-notes.ts"
import {
  type GroupedSpan,
  type GroupSums,
  MAX_ALL_GROUPS,
  MAX_GROUPS,
  type TakeGroups,
  type UsageGroup,
  type UsageSource,
  usageOf,
} from "../../src/ledger/reports/usage-sums.ts"
import { faultOf } from "../../src/routes/routing.ts"
import { usageNotes } from "../../src/wire/call.ts"
import { usageRange } from "../../src/wire/usage-report.ts"
import { Random } from "../faults/random.ts"

/** D74: the answers of several shards as one. */

interface Row {
  readonly id: string
}

/** A page of one shard that looks at `look` rows at most, as a list of calls with a rare filter does: one in `rare` is listed. */
function pageIn(ids: readonly number[], { limit, after }: Page, look: number, rare: number): PageOf<Row> {
  const seen = ids.filter((id) => after === null || rowOf(id).id < after).toSorted((one, two) => two - one)
  const looked = seen.slice(0, look)
  const found = looked.filter((id) => id % rare === 0).map(rowOf)
  const data = found.slice(0, limit)
  if (found.length > limit) return { data, next: data.at(-1)?.id ?? null }
  const last = looked.at(-1)
  return { data, next: looked.length === look && last !== undefined ? rowOf(last).id : null }
}

const rowOf = (id: number): Row => ({ id: id.toString(16).padStart(8, "0") })

describe("pages of several shards", () => {
  test("are together the whole list, newest first, each row once, whatever each shard sees at a time", () => {
    for (let round = 0; round < 2_000; round += 1) {
      const random = new Random(round)
      const below = (most: number) => Math.floor(random.next() * most)
      const ids = Array.from({ length: below(60) }, (_, at) => at * 3 + below(3))
      const shards = Array.from({ length: 1 + below(4) }, (): number[] => [])
      for (const id of ids) shards[below(shards.length)]?.push(id)
      const [limit, rare, looks] = [1 + below(8), 1 + below(4), shards.map(() => 1 + below(12))]
      const found: string[] = []
      let after: string | null = null
      do {
        const page: Page = { limit, after }
        const merged: PageOf<Row> = mergePages(
          shards.map((own, at) => pageIn(own, page, looks[at] ?? 1, rare)),
          page,
        )
        expect(merged.data.length).toBeLessThanOrEqual(limit)
        found.push(...merged.data.map(({ id }) => id))
        after = merged.next
      } while (after !== null)
      const all = ids
        .filter((id) => id % rare === 0)
        .toSorted((one, two) => two - one)
        .map((id) => rowOf(id).id)
      expect(found).toEqual(all)
    }
  })
})

const sums = {
  calls: 1,
  abandoned: 1,
  prompt_tokens: 2,
  cached_tokens: 0,
  completion_tokens: 3,
  charge_nano: 0n,
  profit_nano: 1n,
  provider_cost_nano: 1n,
  overage_nano: 0n,
  buckets: recordOf(countedKinds, (kind) => countedKinds.indexOf(kind) + 1),
}

interface Planted {
  readonly charge_nano: bigint
  readonly values: readonly string[]
}

const byBytes = (one: Planted, other: Planted) =>
  Buffer.compare(Buffer.from(one.values.join("\0")), Buffer.from(other.values.join("\0")))

/** A shard that gives its groups sorted, so many at a time. */
function shard(planted: readonly Planted[], at_once = 1_000) {
  const groups = planted.toSorted(byBytes).map((group) => ({ ...sums, ...group }))
  const charge_nano = planted.reduce((sum, group) => sum + group.charge_nano, 0n)
  const shard = {
    pages: 0,
    ended: Promise.withResolvers<unknown>(),
    names: async () => new Map<string, string>(),
    read: async (_range: GroupedSpan, _most: number, take: TakeGroups<GroupSums>) => {
      try {
        for (let at = 0; at < groups.length; at += at_once) {
          shard.pages += 1
          await take(groups.slice(at, at + at_once))
        }
        shard.ended.resolve(null)
      } catch (error) {
        shard.ended.resolve(error)
        throw error
      }
      return { left_out: 0, total: { ...sums, charge_nano } }
    },
  }
  return shard
}

/** Groups that cost one nano-USD less each. */
const planted = (values: readonly string[], charge_nano = 0n) =>
  values.map((value, at) => ({ charge_nano: charge_nano - BigInt(at), values: [value] }))

const range = usageRange({ by: ["session"] }, new Date())
const DEADLINE_MS = 10_000

async function added(shards: readonly UsageSource[], most = MAX_GROUPS) {
  const groups: UsageGroup[] = []
  const take = async (some: readonly UsageGroup[]) => void groups.push(...some)
  return { groups, ...(await usageOf(shards, range, most, take, DEADLINE_MS)) }
}

describe("usage of several shards", () => {
  test("is exact above the numbers that a double can hold", async () => {
    const most = 2n ** 53n + 1n
    const whole = await added([shard(planted(["x"], most)), shard(planted(["x"], most))])
    expect(whole.total.charge_nano).toBe(2n * most)
    expect(whole.groups).toMatchObject([
      { values: ["x"], calls: 2, charge_nano: 2n * most, buckets: { cache_write: 2, web_search: 14 } },
    ])
  })

  test("has the groups that cost most together, though no shard has them first", async () => {
    const names = (of: string) => Array.from({ length: MAX_GROUPS }, (_, at) => `${of}${at}`)
    const parts = () => ["a", "b"].map((of) => shard(planted([...names(of), "both"], 5_000n)))
    const whole = await added(parts())
    expect(whole.groups[0]).toMatchObject({ values: ["both"], charge_nano: 8_000n })
    expect(whole.groups).toHaveLength(MAX_GROUPS)
    expect(whole.left_out).toBe(MAX_GROUPS + 1)
    const { groups } = await added(parts(), MAX_ALL_GROUPS)
    expect(groups.map(({ values: [value] }) => String(value))).toEqual(
      [...names("a"), ...names("b"), "both"].toSorted(),
    )
    const dearest = groups.toSorted((one, other) => (one.charge_nano > other.charge_nano ? -1 : 1))
    expect(dearest.slice(0, MAX_GROUPS).map(({ charge_nano }) => charge_nano)).toEqual(
      whole.groups.map(({ charge_nano }) => charge_nano),
    )
  })

  test("D113 has each group once, in the order of Postgres, whatever each shard gives at a time", async () => {
    const letters = ["a", "B", "é", "￰", "🐘", '"', " ", "1"]
    for (let round = 0; round < 300; round += 1) {
      const random = new Random(round)
      const below = (most: number) => Math.floor(random.next() * most)
      const word = () => Array.from({ length: below(3) }, () => letters[below(letters.length)]).join("")
      const all = new Map<string, Planted>()
      const shards = Array.from({ length: 2 + below(3) }, () => {
        const own = new Map<string, Planted>()
        for (let count = below(40); count > 0; count -= 1) {
          const values = [word(), word()]
          own.set(values.join("\0"), { values, charge_nano: BigInt(below(9)) })
        }
        for (const [key, { values, charge_nano }] of own)
          all.set(key, { values, charge_nano: charge_nano + (all.get(key)?.charge_nano ?? 0n) })
        return shard([...own.values()], 1 + below(7))
      })
      const { groups, total } = await added(shards, MAX_ALL_GROUPS)
      const found = groups.map(({ values, charge_nano }) => ({ values, charge_nano }))
      const expected = [...all.values()].toSorted(byBytes)
      expect(found).toEqual(expected)
      expect(total.charge_nano).toBe(expected.reduce((sum, { charge_nano }) => sum + charge_nano, 0n))
    }
  })

  test("D113 reads no further than a page ahead of what is taken", async () => {
    const names = (of: string) => Array.from({ length: 50 }, (_, at) => `${at + 10}${of}`)
    const shards = [shard(planted(names("a")), 5), shard(planted(names("b")), 5)]
    const ahead: number[] = []
    let taken = 0
    const take = async (some: readonly UsageGroup[]) => {
      await Bun.sleep(1)
      taken += some.length
      ahead.push(5 * shards.reduce((sum, { pages }) => sum + pages, 0) - taken)
    }
    await usageOf(shards, range, MAX_ALL_GROUPS, take, DEADLINE_MS)
    expect(taken).toBe(100)
    expect(Math.max(...ahead)).toBeLessThanOrEqual(20)
  })

  test("a shard that fails ends what is read of the others", async () => {
    const other = shard(planted(["a", "b", "c"]), 1)
    const failing: UsageSource = { ...other, read: () => Promise.reject(new Error("it failed")) }
    await expect(added([other, failing])).rejects.toThrow("it failed")
    expect(await other.ended.promise).toBeInstanceOf(Error)
  })

  test("a shard that does not answer is named, and ends what is read of the others", async () => {
    const other = { ...shard(planted(["a", "b"]), 1), label: { shard: "one" } }
    const silent: UsageSource = { ...other, label: { shard: "two" }, read: () => new Promise(() => {}) }
    const report = usageOf([other, silent], range, MAX_GROUPS, async () => {}, 20)
    expect(await report.catch((error: unknown) => error)).toMatchObject({ name: "NoAnswer", shard: "two" })
    expect(await other.ended.promise).toBeInstanceOf(Error)
  })

  test("D105 rows that are not all groups are an error", async () => {
    const names = (of: string) => Array.from({ length: MAX_ALL_GROUPS / 2 + 1 }, (_, at) => `${of}${at}`)
    const all = added([shard(planted(names("a"))), shard(planted(names("b")))], MAX_ALL_GROUPS)
    expect(await all.catch((error: unknown) => error)).toBeInstanceOf(TooManyGroups)
    expect(faultOf(new TooManyGroups())).toMatchObject({ status: 400 })
  })
})

test("percentiles of several shards are those of all their calls", () => {
  const part = (ms: number, calls: number) => ({ ttft: [[ms, calls] as const], duration: [] })
  const { ttft, duration } = addLatencies([part(100, 60), part(900, 39), part(100, 1)])
  expect(ttft).toMatchObject({ calls: 100, p50_ms: 100, p90_ms: 900, p99_ms: 900 })
  expect(duration.calls).toBe(0)
})

describe("rows of several shards", () => {
  const at = { last_at: new Date(0) }
  const refused = { account_id: null, account_name: null, key_id: null, key_name: null, code: "code", ...at }
  const lost = { upstream: "upstream", upstream_key: null, status: 503, failure: null, ...at }
  const noted = {
    upstream: "upstream",
    notes: recordOf(usageNotes, () => 0),
    below_cost_calls: 0,
    unread: [],
  }
  const flows = { opening_nano: 0n, expired_nano: 0n, voided_nano: 0n, credits: [] }
  /** Numbers of two shards, without an order. */
  const both = (length: number) =>
    [3, 7].map((step, odd) => Array.from({ length }, (_, place) => 2 * ((place * step) % length) + odd))

  test.each<[string, number, (of_shards: number[][]) => Promise<readonly number[]>]>([
    [
      "refused calls (D80)",
      1_000,
      async (of_shards) => {
        const rows = of_shards.map((all) =>
          all.map((requests) => ({ ...refused, code: `${requests}`, requests })),
        )
        return (await refusalSums.merge(rows)).map(({ requests }) => requests)
      },
    ],
    [
      "attempts (D93)",
      1_000,
      async (of_shards) => {
        const rows = of_shards.map((all) =>
          all.map((attempts) => ({ ...lost, model: `${attempts}`, attempts })),
        )
        return (await attemptSums.merge(rows)).map(({ attempts }) => attempts)
      },
    ],
    [
      "notes about usage (D90)",
      1_600,
      async (of_shards) => {
        const rows = of_shards.map((all) => all.map((calls) => ({ ...noted, model: `${calls}`, calls })))
        return (await notedSums.merge(rows)).map(({ calls }) => calls)
      },
    ],
    [
      "charges of a statement (D106)",
      1_600,
      async (of_shards) => {
        const parts = of_shards.map((all) => ({
          ...flows,
          closing_nano: -all.reduce((sum, nano) => sum + BigInt(nano), 0n),
          charges: all.map((nano) => ({ ...NOTHING_COUNTED, model: `${nano}`, charge_nano: BigInt(nano) })),
        }))
        return (await addStatements(parts))?.charges.map(({ charge_nano }) => Number(charge_nano)) ?? []
      },
    ],
  ])("%s: the largest of all shards come first, and as many as a report has", async (_, most, merged) => {
    const largest = Array.from({ length: 1_600 }, (_, place) => 1_599 - place)
    expect(await merged(both(800))).toEqual(largest.slice(0, most))
  })
})
