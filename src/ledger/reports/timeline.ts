import { eq, inArray, type SQL, sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import type { Split } from "../../wire/statistics.ts"
import { periodAt, piecesOf, type Span, type SummedUntil, scan } from "../database/span.ts"
import { accounts, keys, terms } from "../schema/tables.ts"
import { changesOf } from "./changes.ts"
import { type CountedCalls, type CountedRow, countedIn, NOTHING_COUNTED } from "./counted.ts"

export interface SummedGroup {
  /** A model's name, the id of a key or account; null for all groups beyond those shown. */
  readonly group: string | null
  readonly name: string | null
  /** One for each of the timeline's steps. */
  readonly steps: readonly CountedCalls[]
}

export interface Timeline {
  readonly step_s: number
  readonly starts_at: readonly Date[]
  /** By the charge, the highest first; the rest last. */
  readonly groups: readonly SummedGroup[]
  readonly left_out: number
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

interface TimelineRow extends Record<string, unknown>, CountedRow {
  readonly part: string | null
  readonly rank: string
  readonly parts: string
  readonly step: number
}

/**
 * The calls of a span in steps of time, split by model, key or account: the `groups` that cost most, or these groups, and
 * the rest together.
 */
export async function timeline(
  database: PostgresJsDatabase,
  span: Span,
  by: Split,
  groups: number | readonly string[],
): Promise<Timeline> {
  const { step_s, starts_at } = stepsOf(span)
  const rows = await scan(database, (transaction, until) =>
    transaction.execute<TimelineRow>(sums(span, by, groups, { step_s, starts_at }, until)),
  )
  const by_part = Map.groupBy(rows, ({ part }) => part)
  const names = await timelineNames(
    database,
    by,
    [...by_part.keys()].filter((part) => part !== null),
  )
  return {
    step_s,
    starts_at,
    groups: [...by_part].map(([group, of_group]) => ({
      group,
      name: group === null ? null : (names.get(group) ?? null),
      steps: stepsOfGroup(starts_at.length, of_group),
    })),
    left_out: Math.max(0, Number(rows[0]?.parts ?? 0) - countOf(groups)),
  }
}

function sums(
  span: Span,
  by: Split,
  groups: number | readonly string[],
  { step_s, starts_at }: Pick<Timeline, "step_s" | "starts_at">,
  until: SummedUntil,
): SQL {
  const pieces = piecesOf(span, until, step_s * 1_000)
  const changes = changesOf(pieces, { with_holds: false }, { ...span, is_total: by === "model" })
  const most = countOf(groups)
  return sql`
    WITH sums AS MATERIALIZED (
      SELECT ${parts[by]} AS part, ${periodAt(starts_at)} AS step, sum(x.calls) AS calls, sum(x.charge_nano) AS charge,
        sum(x.prompt_tokens) AS prompt_tokens, sum(x.cached_tokens) AS cached_tokens, sum(x.completion_tokens) AS completion_tokens
      FROM ${changes} x ${by === "model" ? sql`JOIN ${terms} t ON t.id = x.terms_id` : sql``} GROUP BY 1, 2
    ), part AS MATERIALIZED (
      SELECT part, ${rankIn(groups)} AS rank,
        count(*) OVER () AS parts
      FROM sums GROUP BY part
    )
    SELECT CASE WHEN rank <= ${most} THEN part::text END AS part, least(rank, ${most + 1}) AS rank, min(parts) AS parts,
      step, sum(calls) AS calls, sum(charge)::text AS charge, sum(prompt_tokens) AS prompt_tokens,
      sum(cached_tokens) AS cached_tokens, sum(completion_tokens) AS completion_tokens
    FROM sums JOIN part USING (part) GROUP BY 1, 2, step ORDER BY 2`
}

function countOf(groups: number | readonly string[]): number {
  return typeof groups === "number" ? groups : groups.length
}

/** Rank of a group among those that are shown; all others rank after them. */
function rankIn(groups: number | readonly string[]): SQL {
  if (typeof groups === "number")
    return sql`row_number() OVER (ORDER BY sum(charge) DESC, sum(calls) DESC, part)`
  const chosen = sql`ARRAY(SELECT json_array_elements_text(${JSON.stringify(groups)}::text::json))`
  return sql`coalesce(array_position(${chosen}, part::text), ${groups.length + 1}::int)`
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
  const by_step = new Map(rows.map((row) => [row.step, countedIn(row)]))
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
