import { sql } from "drizzle-orm"
import { recordOf } from "../../kinds.ts"
import type { Runner } from "../database/connection.ts"
import { mergeRows } from "../database/row-shape.ts"
import { allOf, type Db, jsonOf, names, statement } from "../database/statement.ts"
import type { EstimateSample } from "../entries.ts"
import { estimates } from "../schema/estimates.ts"

/** Days for which rows are kept (D92). */
export const KEPT_DAYS = 30

const counts = [
  "calls",
  "prompt_bytes",
  "prompt_tokens",
  "output_bytes",
  "output_tokens",
  "reasoning_tokens",
  "reasoning_calls",
] as const
type EstimateCount = (typeof counts)[number]

export interface EstimateSums
  extends Readonly<Record<EstimateCount, number>>,
    Pick<EstimateSample, "model" | "operation" | "bytes_per_token" | "hidden_output"> {}

type Adding = { -readonly [Name in keyof EstimateSums]: EstimateSums[Name] }

const NOTHING = recordOf(counts, () => 0)

const kept_days = sql.raw(String(KEPT_DAYS))
const today = sql.raw("(now() AT TIME ZONE 'UTC')::date")
const summed = counts.map((name) => estimates[name])
const settings = [estimates.bytes_per_token, estimates.hidden_output] as const

/** Adds to the rows of today, in a fixed order so that gateways do not deadlock. */
const write = statement(
  "estimates",
  sql`
WITH forgotten AS (
  DELETE FROM ${estimates} WHERE "day" <= ${today} - ${kept_days}
)
INSERT INTO ${estimates} AS e (${names(estimates.day, estimates.model, estimates.operation, ...summed, ...settings)})
SELECT ${today}, ${allOf("r", estimates.model, estimates.operation, ...summed, ...settings)}
FROM json_to_recordset($1::text::json) AS r (model text, operation text, ${sql.raw(counts.map((name) => `${name} bigint`).join(", "))},
  bytes_per_token float8, hidden_output int)
ORDER BY 2, 3
ON CONFLICT (day, model, operation) DO UPDATE SET
  ${sql.raw(counts.map((name) => `${name} = e.${name} + excluded.${name}`).join(", "))},
  (${names(...settings)}) = (${allOf("excluded", ...settings)})`,
)

/** This process' sums since the last write (D92), an entry for each configured model and operation. */
export class EstimateQueue {
  readonly #sums = new Map<string, Adding>()

  add(sample: EstimateSample): void {
    const sums = this.#sumsOf(sample)
    sums.calls += 1
    sums.prompt_bytes += sample.prompt_bytes
    sums.prompt_tokens += sample.prompt_tokens
    sums.output_bytes += sample.output_bytes
    sums.output_tokens += sample.output_tokens
    sums.reasoning_tokens += sample.reasoning_tokens
    if (sample.reasoning_tokens > 0) sums.reasoning_calls += 1
    sums.bytes_per_token = sample.bytes_per_token
    sums.hidden_output = sample.hidden_output
  }

  /** Writes the sums, if there are any. A failed write is not repeated, because it may have been committed. */
  async write(connection: Runner, within_ms: number): Promise<void> {
    const sums = [...this.#sums.values()]
    this.#sums.clear()
    if (sums.length > 0) await connection.run(write, [jsonOf(sums)], within_ms, sums.length)
  }

  #sumsOf({ model, operation, bytes_per_token, hidden_output }: EstimateSample): Adding {
    const name = `${operation} ${model}`
    const known = this.#sums.get(name)
    if (known !== undefined) return known
    const sums = { ...NOTHING, model, operation, bytes_per_token, hidden_output }
    this.#sums.set(name, sums)
    return sums
  }
}

interface DatedSums extends EstimateSums {
  readonly day: string
}

/** An int8 is a text. */
type EstimateRow = Omit<DatedSums, EstimateCount> & Record<EstimateCount, string>

/** Reads the sums of the last `days` days with today, of every model or of one. */
export async function readEstimates(
  database: Db,
  days: number,
  model: string | undefined,
): Promise<readonly DatedSums[]> {
  const rows = await database.execute<EstimateRow & Record<string, unknown>>(sql`
    SELECT model, operation, max(day)::text AS day, ${sql.raw(counts.map((name) => `sum(${name})::text AS ${name}`).join(", "))},
      (array_agg(bytes_per_token ORDER BY day DESC))[1] AS bytes_per_token,
      (array_agg(hidden_output ORDER BY day DESC))[1] AS hidden_output
    FROM ${estimates}
    WHERE day > ${today} - ${days}::int AND (${model ?? null}::text IS NULL OR model = ${model ?? null}::text)
    GROUP BY model, operation`)
  return rows.map((row) => ({ ...row, ...recordOf(counts, (name) => Number(row[name])) }))
}

/** Adds the sums of several shards (D74), with the latest settings; the most calls first. */
export async function addEstimates(parts: readonly (readonly DatedSums[])[]): Promise<EstimateSums[]> {
  const add = (one: DatedSums, other: DatedSums): DatedSums => ({
    ...(one.day < other.day ? other : one),
    ...recordOf(counts, (name) => one[name] + other[name]),
  })
  const merged = await mergeRows(parts, ({ model, operation }) => JSON.stringify([model, operation]), add)
  return merged.sort((left, right) => right.calls - left.calls || (left.model < right.model ? -1 : 1))
}
