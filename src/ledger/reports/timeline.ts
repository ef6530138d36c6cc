import { eq, inArray, sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import type { Split } from "../../wire/statistics.ts"
import { periodAt, piecesOf, type Span, scan } from "../database/span.ts"
import { accounts, keys, terms } from "../schema/tables.ts"
import { changesOf } from "./changes.ts"
import { type CountedCalls, counted, countedSums, NOTHING_COUNTED, sumsToAdd } from "./counted.ts"

interface SummedGroup {
  /** A model's name, the id of a key or account; null for all groups beyond those shown. */
  readonly group: string | null
  /** One for each of the timeline's steps. */
  readonly steps: readonly CountedCalls[]
}

export interface Timeline {
  readonly step_s: number
  readonly starts_at: readonly Date[]
  /** The rest last. */
  readonly groups: readonly SummedGroup[]
}

export interface NamedTimeline extends Timeline {
  readonly groups: readonly NamedGroup[]
  /** Number of groups in the rest. */
  readonly left_out: number
}

export interface NamedGroup extends SummedGroup {
  readonly name: string | null
}

const MINUTE_S = 60
const HOUR_S = 3_600
const STEPS_S = [
  MINUTE_S,
  5 * MINUTE_S,
  15 * MINUTE_S,
  HOUR_S,
  3 * HOUR_S,
  6 * HOUR_S,
  12 * HOUR_S,
  24 * HOUR_S,
]
const MAX_STEPS = 97

const parts = {
  model: sql`t.model`,
  key: sql`x.key_id`,
  account: sql`x.account_id`,
} as const

interface TimelineRow extends Record<string, unknown> {
  /** From 1 on; for the rest, the number after the last. */
  readonly rank: number
  readonly step: number
}

/** The calls of a span in steps of time, split by model, key or account: these groups, and the rest together. */
export async function timeline(
  database: PostgresJsDatabase,
  span: Span,
  by: Split,
  chosen: readonly string[],
): Promise<Timeline> {
  const { step_s, starts_at } = stepsOf(span)
  const rows = await scan(database, (transaction, until) => {
    const pieces = piecesOf(span, until, step_s * 1_000)
    const changes = changesOf(pieces, { with_holds: false }, { ...span, is_total: by === "model" })
    const list = sql`ARRAY(SELECT json_array_elements_text(${JSON.stringify(chosen)}::text::json))`
    return transaction.execute<TimelineRow>(sql`
    SELECT coalesce(array_position(${list}, x.part::text), ${chosen.length + 1}::int) AS rank, x.step, ${countedSums}
    FROM (
      SELECT ${parts[by]} AS part, ${periodAt(starts_at)} AS step, ${sumsToAdd}
      FROM ${changes} x ${by === "model" ? sql`JOIN ${terms} t ON t.id = x.terms_id` : sql``} GROUP BY 1, 2) x
    GROUP BY 1, 2 ORDER BY 1`)
  })
  const groups = [...Map.groupBy(rows, ({ rank }) => rank)].map(([rank, of_group]) => ({
    group: chosen[rank - 1] ?? null,
    steps: stepsOfGroup(starts_at.length, of_group),
  }))
  return { step_s, starts_at, groups }
}

/** The shortest usual step that gives at most `MAX_STEPS`, and the start of each step, at whole multiples since 1970. */
export function stepsOf({ from, to }: Pick<Span, "from" | "to">): {
  step_s: number
  starts_at: readonly Date[]
} {
  const [from_s, to_s] = [from.getTime() / 1_000, to.getTime() / 1_000]
  const span = (step_s: number) => ({
    first: Math.floor(from_s / step_s),
    count: Math.ceil(to_s / step_s) - Math.floor(from_s / step_s),
  })
  const step_s = STEPS_S.find((one) => span(one).count <= MAX_STEPS) ?? 24 * HOUR_S
  const { first, count } = span(step_s)
  return {
    step_s,
    starts_at: Array.from({ length: count }, (_, at) => new Date((first + at) * step_s * 1_000)),
  }
}

function stepsOfGroup(count: number, rows: readonly TimelineRow[]): readonly CountedCalls[] {
  const by_step = new Map(rows.map((row) => [row.step, counted.read(row)]))
  return Array.from({ length: count }, (_, at) => by_step.get(at) ?? NOTHING_COUNTED)
}

/** Display names of these accounts and keys: a key's account and its name, or its first characters. A model has none. */
export async function timelineNames(
  database: PostgresJsDatabase,
  by: Split,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (by === "model" || ids.length === 0) return new Map()
  if (by === "account") {
    const found = await database
      .select({ id: accounts.id, name: accounts.name })
      .from(accounts)
      .where(inArray(accounts.id, [...ids]))
    return new Map(found.map(({ id, name }) => [id, name]))
  }
  const found = await database
    .select({ id: keys.id, name: keys.name, prefix: keys.prefix, account: accounts.name })
    .from(keys)
    .innerJoin(accounts, eq(accounts.id, keys.account_id))
    .where(inArray(keys.id, [...ids]))
  return new Map(found.map(({ id, name, prefix, account }) => [id, `${account}: ${name ?? `${prefix}…`}`]))
}
