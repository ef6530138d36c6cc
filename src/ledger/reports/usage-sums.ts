import { type SQL, sql } from "drizzle-orm"
import { isId } from "../../id.ts"
import { countedKinds, recordOf } from "../../kinds.ts"
import { mapInTurns, sortInTurns } from "../../turns.ts"
import type { Grouping } from "../../wire/usage-report.ts"
import { answerOf } from "../database/answer.ts"
import { amount, count, group, mergeRows, type RowOf, RowShape } from "../database/row-shape.ts"
import {
  DAY_MS,
  HOUR_MS,
  labelPiecesOf,
  periodAt,
  piecesOf,
  type Span,
  type SummedUntil,
  scan,
} from "../database/span.ts"
import { arrayOf, type Db, type Row, textOf } from "../database/statement.ts"
import { inPages } from "../database/transaction.ts"
import { type OfShard, TooManyGroups } from "../entries.ts"
import { end_users, labels, OTHER } from "../schema/labels.ts"
import { accounts, keys, terms } from "../schema/tables.ts"
import { type ChangeOptions, changesOf } from "./changes.ts"

const TAG = "tag:"
const isOfLabels = (by: Grouping) => by === "end_user" || by.startsWith(TAG)

/** The calls that were charged in the span, by the UTC times of the charge (D48); an absent filter does not filter. */
export interface GroupedSpan extends Span {
  readonly by: Grouping
  /** Further dimensions (D105). */
  readonly further?: readonly Grouping[]
}

export const dimensionsOf = ({ by, further = [] }: Pick<GroupedSpan, "by" | "further">) =>
  [by, ...further] as const

/** Sums over calls that have ended. A correction of an earlier charge may make them negative. */
const columns = {
  calls: count,
  /** Abandoned calls, which were released (D91). */
  abandoned: count,
  prompt_tokens: count,
  cached_tokens: count,
  completion_tokens: count,
  charge_nano: amount,
  /** The part of the charge from the accounts' price multipliers (D69). */
  profit_nano: amount,
  /** Sum of the costs that providers report (D90). */
  provider_cost_nano: amount,
  /** Charges above the holds (D11). */
  overage_nano: amount,
}

const usageSums = new RowShape({
  ...columns,
  /** Counts charged of each of these kinds (D60). */
  buckets: group(recordOf(countedKinds, () => count)),
})

export type SummedUsage = RowOf<typeof usageSums>

const summed = [...Object.keys(columns), ...countedKinds]

/** The sums of a group, by its value of each dimension. */
export interface GroupSums extends SummedUsage {
  /** The name of a model, operation or upstream, the id of a key, account, session or end user (empty for none), the value of a tag (empty for none), the name of an upstream's key (empty for a single one), or the first moment of a day or hour. */
  readonly values: readonly (string | Date)[]
}

export interface UsageTotals {
  /** Groups beyond the most that were requested. */
  readonly left_out: number
  /** Of all groups, those that are left out too. */
  readonly total: SummedUsage
}

/** Of a report with a total. */
export const MAX_GROUPS = 1_000
/** Of a report that must have all groups, and of each of several shards, whose groups must all be known to add them. */
export const MAX_ALL_GROUPS = 100_000

const PERIOD_MS = { day: DAY_MS, hour: HOUR_MS }

/** Takes some of the groups of a report, in the report's order. */
export type TakeGroups<Group = UsageGroup> = (groups: readonly Group[]) => Promise<void>

/**
 * The charges of a range, summed by group, the `most` expensive ones, and as a whole in one snapshot, for a reader that takes the
 * groups page by page (D113): `MAX_ALL_GROUPS` in the order of their values. Throws `TooManyGroups` if those are not all.
 */
export function readUsage(
  database: Db,
  range: GroupedSpan,
  most: number,
  take: TakeGroups<GroupSums>,
): Promise<UsageTotals> {
  const dimensions = dimensionsOf(range).map((by) => ({ by, starts: startsOf(by, range) }))
  return scan(database, async (transaction, until) => {
    let totals: UsageTotals | null = null
    for await (const page of inPages(transaction, sums(range, dimensions, until, most))) {
      const [whole] = page
      const rows = totals === null ? page.slice(1) : page
      if (totals === null && whole !== undefined)
        totals = { left_out: leftOut(Number(textOf(whole, "groups")), most), total: usageSums.read(whole) }
      if (rows.length > 0) await take(await mapInTurns(rows, (row) => groupOf(row, dimensions)))
    }
    if (totals === null) throw new Error("a sum of usage has no total")
    return totals
  })
}

/** Throws `TooManyGroups` if there may be none. */
function leftOut(groups: number, most: number): number {
  const left_out = Math.max(0, groups - most)
  if (left_out > 0 && most === MAX_ALL_GROUPS) throw new TooManyGroups()
  return left_out
}

interface KeyedGroup extends GroupSums {
  /** Its letters are the bytes by which Postgres sorts the values. */
  readonly key: string
}

function keyed(group: GroupSums): KeyedGroup {
  const values = group.values.map((value) => (value instanceof Date ? value.toISOString() : value))
  return { ...group, key: Buffer.from(values.join("\0")).toString("latin1") }
}

const byValues = (one: KeyedGroup, other: KeyedGroup) => (one.key < other.key ? -1 : 1)

/** Periods in their order, all else by the charge, the highest first. */
function inReport(one: KeyedGroup, other: KeyedGroup): number {
  const [[period], [later]] = [one.values, other.values]
  const is_same = !(period instanceof Date && later instanceof Date) || period.getTime() === later.getTime()
  return is_same ? byCharge(one, other) : byValues(one, other)
}

/** The highest charge first, which no report leaves out before a lower one. */
function byCharge(one: KeyedGroup, other: KeyedGroup): number {
  if (one.charge_nano !== other.charge_nano) return one.charge_nano > other.charge_nano ? -1 : 1
  return other.calls - one.calls || byValues(one, other)
}

/** A shard's groups in the order of their values, of which it reads a page ahead. */
function pagesOf({ read, label }: UsageSource, range: GroupedSpan, until_ms: number) {
  const { readable, writable } = new TransformStream<readonly GroupSums[], readonly GroupSums[]>()
  const [reader, writer] = [readable.getReader(), writable.getWriter()]
  const totals = read(range, MAX_ALL_GROUPS, (groups) => writer.write(groups))
  totals
    .then(
      () => writer.close(),
      (error: unknown) => writer.abort(error),
    )
    .catch(() => {})
  const inTime = <Answer>(answer: Promise<Answer>) => answerOf(answer, until_ms - performance.now(), label)
  return {
    /** None after the last page. */
    async next(): Promise<readonly KeyedGroup[]> {
      const page = await inTime(reader.read())
      return page.done ? [] : mapInTurns(page.value, keyed)
    },
    totals: () => inTime(totals),
    stop: () => void reader.cancel(new Error("the report was given up")).catch(() => {}),
  }
}

/** The groups of several shards in the order of their values, those with the same values added. */
async function* merged(shards: readonly ReturnType<typeof pagesOf>[]) {
  let open = shards.map(({ next }) => ({ next, groups: [] as readonly KeyedGroup[] }))
  for (;;) {
    for (const shard of open) if (shard.groups.length === 0) shard.groups = await shard.next()
    open = open.filter(({ groups }) => groups.length > 0)
    // No shard has further groups up to the end of the page that ends first.
    const [end] = open.flatMap(({ groups }) => groups.slice(-1)).sort(byValues)
    if (end === undefined) return
    const parts = open.map(({ groups }) => groups.filter(({ key }) => key <= end.key))
    for (const shard of open) shard.groups = shard.groups.filter(({ key }) => key > end.key)
    const added = await mergeRows(
      parts,
      ({ key }) => key,
      (one, other) => ({ ...one, ...usageSums.add(one, other) }),
    )
    yield await sortInTurns(added, byValues)
  }
}

/** The usage of several shards, added. Throws `TooManyGroups`. */
async function readAll(
  shards: readonly UsageSource[],
  range: GroupedSpan,
  most: number,
  take: TakeGroups<GroupSums>,
  deadline_ms: number,
): Promise<UsageTotals> {
  const until_ms = performance.now() + deadline_ms
  const reports = shards.map((shard) => pagesOf(shard, range, until_ms))
  try {
    let [count, left_out] = [0, 0]
    let dearest: readonly KeyedGroup[] = []
    for await (const groups of merged(reports)) {
      count += groups.length
      left_out = leftOut(count, most)
      if (most === MAX_ALL_GROUPS) await take(groups)
      else dearest = (await sortInTurns([...dearest, ...groups], byCharge)).slice(0, most)
    }
    if (dearest.length > 0) await take(await sortInTurns(dearest, inReport))
    const totals = await Promise.all(reports.map((report) => report.totals()))
    return {
      left_out,
      total: totals.map(({ total }) => total).reduce((sum, total) => usageSums.add(sum, total)),
    }
  } finally {
    for (const { stop } of reports) stop()
  }
}

/** Display names by id, as every shard knows some. */
type NamesById = ReadonlyMap<string, string>

/** A group with the display name of each value that is a key, an account or an end user. */
export interface UsageGroup extends GroupSums {
  readonly names: readonly (string | null)[]
}

export interface UsageSource {
  read(range: GroupedSpan, most: number, take: TakeGroups<GroupSums>): Promise<UsageTotals>
  /** Asked while `read` has a connection, so on connections that no report waits for. */
  names(by: Grouping, ids: readonly string[]): Promise<NamesById>
  readonly label?: OfShard
}

/** The usage of all shards. Of a single one nothing has to be added, so it may leave out groups itself. */
export function usageOf(
  shards: readonly UsageSource[],
  range: GroupedSpan,
  most: number,
  take: TakeGroups,
  deadline_ms: number,
): Promise<UsageTotals> {
  const takeNamed = async (groups: readonly GroupSums[]) => {
    const names = await Promise.all(
      dimensionsOf(range).map((by, at) => {
        const ids = [...new Set(groups.map(({ values }) => String(values[at])))]
        return namesIn(shards.map((shard) => shard.names(by, ids)))
      }),
    )
    const nameOf = (value: string | Date, at: number) => names[at]?.get(String(value)) ?? null
    await take(groups.map((group) => ({ ...group, names: group.values.map(nameOf) })))
  }
  const [only, ...others] = shards
  if (only !== undefined && others.length === 0)
    return answerOf(only.read(range, most, takeNamed), deadline_ms, only.label)
  return readAll(shards, range, most, takeNamed, deadline_ms)
}

/** The key or the account of a call may have left the shard of the call. */
export async function namesIn(shards: readonly Promise<NamesById>[]): Promise<NamesById> {
  return new Map((await Promise.all(shards)).flatMap((names) => [...names]))
}

interface Dimension {
  readonly by: Grouping
  /** The starts of the days or hours of the range; empty for other dimensions. */
  readonly starts: readonly Date[]
}

const nth = (at: number) => sql.raw(`g${at}`)

/** The total first, then the `most` dearest groups in the order of `inReport`, or all in the order of their values. */
function sums(range: GroupedSpan, dimensions: readonly Dimension[], until: SummedUntil, most: number): SQL {
  const groupings = dimensions.map(({ by }) => by)
  const wanted = { ...range, is_total: !groupings.includes("key") && !groupings.includes("account") }
  const changes = changesOf(piecesFor(range, groupings, until), columnsFor(groupings), wanted)
  const grouped = sql.join(
    dimensions.map((_, at) => nth(at)),
    sql`, `,
  )
  const given = dimensions.map((dimension, at) => sql`${groupingOf(dimension)} AS ${nth(at)}`)
  const shown = dimensions.map((_, at) => sql`s.${nth(at)}::text`)
  const each = dimensions.map(({ starts }, at) =>
    starts.length > 0 ? sql`s.${nth(at)}` : sql`s.${nth(at)}::text COLLATE "C"`,
  )
  const values = sql.join(each, sql`, `)
  const order = most === MAX_ALL_GROUPS ? values : sql`s.charge_nano DESC, s.calls DESC, ${values}`
  const is_period = dimensions[0]?.starts.length !== 0
  return sql`
WITH charges AS (
  SELECT ${sql.join(given, sql`, `)}, x.* FROM ${changes} x ${joined(groupings)}
), sums AS (
  SELECT GROUPING(c.g0) AS is_whole, ${grouped}, ${abandoned} AS abandoned, ${sumOfEach}
  FROM charges c GROUP BY GROUPING SETS ((${grouped}), ())
), dearest AS (
  SELECT s.*, count(*) OVER () - 1 AS groups FROM sums s
  ORDER BY s.is_whole DESC, ${order} LIMIT ${sql.raw(String(most + 1))}
)
SELECT ${sql.join(shown, sql`, `)}, ${textOfEach}, s.groups::text AS groups FROM dearest s
ORDER BY s.is_whole DESC, ${is_period ? sql`s.g0, ` : sql``}${order}`
}

/** Hours and days have the account, the key and the terms; days the labels; only entries sessions and upstream keys. */
function piecesFor(range: GroupedSpan, groupings: readonly Grouping[], until: SummedUntil) {
  const of_entries = groupings.includes("session") || groupings.includes("upstream_key")
  if (groupings.some(isOfLabels) && !of_entries && !groupings.includes("hour"))
    return labelPiecesOf(range, until)
  const step_ms = of_entries || groupings.some(isOfLabels) ? 0 : groupings.includes("hour") ? HOUR_MS : DAY_MS
  return piecesOf(range, until, step_ms)
}

function columnsFor(groupings: readonly Grouping[]): ChangeOptions {
  const of_hold = [
    ...(groupings.includes("session") ? (["session_id"] as const) : []),
    ...(groupings.some(isOfLabels) ? (["labels_id"] as const) : []),
  ]
  return { with_holds: false, of_hold, with_upstream_key: groupings.includes("upstream_key") }
}

const sumOfEach = sql.raw(
  summed
    .filter((column) => column !== "abandoned")
    .map((column) => `coalesce(sum(c.${column}), 0) AS ${column}`)
    .join(", "),
)
const textOfEach = sql.raw(
  [
    ...Object.keys(columns).map((column) => `s.${column}::text`),
    ...countedKinds.map((kind) => `s.${kind}::text AS buckets_${kind}`),
  ].join(", "),
)

const abandoned = sql`coalesce(sum(c.calls) FILTER (WHERE c.outcome = 'released' AND c.failure = 'client_left'), 0)`

function joined(groupings: readonly Grouping[]): SQL {
  const of_terms = groupings.some((by) => by === "model" || by === "operation" || by === "upstream")
  return sql`${of_terms ? sql`JOIN ${terms} t ON t.id = x.terms_id` : sql``}
    ${groupings.some(isOfLabels) ? sql`LEFT JOIN ${labels} l ON l.id = x.labels_id` : sql``}`
}

/** Labels beyond the most of a day's sums. */
const is_other = sql`x.labels_id = 0`
const other = sql.raw(`'${OTHER}'`)

const GROUPS: Readonly<Partial<Record<Grouping, SQL>>> = {
  model: sql`t.model`,
  operation: sql`t.operation`,
  upstream: sql`t.upstream`,
  upstream_key: sql`coalesce(x.upstream_key, '')`,
  session: sql`coalesce(x.session_id, '')`,
  end_user: sql`CASE WHEN ${is_other} THEN ${other} ELSE coalesce(l.end_user_id::text, '') END`,
  key: sql`x.key_id`,
  account: sql`x.account_id`,
}

function groupingOf({ by, starts }: Dimension): SQL {
  if (starts.length > 0) return periodAt(starts)
  const tag = by.slice(TAG.length)
  return GROUPS[by] ?? sql`CASE WHEN ${is_other} THEN ${other} ELSE coalesce(l.tags ->> ${tag}::text, '') END`
}

/** Display names of these keys, accounts or end users; groups of another kind have none. */
export async function groupNames(
  database: Db,
  by: Grouping,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const named = namedBy(by)
  if (named === null) return new Map()
  const { table, name } = named
  const known = ids.filter(isId)
  const found = await database
    .select({ id: table.id, name })
    .from(table)
    .where(sql`${table.id} = ANY (${arrayOf(known, (id) => id)}::uuid[])`)
  return new Map(found.flatMap(({ id, name }) => (name === null ? [] : [[id, name]])))
}

function namedBy(by: Grouping) {
  if (by === "key") return { table: keys, name: keys.name }
  if (by === "account") return { table: accounts, name: accounts.name }
  return by === "end_user" ? { table: end_users, name: end_users.subject } : null
}

/** The first moments of the UTC days or hours that a range touches; none for another grouping. */
function startsOf(by: Grouping, { from, to }: Pick<Span, "from" | "to">): Date[] {
  if (by !== "day" && by !== "hour") return []
  const period_ms = PERIOD_MS[by]
  const starts: Date[] = []
  const first_ms = Math.floor(from.getTime() / period_ms) * period_ms
  for (let at = first_ms; at === first_ms || at < to.getTime(); at += period_ms) starts.push(new Date(at))
  return starts
}

function groupOf(row: Row, dimensions: readonly Dimension[]): GroupSums {
  const values = dimensions.map(({ starts }, at) => valueIn(textOf(row, `g${at}`), starts))
  return { ...usageSums.read(row), values }
}

function valueIn(text: string, starts: readonly Date[]): string | Date {
  if (starts.length === 0) return text
  const start = starts[Number(text)]
  if (start === undefined) throw new Error("a sum of usage has a period out of its range")
  return start
}
