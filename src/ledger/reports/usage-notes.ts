import { sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { recordOf } from "../../kinds.ts"
import { type UsageNote, usageNotes } from "../../wire/call.ts"
import { mergeRows } from "../database/row-merge.ts"
import { type Row, textOf } from "../database/statement.ts"
import { par } from "../money/multiplier.ts"
import { e, t } from "../schema/aliases.ts"
import { ends, terms } from "../schema/tables.ts"

/** Calls of a model at an upstream with such a note, or with a charge below the provider's own cost (D90). */
interface NotedUsage {
  readonly model: string
  readonly upstream: string
  readonly calls: number
  readonly notes: Readonly<Record<UsageNote, number>>
  readonly below_cost_calls: number
  readonly unread: readonly string[]
}

const MAX_MODELS = 100
const MAX_NAMES = 20

const noted = sql.raw(`ARRAY[${usageNotes.map((note) => `'${note}'`).join(", ")}]`)
/** At a price multiplier of 1. */
const is_below_cost = sql`coalesce((${e.details} ->> 'provider_cost_nano')::numeric * coalesce(${e.price_multiplier_bp}, ${par})
  > ${e.charge_nano}::numeric * ${par}, false)`
const noteCounts = sql.raw(
  usageNotes.map((note) => `(count(*) FILTER (WHERE '${note}' = ANY (x.notes)))::text AS ${note}`).join(", "),
)

/** Notes of calls that ended in the last `days` of 24 hours, most calls first. */
export async function notedUsage(database: PostgresJsDatabase, days: number): Promise<NotedUsage[]> {
  const rows = await database.execute<Row>(sql`
WITH x AS (
  SELECT ${t.model}, ${t.upstream}, ${e.notes}, ${e.details}, ${is_below_cost} AS is_below_cost
  FROM ${ends} ${e} JOIN ${terms} ${t} ON ${t.id} = ${e.terms_id}
  WHERE ${e.ended_at} >= now() - ${String(days)}::int * interval '1 day' AND (${e.notes} && ${noted} OR ${is_below_cost})
)
SELECT x.model, x.upstream, count(*)::text AS calls, ${noteCounts},
  (count(*) FILTER (WHERE x.is_below_cost))::text AS below_cost_calls,
  (SELECT coalesce(json_agg(u.name), '[]')::text FROM (
    SELECT DISTINCT n.name FROM x y CROSS JOIN LATERAL jsonb_array_elements_text(y.details -> 'unread') AS n (name)
    WHERE y.model = x.model AND y.upstream = x.upstream ORDER BY n.name LIMIT ${sql.raw(String(MAX_NAMES))}) u) AS unread
FROM x GROUP BY x.model, x.upstream ORDER BY count(*) DESC, x.model, x.upstream LIMIT ${sql.raw(String(MAX_MODELS))}`)
  return rows.map((row) => ({
    model: textOf(row, "model"),
    upstream: textOf(row, "upstream"),
    calls: Number(textOf(row, "calls")),
    notes: recordOf(usageNotes, (note) => Number(textOf(row, note))),
    below_cost_calls: Number(textOf(row, "below_cost_calls")),
    unread: namesOf(JSON.parse(textOf(row, "unread"))),
  }))
}

function namesOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((name) => typeof name === "string") : []
}

/** Adds the notes of several shards (D74). */
export function addNotedUsage(parts: readonly (readonly NotedUsage[])[]): NotedUsage[] {
  const add = (one: NotedUsage, other: NotedUsage): NotedUsage => ({
    ...one,
    calls: one.calls + other.calls,
    notes: recordOf(usageNotes, (note) => one.notes[note] + other.notes[note]),
    below_cost_calls: one.below_cost_calls + other.below_cost_calls,
    unread: [...new Set([...one.unread, ...other.unread])].slice(0, MAX_NAMES),
  })
  const rows = mergeRows(parts, ({ model, upstream }) => JSON.stringify([model, upstream]), add)
  return rows.sort((one, other) => other.calls - one.calls)
}
