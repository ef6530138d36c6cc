import { sql } from "drizzle-orm"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { recordOf } from "../../kinds.ts"
import { mergeRows } from "../database/row-merge.ts"
import { piecesOf, scan } from "../database/span.ts"
import { type Row, textOf, textOrNull } from "../database/statement.ts"
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

/** Calls whose tokens a provider may count in another way, or at another time. */
interface Doubtful {
  readonly calls: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
}

const doubts = ["estimated", "cut", "boundary"] as const
const prices = ["input_pico", "cached_input_pico", "output_pico"] as const

/** Calls and attempts of an operation of a model with a key of the upstream in one step (D98). */
export interface ReconciledSum
  extends Doubtful,
    Readonly<Record<(typeof doubts)[number], Doubtful>>,
    Readonly<Record<(typeof prices)[number], bigint>> {
  readonly from: Date
  readonly model: string
  readonly operation: string
  readonly upstream_key: string | null
  readonly cached_tokens: number
  readonly cost_nano: bigint
  readonly attempts: number
}

const BOUNDARY_MS = sql.raw("60000")

const sumsOfDoubts = sql.raw(
  doubts
    .map(
      (doubt) => `count(*) FILTER (WHERE x.doubt = '${doubt}')::text AS ${doubt}_calls,
    coalesce(sum(x.prompt_tokens) FILTER (WHERE x.doubt = '${doubt}'), 0)::text AS ${doubt}_prompt,
    coalesce(sum(x.completion_tokens) FILTER (WHERE x.doubt = '${doubt}'), 0)::text AS ${doubt}_completion`,
    )
    .join(", "),
)

/** Failures of calls that no upstream answered. Their attempts are entries of their own (D93). */
const UNANSWERED = sql.raw("('upstream_error', 'upstream_timeout', 'upstream_unavailable')")

const entry = (column: keyof typeof ends.$inferSelect & keyof typeof corrections.$inferSelect) =>
  sql`CASE WHEN ${c.id} IS NULL THEN ${e[column]} ELSE ${c[column]} END`

/**
 * Sums for a comparison with the provider's report, in the order of their steps. A call counts when it ended, with its final
 * tokens. The id says when it started.
 */
export async function reconciled(
  database: PostgresJsDatabase,
  { upstream, from, to, step_ms }: ReconciledRange,
): Promise<ReconciledSum[]> {
  const [first, last] = [from.toISOString(), to.toISOString()]
  const step = sql`${String(step_ms)}::bigint`
  const stepOf = (ms: ReturnType<typeof sql>) => sql`(${ms} - ${ms} % ${step})`
  const msOf = (at: ReturnType<typeof sql>) => sql`(extract(epoch FROM ${at}) * 1000)::bigint`
  const rows = await scan(database, (transaction, { archived = null }) => {
    piecesOf({ from, to }, { hours: null, days: null, archived })
    return transaction.execute<Row>(sql`
WITH call AS (
  SELECT ${msOf(sql`${e.ended_at}`)} AS ended_ms,
    ('x' || translate(left(${e.id}::text, 13), '-', ''))::bit(48)::bigint AS started_ms,
    ${t.model}, ${t.operation}, ${entry("details")} ->> 'key' AS upstream_key, ${entry("basis")} AS basis, ${entry("ending")} AS ending,
    ${entry("failure")} AS failure, ${entry("prompt_tokens")} AS prompt_tokens, ${entry("cached_tokens")} AS cached_tokens,
    ${entry("completion_tokens")} AS completion_tokens,
    CASE WHEN ${c.id} IS NULL THEN ${costOf(e, t)} ELSE ${costOf(c, t)} END AS cost_nano,
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
SELECT x.step_ms::text, x.model, x.operation, x.upstream_key, count(*) FILTER (WHERE x.is_counted)::text AS calls,
  coalesce(sum(x.prompt_tokens), 0)::text AS prompt, coalesce(sum(x.cached_tokens), 0)::text AS cached,
  coalesce(sum(x.completion_tokens), 0)::text AS completion, coalesce(sum(x.cost_nano), 0)::text AS cost_nano,
  coalesce(max(x.input_pico), 0)::text AS input_pico, coalesce(max(x.cached_input_pico), 0)::text AS cached_input_pico,
  coalesce(max(x.output_pico), 0)::text AS output_pico, sum(x.attempts)::text AS attempts, ${sumsOfDoubts}
FROM x GROUP BY x.step_ms, x.model, x.operation, x.upstream_key
ORDER BY x.step_ms, x.model, x.operation, x.upstream_key`)
  })
  return rows.map(sumOf)
}

function sumOf(row: Row): ReconciledSum {
  const number = (column: string) => Number(textOf(row, column))
  const doubtful = (doubt: (typeof doubts)[number]): Doubtful => ({
    calls: number(`${doubt}_calls`),
    prompt_tokens: number(`${doubt}_prompt`),
    completion_tokens: number(`${doubt}_completion`),
  })
  return {
    from: new Date(number("step_ms")),
    model: textOf(row, "model"),
    operation: textOf(row, "operation"),
    upstream_key: textOrNull(row, "upstream_key"),
    calls: number("calls"),
    prompt_tokens: number("prompt"),
    cached_tokens: number("cached"),
    completion_tokens: number("completion"),
    cost_nano: BigInt(textOf(row, "cost_nano")),
    ...recordOf(prices, (price) => BigInt(textOf(row, price))),
    attempts: number("attempts"),
    ...recordOf(doubts, doubtful),
  }
}

/** Adds the sums of several shards (D74). */
export function addReconciled(parts: readonly (readonly ReconciledSum[])[]): ReconciledSum[] {
  const keyOf = ({ from, model, operation, upstream_key }: ReconciledSum) =>
    JSON.stringify([from, model, operation, upstream_key])
  const sums = mergeRows(parts, keyOf, sumOfTwo)
  return sums.sort((one, other) => one.from.getTime() - other.from.getTime())
}

const higher = (one: bigint, other: bigint) => (one > other ? one : other)

function sumOfTwo(one: ReconciledSum, other: ReconciledSum): ReconciledSum {
  return {
    ...one,
    ...both(one, other),
    cached_tokens: one.cached_tokens + other.cached_tokens,
    cost_nano: one.cost_nano + other.cost_nano,
    ...recordOf(prices, (price) => higher(one[price], other[price])),
    attempts: one.attempts + other.attempts,
    ...recordOf(doubts, (doubt) => both(one[doubt], other[doubt])),
  }
}

function both(one: Doubtful, other: Doubtful): Doubtful {
  return {
    calls: one.calls + other.calls,
    prompt_tokens: one.prompt_tokens + other.prompt_tokens,
    completion_tokens: one.completion_tokens + other.completion_tokens,
  }
}
