import type { Grouping } from "../../wire/usage-report.ts"
import type { Page, PageOf } from "../database/page.ts"
import { mergeRows } from "../database/row-merge.ts"
import { TooManyGroups } from "../entries.ts"
import { counted, NOTHING_COUNTED } from "./counted.ts"
import { type CallsByDuration, distribution } from "./distribution.ts"
import type { Latency } from "./latency.ts"
import type { Timeline } from "./timeline.ts"
import {
  byCharge,
  dimensionsOf,
  type GroupedSpan,
  type GroupSums,
  groupKey,
  inReport,
  MAX_ALL_GROUPS,
  MAX_GROUPS,
  type SummedUsage,
  type UsageSummary,
  usageSums,
} from "./usage-sums.ts"

/** The answers of several shards as one (D74): lists merge, sums add. */

const NOT_FOUND = new Error("not found")

/** The first answer that is not null; null if all are. Rejects if there is none and some failed. */
export async function firstFound<Answer>(lookups: readonly Promise<Answer | null>[]): Promise<Answer | null> {
  const [only, ...others] = lookups
  if (only !== undefined && others.length === 0) return only
  const found = lookups.map(async (one) => {
    const answer = await one
    if (answer === null) throw NOT_FOUND
    return answer
  })
  try {
    return await Promise.any(found)
  } catch (error) {
    const failures: readonly unknown[] = error instanceof AggregateError ? error.errors : [error]
    const failure = failures.findLast((each) => each !== NOT_FOUND)
    if (failure !== undefined) throw failure
    return null
  }
}

/**
 * Merges pages that begin after the same id, newest first. Nothing older than the page of a shard that has more is taken,
 * because that shard may have more rows there.
 */
export function mergePages<Row extends { readonly id: string }>(
  pages: readonly PageOf<Row>[],
  { limit }: Pick<Page, "limit">,
): PageOf<Row> {
  const bounds = pages.flatMap(({ next }) => (next === null ? [] : [next]))
  const bound = bounds.sort().at(-1) ?? null
  const rows = pages
    .flatMap(({ data }) => data)
    .filter(({ id }) => bound === null || id >= bound)
    .sort((left, right) => (left.id < right.id ? 1 : -1))
  const data = rows.slice(0, limit)
  return { data, next: rows.length > limit ? (data.at(-1)?.id ?? null) : bound }
}

/** Throws `TooManyGroups` if a shard has left groups out, so that they cannot be added. */
export function addUsage(parts: readonly UsageSummary[], most = MAX_GROUPS): UsageSummary {
  const [first, ...others] = parts
  if (first === undefined) throw new Error("there is no usage to add")
  if (parts.some(({ left_out }) => left_out > 0)) throw new TooManyGroups()
  const groups = mergeRows(
    parts.map((part) => part.groups),
    groupKey,
    (one, other) => ({ ...one, ...usageSums.add(one, other) }),
  ).sort(byCharge)
  return {
    groups: groups.slice(0, most).sort(inReport),
    left_out: Math.max(0, groups.length - most),
    total: others.reduce<SummedUsage>((sum, { total }) => usageSums.add(sum, total), first.total),
  }
}

/** Display names by id, as every shard knows some. */
type NamesById = ReadonlyMap<string, string>

/** A group with the display name of each value that is a key, an account or an end user. */
export interface UsageGroup extends GroupSums {
  readonly names: readonly (string | null)[]
}

interface UsageSource {
  sum(range: GroupedSpan, most?: number): Promise<UsageSummary>
  names(by: Grouping, ids: readonly string[]): Promise<NamesById>
}

/** The usage of all shards. Of a single one nothing has to be added, so it may leave out groups itself. */
export async function usageOf(
  shards: readonly UsageSource[],
  range: GroupedSpan,
  most?: number,
): Promise<UsageSummary<UsageGroup>> {
  const [only, ...others] = shards
  const all = () => Promise.all(shards.map((shard) => shard.sum(range, MAX_ALL_GROUPS)))
  const is_one = only !== undefined && others.length === 0
  const whole = is_one ? await only.sum(range, most) : addUsage(await all(), most)
  const names = await Promise.all(
    dimensionsOf(range).map((by, at) => {
      const ids = whole.groups.flatMap(({ values }) => String(values[at]))
      return namesIn(shards.map((shard) => shard.names(by, ids)))
    }),
  )
  const named = ({ values }: GroupSums) => values.map((value, at) => names[at]?.get(String(value)) ?? null)
  return { ...whole, groups: whole.groups.map((group) => ({ ...group, names: named(group) })) }
}

/** The key or the account of a call may have left the shard of the call. */
export async function namesIn(shards: readonly Promise<NamesById>[]): Promise<NamesById> {
  return new Map((await Promise.all(shards)).flatMap((names) => [...names]))
}

/** Timelines of the same span with the same groups, in the order of `chosen`. */
export function addTimelines(parts: readonly Timeline[], chosen: readonly string[]): Timeline {
  const [first, ...others] = parts
  if (first === undefined) throw new Error("there is no timeline to add")
  const all = [first, ...others].flatMap(({ groups }) => groups)
  const groups = [...chosen, null].flatMap((group) => {
    const [one, ...same] = all.filter((found) => found.group === group)
    if (one === undefined) return []
    const steps = one.steps.map((step, at) =>
      same.reduce((sum, { steps }) => counted.add(sum, steps[at] ?? NOTHING_COUNTED), step),
    )
    return [{ group, steps }]
  })
  return { ...first, groups }
}

/** Every value is counted before percentiles are read. */
export function addLatencies(parts: readonly Readonly<Record<keyof Latency, CallsByDuration>>[]): Latency {
  return {
    ttft: distribution(parts.flatMap(({ ttft }) => ttft)),
    duration: distribution(parts.flatMap(({ duration }) => duration)),
  }
}
