import { eq, inArray, sql } from "drizzle-orm"
import type { Split } from "../../wire/statistics.ts"
import { int, type RowOf, RowShape } from "../database/row-shape.ts"
import { periodAt, piecesOf, type Span, scan } from "../database/span.ts"
import type { Db, Row } from "../database/statement.ts"
import { accounts, keys, terms } from "../schema/tables.ts"
import { changesOf } from "./changes.ts"
import { countedColumns, countedSums, NOTHING_COUNTED, sumsToAdd } from "./counted.ts"
import { groupNames } from "./usage-sums.ts"

export type Timeline = Awaited<ReturnType<typeof timelineOf>> & { readonly left_out: number }

const DAY_S = 86_400
const STEPS_S = [1, 5, 15, 60, 180, 360, 720].map((minutes) => minutes * 60)
const MAX_STEPS = 97

const parts = {
  model: sql`t.model`,
  key: sql`x.key_id`,
  account: sql`x.account_id`,
} as const

/** The calls of a group in a step. `rank`: from 1 on; for the rest, the number after the last. */
const cells = new RowShape({ rank: int, step: int, ...countedColumns })

type TimelineCell = RowOf<typeof cells>

/** The calls of a span in steps of time, split by model, key or account: these groups, and the rest together. */
export async function timelineCells(
  database: Db,
  span: Span,
  by: Split,
  chosen: readonly string[],
): Promise<readonly TimelineCell[]> {
  const { step_s, starts_at } = stepsOf(span)
  const rows = await scan(database, (transaction, until) => {
    const pieces = piecesOf(span, until, step_s * 1_000)
    const changes = changesOf(pieces, { with_holds: false }, { ...span, is_total: by === "model" })
    const list = sql`ARRAY(SELECT json_array_elements_text(${JSON.stringify(chosen)}::text::json))`
    return transaction.execute<Row>(sql`
    SELECT coalesce(array_position(${list}, x.part::text), ${chosen.length + 1}::int) AS rank, x.step, ${countedSums}
    FROM (
      SELECT ${parts[by]} AS part, ${periodAt(starts_at)} AS step, ${sumsToAdd}
      FROM ${changes} x ${by === "model" ? sql`JOIN ${terms} t ON t.id = x.terms_id` : sql``} GROUP BY 1, 2) x
    GROUP BY 1, 2 ORDER BY 1, 2`)
  })
  return rows.map((row) => cells.read(row))
}

/**
 * The timeline of several shards (D74). A group is a model's name or the id of a key or account, the highest charge first; null for all
 * groups beyond those shown, which comes last. It has sums for each step.
 */
export async function timelineOf(
  span: Span,
  chosen: readonly string[],
  shards: readonly (readonly TimelineCell[])[],
  names: ReadonlyMap<string, string>,
) {
  const { step_s, starts_at } = stepsOf(span)
  const by_rank = Map.groupBy(await cells.merge(shards), ({ rank }) => rank)
  const groups = [...chosen, null].flatMap((group, at) => {
    const found = by_rank.get(at + 1)
    const by_step = new Map(found?.map((cell) => [cell.step, cell]))
    const steps = starts_at.map((_, step) => by_step.get(step) ?? NOTHING_COUNTED)
    return found === undefined ? [] : [{ group, name: names.get(group ?? "") ?? null, steps }]
  })
  return { step_s, starts_at, groups }
}

/** The shortest usual step that gives at most `MAX_STEPS`, and the start of each step, at whole multiples since 1970. */
export function stepsOf({ from, to }: Pick<Span, "from" | "to">) {
  const [from_s, to_s] = [from.getTime() / 1_000, to.getTime() / 1_000]
  const span = (step_s: number) => ({
    first: Math.floor(from_s / step_s),
    count: Math.ceil(to_s / step_s) - Math.floor(from_s / step_s),
  })
  const step_s = STEPS_S.find((one) => span(one).count <= MAX_STEPS) ?? DAY_S
  const { first, count } = span(step_s)
  return {
    step_s,
    starts_at: Array.from({ length: count }, (_, at) => new Date((first + at) * step_s * 1_000)),
  }
}

/** Display names of these accounts and keys: a key's account and its name, or its first characters. A model has none. */
export async function timelineNames(
  database: Db,
  by: Split,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (by !== "key") return groupNames(database, by, ids)
  const found = await database
    .select({ id: keys.id, name: keys.name, prefix: keys.prefix, account: accounts.name })
    .from(keys)
    .innerJoin(accounts, eq(accounts.id, keys.account_id))
    .where(inArray(keys.id, [...ids]))
  return new Map(found.map(({ id, name, prefix, account }) => [id, `${account}: ${name ?? `${prefix}…`}`]))
}
