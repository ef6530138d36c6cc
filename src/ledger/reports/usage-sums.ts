import { inArray, type SQL, sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { isId } from "../../id.ts"
import { type CountedKind, countedKinds, recordOf } from "../../kinds.ts"
import type { Grouping } from "../../wire/usage-report.ts"
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
import { type Row, textOf } from "../database/statement.ts"
import { end_users, labels, OTHER } from "../schema/labels.ts"
import { accounts, keys, terms } from "../schema/tables.ts"
import { changesOf } from "./changes.ts"

const TAG = "tag:"
/** The column of holds that a grouping needs. */
const ofHold = (by: Grouping) =>
  by === "session" ? "session_id" : by === "end_user" || by.startsWith(TAG) ? "labels_id" : undefined

/** The calls that were charged in the span, by the UTC times of the charge (D48); an absent filter does not filter. */
export interface GroupedSpan extends Span {
  readonly by: Grouping
}

export const usageCounts = [
  "calls",
  "abandoned",
  "prompt_tokens",
  "cached_tokens",
  "completion_tokens",
] as const
export const usageAmounts = ["charge_nano", "profit_nano", "provider_cost_nano", "overage_nano"] as const
const summed = [...usageCounts, ...usageAmounts, ...countedKinds]

/** Sums over calls that have ended. A correction of an earlier charge may make them negative. */
export interface SummedUsage {
  readonly calls: number
  /** Abandoned calls, which were released (D91). */
  readonly abandoned: number
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly completion_tokens: number
  readonly charge_nano: bigint
  /** The part of the charge from the accounts' price multipliers (D69). */
  readonly profit_nano: bigint
  /** Sum of the costs that providers report (D90). */
  readonly provider_cost_nano: bigint
  /** Charges above the holds (D11). */
  readonly overage_nano: bigint
  /** Counts charged of each of these kinds (D60). */
  readonly buckets: Readonly<Record<CountedKind, number>>
}

export interface UsageGroup extends SummedUsage {
  /** The name of a model or operation, the id of a key, account, session or end user (empty for none), the value of a tag (empty for none), or the first moment of a day or hour. */
  readonly group: string | Date
  /** Display name of the key, account or end user. */
  readonly name: string | null
}

export interface UsageSummary {
  readonly groups: readonly UsageGroup[]
  /** Groups beyond the most that were asked for. */
  readonly left_out: number
  /** Of all groups, those that are left out too. */
  readonly total: SummedUsage
}

export const MAX_GROUPS = 1_000

const PERIOD_MS = { day: DAY_MS, hour: HOUR_MS }

/** The charges of a range, summed by group, `most` of them at most, and as a whole in one snapshot. */
export async function sumUsage(
  database: PostgresJsDatabase,
  range: GroupedSpan,
  most = MAX_GROUPS,
): Promise<UsageSummary> {
  const { from, to, by } = range
  const starts = by === "day" || by === "hour" ? periodsOf(from, to, PERIOD_MS[by]) : []
  const rows = await scan(database, (transaction, until) =>
    transaction.execute<Row>(sums(range, starts, until, most)),
  )
  const [whole, ...groups] = rows
  if (whole === undefined) throw new Error("a sum of usage has no total")
  return {
    groups: groups.map((row) => ({ ...sumsOf(row), group: groupOf(row, starts), name: nameOf(row) })),
    left_out: Number(textOf(whole, "groups")) - groups.length,
    total: sumsOf(whole),
  }
}

/** The total first, then the groups: periods in their order, all else by the charge. */
function sums(range: GroupedSpan, starts: readonly Date[], until: SummedUntil, most: number): SQL {
  const { by } = range
  const of_hold = ofHold(by)
  const wanted = { ...range, is_total: by !== "key" && by !== "account" }
  const changes = changesOf(
    of_hold === "labels_id"
      ? labelPiecesOf(range, until)
      : piecesOf(range, until, of_hold !== undefined ? 0 : by === "hour" ? HOUR_MS : DAY_MS),
    { with_holds: false, ...(of_hold !== undefined && { of_hold }) },
    wanted,
  )
  return sql`
WITH charges AS (
  SELECT ${groupingOf(by, starts)} AS "group", x.* FROM ${changes} x ${joined(by)}
), sums AS (
  SELECT GROUPING(c."group") AS is_whole, c."group", ${abandoned} AS abandoned, ${sumOfEach}
  FROM charges c GROUP BY GROUPING SETS ((c."group"), ())
)
SELECT s."group"::text, ${nameBy(by)} AS name, ${textOfEach},
  (count(*) OVER () - 1)::text AS groups
FROM sums s
ORDER BY s.is_whole DESC, ${starts.length > 0 ? sql`` : sql`s.charge_nano DESC, s.calls DESC,`} s."group"
LIMIT ${sql.raw(String(most + 1))}`
}

const each = (columns: readonly string[], of: (column: string) => string) =>
  sql.raw(columns.map(of).join(", "))
const sumOfEach = each(
  summed.filter((column) => column !== "abandoned"),
  (column) => `coalesce(sum(c.${column}), 0) AS ${column}`,
)
const textOfEach = each(summed, (column) => `s.${column}::text`)

const abandoned = sql`coalesce(sum(c.calls) FILTER (WHERE c.outcome = 'released' AND c.failure = 'client_left'), 0)`

function joined(by: Grouping): SQL {
  if (by === "model" || by === "operation") return sql`JOIN ${terms} t ON t.id = x.terms_id`
  return ofHold(by) === "labels_id" ? sql`LEFT JOIN ${labels} l ON l.id = x.labels_id` : sql``
}

/** Labels beyond the most of a day's sums. */
const is_other = sql`x.labels_id = 0`
const other = sql.raw(`'${OTHER}'`)

function groupingOf(by: Grouping, starts: readonly Date[]): SQL {
  switch (by) {
    case "model":
      return sql`t.model`
    case "operation":
      return sql`t.operation`
    case "session":
      return sql`coalesce(x.session_id, '')`
    case "end_user":
      return sql`CASE WHEN ${is_other} THEN ${other} ELSE coalesce(l.end_user_id::text, '') END`
    case "key":
      return sql`x.key_id`
    case "account":
      return sql`x.account_id`
    case "day":
    case "hour":
      return periodAt(starts)
    default:
      return sql`CASE WHEN ${is_other} THEN ${other} ELSE coalesce(l.tags ->> ${by.slice(TAG.length)}::text, '') END`
  }
}

function nameBy(by: Grouping): SQL {
  if (by === "key") return sql`(SELECT k.name FROM ${keys} k WHERE k.id = s."group")`
  if (by === "account") return sql`(SELECT a.name FROM ${accounts} a WHERE a.id = s."group")`
  if (by === "end_user")
    return sql`(SELECT u.subject FROM ${end_users} u WHERE u.id = CASE WHEN s."group" NOT IN ('', ${other}) THEN s."group"::uuid END)`
  return sql`NULL`
}

/** Display names of these keys, accounts or end users; groups of another kind have none. */
export async function groupNames(
  database: PostgresJsDatabase,
  by: Grouping,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const named = namedBy(by)
  if (named === null) return new Map()
  const { table, name } = named
  const found = await database
    .select({ id: table.id, name })
    .from(table)
    .where(inArray(table.id, ids.filter(isId)))
  return new Map(found.flatMap(({ id, name }) => (name === null ? [] : [[id, name]])))
}

function namedBy(by: Grouping) {
  if (by === "key") return { table: keys, name: keys.name }
  if (by === "account") return { table: accounts, name: accounts.name }
  return by === "end_user" ? { table: end_users, name: end_users.subject } : null
}

/** The first moments of the UTC days or hours that a range touches. */
function periodsOf(from: Date, to: Date, period_ms: number): Date[] {
  const starts: Date[] = []
  const first_ms = Math.floor(from.getTime() / period_ms) * period_ms
  for (let at = first_ms; at === first_ms || at < to.getTime(); at += period_ms) starts.push(new Date(at))
  return starts
}

function groupOf(row: Row, starts: readonly Date[]): string | Date {
  const text = textOf(row, "group")
  if (starts.length === 0) return text
  const start = starts[Number(text)]
  if (start === undefined) throw new Error("a sum of usage has a period out of its range")
  return start
}

function nameOf({ name }: Row): string | null {
  return typeof name === "string" ? name : null
}

function sumsOf(row: Row): SummedUsage {
  return {
    ...recordOf(usageCounts, (name) => countOf(row, name)),
    ...recordOf(usageAmounts, (name) => BigInt(textOf(row, name))),
    buckets: recordOf(countedKinds, (kind) => countOf(row, kind)),
  }
}

/** A count as a number, which it fits: D1 bounds the tokens of a call. */
function countOf(row: Row, column: string): number {
  const count = Number(textOf(row, column))
  if (!Number.isSafeInteger(count)) throw new Error(`${column} is no safe integer`)
  return count
}
