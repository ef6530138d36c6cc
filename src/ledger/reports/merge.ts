import { countedKinds, recordOf } from "../../kinds.ts"
import type { Grouping } from "../../wire/usage-report.ts"
import type { Page, PageOf } from "../database/page.ts"
import { mergeRows } from "../database/row-merge.ts"
import { TooManyGroups } from "../entries.ts"
import type { PastBalance } from "./balance.ts"
import { addCounted, NOTHING_COUNTED } from "./counted.ts"
import { type CallsByDuration, distribution } from "./distribution.ts"
import type { Latency } from "./latency.ts"
import type { OutcomeSums } from "./outcomes.ts"
import type { Timeline } from "./timeline.ts"
import {
  byCharge,
  type GroupedSpan,
  inReport,
  MAX_GROUPS,
  placeOf,
  type SummedUsage,
  type UsageGroup,
  type UsageSummary,
  usageAmounts,
  usageCounts,
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
    .sort((left, right) => ascending(right.id, left.id))
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
      ...addSums(one, other),
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
    total: others.reduce<SummedUsage>((sum, { total }) => addSums(sum, total), first.total),
  }
}

function addSums(one: SummedUsage, other: SummedUsage): SummedUsage {
  return {
    ...recordOf(usageCounts, (name) => one[name] + other[name]),
    ...recordOf(usageAmounts, (name) => one[name] + other[name]),
    buckets: recordOf(countedKinds, (kind) => one.buckets[kind] + other.buckets[kind]),
  }
}

type NamesById = readonly ReadonlyMap<string, string>[]

/** Adds the missing names of groups whose key or account has left the shard of their calls. `ask` asks all shards. */
export async function nameGroups<
  Group extends { readonly group: string | Date | null; readonly name: string | null },
>(groups: readonly Group[], ask: (ids: readonly string[]) => Promise<NamesById>): Promise<readonly Group[]> {
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
export async function nameUsage(
  groups: readonly UsageGroup[],
  { further = [], ...first }: Pick<GroupedSpan, "by" | "further">,
  ask: (by: Grouping, ids: readonly string[]) => Promise<NamesById>,
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
  [first, ...others]: readonly Timeline[],
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
      same.reduce((sum, { steps }) => addCounted(sum, steps[at] ?? NOTHING_COUNTED), step),
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

/** The most frequent first. */
export function addOutcomes(parts: readonly (readonly OutcomeSums[])[]): readonly OutcomeSums[] {
  const add = (one: OutcomeSums, other: OutcomeSums): OutcomeSums => ({
    ...one,
    calls: one.calls + other.calls,
    charge_nano: one.charge_nano + other.charge_nano,
  })
  const keyOf = ({ state, basis, failure }: OutcomeSums) => JSON.stringify([state, basis, failure])
  return mergeRows(parts, keyOf, add).sort(
    (left, right) =>
      right.calls - left.calls ||
      ascending(left.state, right.state) ||
      ascending(left.basis, right.basis) ||
      ascending(left.failure ?? LAST, right.failure ?? LAST),
  )
}

/** Comes after every word, as a null does in a database. */
const LAST = "~"

/** The sums of an account's past balances in all shards; null if it is in none. */
export function addBalances(parts: readonly (PastBalance | null)[]): PastBalance | null {
  return parts
    .filter((part) => part !== null)
    .reduce<PastBalance | null>(
      (sum, { balance_nano, held_nano }) => ({
        balance_nano: (sum?.balance_nano ?? 0n) + balance_nano,
        held_nano: (sum?.held_nano ?? 0n) + held_nano,
      }),
      null,
    )
}

function ascending<Value extends string | number | bigint>(left: Value, right: Value): number {
  if (left === right) return 0
  return left < right ? -1 : 1
}
