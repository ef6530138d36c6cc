import { type SQL, sql } from "drizzle-orm"
import { alias, type PgColumn } from "drizzle-orm/pg-core"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import { buckets } from "../../money.ts"
import { of } from "../database/statement.ts"
import { costOf } from "../journal/charge.ts"
import { corrections, ends, terms } from "../schema.ts"

/**
 * Which entries a report reads: those made from `from` on and before `to`, by the ledger's clock (D48). So spans that meet
 * share no entry and lose none, and a span that is over does not change: what comes later belongs to a later one.
 */
export interface Span {
  readonly from: Date
  readonly to: Date
  readonly account_ids?: readonly string[] | undefined
  readonly key_id?: string | undefined
  readonly model?: string | undefined
}

/** How long one report may keep the database busy. */
const STATEMENT_MS = 8_000

const e = alias(ends, "e")
const c = alias(corrections, "c")
const t = alias(terms, "t")

/** Runs a query that may read much of the journal: on one core at most, so that calls keep the others, and not for long. */
export function scan<Answer>(
  database: PostgresJsDatabase,
  ask: (transaction: Pick<PostgresJsDatabase, "execute">) => Promise<Answer>,
): Promise<Answer> {
  return database.transaction(async (transaction) => {
    await transaction.execute(sql`SELECT set_config('max_parallel_workers_per_gather', '0', true),
      set_config('statement_timeout', ${String(STATEMENT_MS)}, true)`)
    return await ask(transaction)
  })
}

/** The ends of a span, as `e`: a condition. */
export function endedWithin(span: Span): SQL {
  return within(span, "e", ends, sql`${e.ended_at}`)
}

/**
 * What the entries of a span charge: a relation with `at`, `account_id`, `key_id`, `terms_id`, `calls`, `charge_nano`,
 * `cost_nano` (the charge without its margin), `overage_nano`, the tokens and what was counted of each bucket. A correction is no call; it adds the difference to what was charged and used before,
 * which may be negative.
 */
export function chargesWithin(span: Span): SQL {
  const difference = (column: "prompt_tokens" | "cached_tokens" | "completion_tokens") =>
    sql`coalesce(${c[column]}, 0) - coalesce(${e[column]}, 0)`
  return sql`(
    SELECT ${e.ended_at} AS at, ${e.account_id}, ${e.key_id}, ${e.terms_id}, 1 AS calls, ${e.charge_nano},
      ${costNano(e)} AS cost_nano,
      greatest(${e.charge_nano} - ${e.freed_nano}, 0) AS overage_nano,
      coalesce(${e.prompt_tokens}, 0) AS prompt_tokens, coalesce(${e.cached_tokens}, 0) AS cached_tokens,
      coalesce(${e.completion_tokens}, 0) AS completion_tokens, ${bucketsNow}
    FROM ${ends} ${e} WHERE ${endedWithin(span)}
    UNION ALL
    SELECT ${c.corrected_at}, ${c.account_id}, ${c.key_id}, ${c.terms_id}, 0, ${c.difference_nano},
      ${costNano(c)} - ${costNano(e)},
      greatest(${c.charge_nano} - ${e.freed_nano}, 0) - greatest(${e.charge_nano} - ${e.freed_nano}, 0),
      ${difference("prompt_tokens")}, ${difference("cached_tokens")}, ${difference("completion_tokens")}, ${bucketsMore}
    FROM ${corrections} ${c} JOIN ${ends} ${e} ON ${e.id} = ${c.id}
    WHERE ${within(span, "c", corrections, sql`${c.corrected_at}`)}
  )`
}

const countAt = (entry: typeof e | typeof c, at: number) =>
  sql`(${entry.buckets})[${sql.raw(String(at + 1))}]`
const bucketsNow = sql.join(
  buckets.map((bucket, at) => sql`${countAt(e, at)} AS ${sql.raw(bucket)}`),
  sql`, `,
)
const bucketsMore = sql.join(
  buckets.map((_, at) => sql`coalesce(${countAt(c, at)}, 0) - coalesce(${countAt(e, at)}, 0)`),
  sql`, `,
)

/** Without a margin, what was charged is what it cost. */
function costNano(entry: typeof e | typeof c): SQL {
  return sql`CASE WHEN ${entry.margin_bp} IS NULL THEN ${entry.charge_nano} ELSE
    (SELECT ${costOf(entry, t)} FROM ${terms} ${t} WHERE ${t.id} = ${entry.terms_id}) END`
}

/** In which of the periods that begin at `starts` the moment `at` lies: 0 for the first one and what is before it. */
export function periodAt(starts: readonly Date[]): SQL {
  const later = starts.slice(1).map((start) => start.toISOString())
  return sql`width_bucket(at, ${`{${later.join(",")}}`}::timestamptz[])`
}

/** The terms of a model. */
export function termsOf(model: string): SQL {
  return sql`(SELECT ${t.id} FROM ${terms} ${t} WHERE ${t.model} = ${model}::text)`
}

type Entries = Readonly<Record<"account_id" | "key_id" | "terms_id", PgColumn>>

function within(span: Span, name: string, { account_id, key_id, terms_id }: Entries, at: SQL): SQL {
  const conditions = [
    sql`${at} >= ${span.from.toISOString()}::timestamptz AND ${at} < ${span.to.toISOString()}::timestamptz`,
  ]
  if (span.account_ids !== undefined)
    conditions.push(sql`${of(name, account_id)} = ANY (${`{${span.account_ids.join(",")}}`}::uuid[])`)
  if (span.key_id !== undefined) conditions.push(sql`${of(name, key_id)} = ${span.key_id}::uuid`)
  if (span.model !== undefined) conditions.push(sql`${of(name, terms_id)} IN ${termsOf(span.model)}`)
  return sql.join(conditions, sql` AND `)
}
