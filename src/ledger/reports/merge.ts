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
  type GroupedSpan,
  inReport,
  MAX_ALL_GROUPS,
  MAX_GROUPS,
  placeOf,
  type SummedUsage,
  type UsageGroup,
  type UsageSummary,
  usageSums,
} from "./usage-sums.ts"

/** The answers of several shards as one (D74): lists merge, sums add. */

const NOT_FOUND = new Error("not found")

/** The first answer that is not null; null if all are. Rejects if there is none and some failed. */
export async function firstFound<Answer>(lookups: readonly Promise<Answer | null>[]): Promise<Answer | null> {
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
    placeOf,
    (one, other) => ({
      ...one,
      ...usageSums.add(one, other),
      name: one.name ?? other.name,
      further: one.further.map((value, at) => ({
        ...value,
        name: value.name ?? other.further[at]?.name ?? null,
      })),
    }),
  ).sort(byCharge)
  return {
    groups: groups.slice(0, most).sort(inReport),
    left_out: Math.max(0, groups.length - most),
    total: others.reduce<SummedUsage>((sum, { total }) => usageSums.add(sum, total), first.total),
  }
}

type NamesById = ReadonlyMap<string, string>

interface UsageSource {
  sum(range: GroupedSpan, most?: number): Promise<UsageSummary>
  names(by: Grouping, ids: readonly string[]): Promise<NamesById>
}

/** The usage of all shards. Of a single one nothing has to be added, so it may leave out groups itself. */
export async function usageOf(
  shards: readonly UsageSource[],
  range: GroupedSpan,
  most?: number,
): Promise<UsageSummary> {
  const [only, ...others] = shards
  if (only !== undefined && others.length === 0) return only.sum(range, most)
  const parts = shards.map((shard) => shard.sum(range, MAX_ALL_GROUPS))
  const whole = addUsage(await Promise.all(parts), most)
  const groups = await nameUsage(whole.groups, range, (by, ids) =>
    Promise.all(shards.map((shard) => shard.names(by, ids))),
  )
  return { ...whole, groups }
}

/** Adds the missing names of groups whose key or account has left the shard of their calls. `ask` asks all shards. */
export async function nameGroups<
  Group extends { readonly group: string | Date | null; readonly name: string | null },
>(
  groups: readonly Group[],
  ask: (ids: readonly string[]) => Promise<readonly NamesById[]>,
): Promise<readonly Group[]> {
  const ids = groups.flatMap(({ group, name }) => (typeof group === "string" && name === null ? [group] : []))
  if (ids.length === 0) return groups
  const found = await ask(ids)
  const nameOf = (id: string | Date | null) =>
    typeof id === "string"
      ? found.map((names) => names.get(id)).find((name) => name !== undefined)
      : undefined
  return groups.map((each) => ({ ...each, name: each.name ?? nameOf(each.group) ?? null }))
}

/** The same for each dimension of a usage report. */
async function nameUsage(
  groups: readonly UsageGroup[],
  { further = [], ...first }: Pick<GroupedSpan, "by" | "further">,
  ask: (by: Grouping, ids: readonly string[]) => Promise<readonly NamesById[]>,
): Promise<readonly UsageGroup[]> {
  const columns = further.map((by, at) =>
    nameGroups(
      groups.flatMap((group) => group.further[at] ?? []),
      (ids) => ask(by, ids),
    ),
  )
  const others = await Promise.all(columns)
  const named = await nameGroups(groups, (ids) => ask(first.by, ids))
  return named.map((group, row) => ({ ...group, further: others.flatMap((column) => column[row] ?? []) }))
}

/** Timelines of the same span with the same groups, in the order of `chosen`; `left_out` is how many others there are. */
export function addTimelines(
  [first, ...others]: readonly Omit<Timeline, "left_out">[],
  chosen: readonly string[],
  left_out: number,
): Timeline {
  if (first === undefined) throw new Error("there is no timeline to add")
  const all = [first, ...others].flatMap(({ groups }) => groups)
  const groups = [...chosen, null].flatMap((group) => {
    const [one, ...same] = all.filter((found) => found.group === group)
    if (one === undefined) return []
    const name = [one, ...same].find((found) => found.name !== null)?.name ?? null
    const steps = one.steps.map((step, at) =>
      same.reduce((sum, { steps }) => counted.add(sum, steps[at] ?? NOTHING_COUNTED), step),
    )
    return [{ group, name, steps }]
  })
  return { ...first, groups, left_out }
}

/** Every value is counted before percentiles are read. */
export function addLatencies(parts: readonly Readonly<Record<keyof Latency, CallsByDuration>>[]): Latency {
  return {
    ttft: distribution(parts.flatMap(({ ttft }) => ttft)),
    duration: distribution(parts.flatMap(({ duration }) => duration)),
  }
}
