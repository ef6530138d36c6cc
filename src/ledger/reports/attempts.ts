import { asc, inArray, sql } from "drizzle-orm"
import { type AttemptFailure, attemptFailures, type LostAttempt } from "../../wire/call.ts"
import { count, latest, optionalText, type RowOf, RowShape, text } from "../database/row-shape.ts"
import type { FilteredTime } from "../database/span.ts"
import { type Db, instant, type Row, textOf } from "../database/statement.ts"
import type { EndDetails } from "../entries.ts"
import { attempts } from "../schema/attempts.ts"
import { holds, terms } from "../schema/tables.ts"

const MAX_ROWS = 1_000

interface AttemptedCall {
  readonly id: string
  readonly details: EndDetails | null
}

/** Adds the attempts that did not become the answer: entries (D93), and of older calls in the end's details. */
export async function withAttempts<Found extends AttemptedCall>(
  database: Db,
  found: readonly Found[],
): Promise<(Found & { readonly attempts: readonly LostAttempt[] })[]> {
  const ids = found.map(({ id }) => id).sort()
  const [first] = ids
  if (first === undefined) return []
  const rows = await database
    .select()
    .from(attempts)
    .where(
      sql`${inArray(attempts.id, ids)} AND ${attempts.id} BETWEEN ${first}::uuid AND ${ids.at(-1)}::uuid`,
    )
    .orderBy(asc(attempts.ordinal))
  const of_call = Map.groupBy(rows, ({ id }) => id)
  return found.map((call) => ({
    ...call,
    attempts: [...(call.details?.attempts ?? []), ...(of_call.get(call.id) ?? []).map(lostAttempt)],
  }))
}

function lostAttempt(row: typeof attempts.$inferSelect): LostAttempt {
  const failure = failureOf(row.failure)
  return {
    upstream: row.upstream,
    ms: row.duration_ms,
    ...(row.status !== null && { status: row.status }),
    ...(failure !== null && { failure }),
    ...(row.upstream_key !== null && { key: row.upstream_key }),
    ...(row.request_id !== null && { request_id: row.request_id }),
  }
}

export function failureOf(text: unknown): AttemptFailure | null {
  return attemptFailures.find((word) => word === text) ?? null
}

export const attemptSums = new RowShape(
  {
    upstream: text,
    upstream_key: optionalText,
    model: text,
    status: { read: (row, name) => (row[name] === null ? null : Number(textOf(row, name))) },
    failure: { read: (row, name) => failureOf(row[name]) },
    attempts: count,
    last_at: latest,
  },
  (one, other) => other.attempts - one.attempts,
  MAX_ROWS,
)

/** The attempts that ended from `from` on and before `to`, most first. */
export async function sumAttempts(
  database: Db,
  { from, to, account_id, upstream, model }: FilteredTime<"account_id" | "upstream" | "model">,
): Promise<RowOf<typeof attemptSums>[]> {
  const rows = await database.execute<Row>(sql`
WITH x AS (
  SELECT a.upstream, a.upstream_key, a.status, a.failure, a.ended_at, sold.model FROM ${attempts} a
  CROSS JOIN LATERAL (
    SELECT t.model FROM ${holds} h JOIN ${terms} t ON t.id = h.terms_id WHERE h.id = a.id OFFSET 0) sold
  WHERE a.ended_at >= ${instant(from)} AND a.ended_at < ${instant(to)}
    AND (${account_id ?? null}::uuid IS NULL OR a.account_id = ${account_id ?? null}::uuid)
    AND (${upstream ?? null}::text IS NULL OR a.upstream = ${upstream ?? null}::text)
)
SELECT x.upstream, x.upstream_key, x.model, x.status::text, x.failure, count(*)::text AS attempts,
  (extract(epoch FROM max(x.ended_at)) * 1000)::bigint::text AS last_at
FROM x WHERE ${model ?? null}::text IS NULL OR x.model = ${model ?? null}::text
GROUP BY 1, 2, 3, 4, 5 ORDER BY count(*) DESC, max(x.ended_at) DESC LIMIT ${sql.raw(String(MAX_ROWS))}`)
  return rows.map((row) => attemptSums.read(row))
}
