import { sql } from "drizzle-orm"
import { recordOf } from "../../kinds.ts"
import { usageNotes } from "../../wire/call.ts"
import { count, group, type RowOf, RowShape, text } from "../database/row-shape.ts"
import { type Db, type Row, textOf } from "../database/statement.ts"
import { par } from "../money/charge.ts"
import { e, t } from "../schema/aliases.ts"
import { ends, terms } from "../schema/tables.ts"

const MAX_MODELS = 100
const MAX_NAMES = 20

/** Calls of a model at an upstream with such a note, or with a charge below the provider's own cost (D90). */
export const notedSums = new RowShape(
  {
    model: text,
    upstream: text,
    calls: count,
    notes: group(recordOf(usageNotes, () => count)),
    below_cost_calls: count,
    unread: {
      read: (row, name) => namesOf(JSON.parse(textOf(row, name))),
      add: (one: readonly string[], other: readonly string[]) =>
        [...new Set([...one, ...other])].slice(0, MAX_NAMES),
    },
  },
  (one, other) => other.calls - one.calls,
)

const noted = sql.raw(`ARRAY[${usageNotes.map((note) => `'${note}'`).join(", ")}]`)
/** At a price multiplier of 1. */
const is_below_cost = sql`coalesce((${e.details} ->> 'provider_cost_nano')::numeric * coalesce(${e.price_multiplier_bp}, ${par})
  > ${e.charge_nano}::numeric * ${par}, false)`
const noteCounts = sql.raw(
  usageNotes
    .map((note) => `(count(*) FILTER (WHERE '${note}' = ANY (x.notes)))::text AS notes_${note}`)
    .join(", "),
)

/** Notes of calls that ended in the last `days` of 24 hours, most calls first. */
export async function notedUsage(database: Db, days: number): Promise<RowOf<typeof notedSums>[]> {
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
  return rows.map((row) => notedSums.read(row))
}

function namesOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((name) => typeof name === "string") : []
}
