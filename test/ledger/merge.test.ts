import { describe, expect, test } from "bun:test"
import { countedKinds, recordOf } from "../../src/kinds.ts"
import type { Page, PageOf } from "../../src/ledger/database/page.ts"
import { TooManyGroups } from "../../src/ledger/entries.ts"
import { addLatencies } from "../../src/ledger/reports/latency.ts"
import { mergePages } from "../../src/ledger/reports/merge.ts"
import {
  MAX_ALL_GROUPS,
  MAX_GROUPS,
  type UsageGroup,
  type UsageSource,
  usageOf,
} from "../../src/ledger/reports/usage-sums.ts"
import { faultOf } from "../../src/routes/routing.ts"
import { usageRange } from "../../src/wire/usage-report.ts"

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
      const below = (most: number) => Math.floor(Math.random() * most)
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

/** A shard whose groups cost one nano-USD less each. */
function shard(values: readonly string[], charge_nano: bigint): UsageSource {
  const groups = values.map((value, at) => ({
    ...sums,
    charge_nano: charge_nano - BigInt(at),
    values: [value],
  }))
  const names = async () => new Map()
  return {
    names,
    read: async (_range, _most, take) => {
      await take(groups, names)
      return { left_out: 0, total: { ...sums, charge_nano } }
    },
  }
}

async function added(shards: readonly UsageSource[], most = MAX_GROUPS) {
  const groups: UsageGroup[] = []
  const take = async (some: readonly UsageGroup[]) => void groups.push(...some)
  return { groups, ...(await usageOf(shards, usageRange({ by: ["session"] }, new Date()), most, take)) }
}

describe("usage of several shards", () => {
  test("is exact above the numbers that a double can hold", async () => {
    const most = 2n ** 53n + 1n
    const whole = await added([shard(["x"], most), shard(["x"], most)])
    expect(whole.total.charge_nano).toBe(2n * most)
    expect(whole.groups).toMatchObject([
      { values: ["x"], calls: 2, charge_nano: 2n * most, buckets: { cache_write: 2, web_search: 14 } },
    ])
  })

  test("has the groups that cost most together, though no shard has them first", async () => {
    const names = (of: string) => Array.from({ length: MAX_GROUPS }, (_, at) => `${of}${at}`)
    const parts = [shard([...names("a"), "both"], 5_000n), shard([...names("b"), "both"], 5_000n)]
    const whole = await added(parts)
    expect(whole.groups[0]).toMatchObject({ values: ["both"], charge_nano: 8_000n })
    expect(whole.groups).toHaveLength(MAX_GROUPS)
    expect(whole.left_out).toBe(MAX_GROUPS + 1)
    const { groups } = await added(parts, MAX_ALL_GROUPS)
    expect(groups).toHaveLength(2 * MAX_GROUPS + 1)
    expect(groups.slice(0, MAX_GROUPS)).toEqual(whole.groups)
    const charges = groups.map(({ charge_nano }) => charge_nano)
    expect(charges).toEqual(charges.toSorted((one, other) => (one > other ? -1 : one < other ? 1 : 0)))
  })

  test("D105 rows that are not all groups are an error", async () => {
    const names = (of: string) => Array.from({ length: MAX_ALL_GROUPS / 2 + 1 }, (_, at) => `${of}${at}`)
    const all = added([shard(names("a"), 0n), shard(names("b"), 0n)], MAX_ALL_GROUPS)
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
