import { sql } from "drizzle-orm"
import { recordOf } from "../../kinds.ts"
import { mapInTurns } from "../../turns.ts"
import { compared } from "../database/page.ts"
import {
  amount,
  count,
  group,
  highest,
  optionalText,
  type RowOf,
  RowShape,
  text,
  time,
} from "../database/row-shape.ts"
import { piecesOf, scan } from "../database/span.ts"
import type { Db } from "../database/statement.ts"
import { inPages } from "../database/transaction.ts"
import { costOf, listTermsOf } from "../money/charge.ts"
import { c, e, t } from "../schema/aliases.ts"
import { attempts } from "../schema/attempts.ts"
import { corrections, ends, holds, terms } from "../schema/tables.ts"

/** The calls of an upstream in a range, in steps of `step_ms` since 1970. */
export interface ReconciledRange {
  readonly upstream: string
  readonly from: Date
  readonly to: Date
  readonly step_ms: number
}

const doubts = ["estimated", "cut", "boundary"] as const

const tokens = { calls: count, prompt_tokens: count, completion_tokens: count }

/** Calls and attempts of an operation of a model with a key of the upstream in one step (D98). */
export const reconciledSums = new RowShape(
  {
    from: time,
    model: text,
    operation: text,
    upstream_key: optionalText,
    ...tokens,
    cached_tokens: count,
    cost_nano: amount,
    input_pico: highest,
    cached_input_pico: highest,
    output_pico: highest,
    attempts: count,
    /** Calls whose tokens a provider may count in another way, or at another time. */
    ...recordOf(doubts, () => group(tokens)),
  },
  inOrder,
)

interface SummedPlace {
  readonly from: Date
  readonly model: string
  readonly operation: string
  readonly upstream_key: string | null
}

/** The order of one shard, whose last are calls without a key's name. */
function inOrder(one: SummedPlace, other: SummedPlace): number {
  return (
    one.from.getTime() - other.from.getTime() ||
    compared(one.model, other.model) ||
    compared(one.operation, other.operation) ||
    Number(one.upstream_key === null) - Number(other.upstream_key === null) ||
    compared(one.upstream_key ?? "", other.upstream_key ?? "")
  )
}

export type ReconciledSum = RowOf<typeof reconciledSums>

const BOUNDARY_MS = sql.raw("60000")

const sumsOfDoubts = sql.raw(
  doubts
    .map(
      (doubt) => `count(*) FILTER (WHERE x.doubt = '${doubt}')::text AS ${doubt}_calls,
    coalesce(sum(x.prompt_tokens) FILTER (WHERE x.doubt = '${doubt}'), 0)::text AS ${doubt}_prompt_tokens,
    coalesce(sum(x.completion_tokens) FILTER (WHERE x.doubt = '${doubt}'), 0)::text AS ${doubt}_completion_tokens`,
    )
    .join(", "),
)

/** Failures of calls that no upstream answered. Their attempts are entries of their own (D93). */
const UNANSWERED = sql.raw("('upstream_error', 'upstream_timeout', 'upstream_unavailable')")

const entry = (column: keyof typeof ends.$inferSelect & keyof typeof corrections.$inferSelect) =>
  sql`CASE WHEN ${c.id} IS NULL THEN ${e[column]} ELSE ${c[column]} END`

/** Sums in steps of time, in their order. A call counts when it ended, with its final tokens. */
export async function reconciled(
  database: Db,
  { upstream, from, to, step_ms }: ReconciledRange,
): Promise<ReconciledSum[]> {
  const [first, last] = [from.toISOString(), to.toISOString()]
  const step = sql`${String(step_ms)}::bigint`
  const stepOf = (ms: ReturnType<typeof sql>) => sql`(${ms} - ${ms} % ${step})`
  const msOf = (at: ReturnType<typeof sql>) => sql`(extract(epoch FROM ${at}) * 1000)::bigint`
  return scan(database, async (transaction, { archived = null }) => {
    piecesOf({ from, to }, { hours: null, days: null, archived })
    const found: ReconciledSum[] = []
    const query = sql`
WITH call AS (
  SELECT ${msOf(sql`${e.ended_at}`)} AS ended_ms,
    ('x' || translate(left(${e.id}::text, 13), '-', ''))::bit(48)::bigint AS started_ms,
    ${t.model}, ${t.operation}, ${entry("details")} ->> 'key' AS upstream_key, ${entry("basis")} AS basis, ${entry("ending")} AS ending,
    ${entry("failure")} AS failure, ${entry("prompt_tokens")} AS prompt_tokens, ${entry("cached_tokens")} AS cached_tokens,
    ${entry("completion_tokens")} AS completion_tokens,
    CASE WHEN ${c.id} IS NULL THEN ${costOf(e)} ELSE ${costOf(c)} END AS cost_nano,
    ${t.input_pico}, ${t.cached_input_pico}, ${t.output_pico}, ${c.id} IS NOT NULL OR ${e.outcome} = 'settled' AS is_settled
  FROM ${ends} ${e} LEFT JOIN ${corrections} ${c} ON ${c.id} = ${e.id}
    JOIN ${terms} ${t} ON ${t.id} = ${listTermsOf(sql`coalesce(${c.terms_id}, ${e.terms_id})`)}
  WHERE ${e.ended_at} >= ${first}::timestamptz AND ${e.ended_at} < ${last}::timestamptz AND ${t.upstream} = ${upstream}::text
), x AS (
  SELECT ${stepOf(sql`k.ended_ms`)} AS step_ms, k.model, k.operation, k.upstream_key, k.is_counted, k.prompt_tokens, k.cached_tokens,
    k.completion_tokens, k.cost_nano, k.input_pico, k.cached_input_pico, k.output_pico, 0 AS attempts,
    CASE WHEN k.basis IN ('partial', 'estimate') THEN 'estimated'
      WHEN NOT k.is_counted OR k.ending IS DISTINCT FROM 'completed' THEN 'cut'
      WHEN ${stepOf(sql`(k.started_ms - ${BOUNDARY_MS})`)} <> ${stepOf(sql`(k.ended_ms + ${BOUNDARY_MS})`)} THEN 'boundary'
    END AS doubt
  FROM (SELECT call.*, call.is_settled OR call.prompt_tokens IS NOT NULL AS is_counted FROM call) k
  WHERE k.is_counted OR (k.failure IN ${UNANSWERED}) IS NOT TRUE
  UNION ALL
  SELECT ${stepOf(msOf(sql`a.ended_at`))}, sold.model, sold.operation, a.upstream_key, false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL
  FROM ${attempts} a CROSS JOIN LATERAL (
    SELECT t.model, t.operation FROM ${holds} h JOIN ${terms} t ON t.id = h.terms_id WHERE h.id = a.id OFFSET 0) sold
  WHERE a.ended_at >= ${first}::timestamptz AND a.ended_at < ${last}::timestamptz AND a.upstream = ${upstream}::text
)
SELECT x.step_ms::text AS "from", x.model, x.operation, x.upstream_key, count(*) FILTER (WHERE x.is_counted)::text AS calls,
  coalesce(sum(x.prompt_tokens), 0)::text AS prompt_tokens, coalesce(sum(x.cached_tokens), 0)::text AS cached_tokens,
  coalesce(sum(x.completion_tokens), 0)::text AS completion_tokens, coalesce(sum(x.cost_nano), 0)::text AS cost_nano,
  coalesce(max(x.input_pico), 0)::text AS input_pico, coalesce(max(x.cached_input_pico), 0)::text AS cached_input_pico,
  coalesce(max(x.output_pico), 0)::text AS output_pico, sum(x.attempts)::text AS attempts, ${sumsOfDoubts}
FROM x GROUP BY x.step_ms, x.model, x.operation, x.upstream_key
ORDER BY x.step_ms, x.model COLLATE "C", x.operation COLLATE "C", x.upstream_key COLLATE "C"`
    for await (const rows of inPages(transaction, query))
      found.push(...(await mapInTurns(rows, (row) => reconciledSums.read(row))))
    return found
  })
}
