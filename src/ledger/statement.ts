import { type SQL, sql } from "drizzle-orm"
import { PgDialect } from "drizzle-orm/pg-core"
import { type Period, periods } from "../wire/call.ts"

/** What a statement of the books is for: its name in metrics and logs. */
export type StatementKind =
  | "reserve"
  | "close"
  | "standing"
  | "tombstone"
  | "expire"
  | "checkpoint"
  | "last_used"
  | "lease"
  | "sweep"
  | "answers"

/** One SQL text, compiled once: Drizzle's own execution would build it anew each time, at half the throughput. */
export interface Statement {
  readonly kind: StatementKind
  readonly text: string
}

/** What goes into a statement's text, each as a text that the statement casts. */
export type Values = readonly (string | null)[]

/** A row as the driver gives it: int8 is a string. */
export type Row = Readonly<Record<string, unknown>>

const dialect = new PgDialect()

/** Values go into the text as `$1`, `$2` …; what is interpolated are tables and fragments. */
export function statement(kind: StatementKind, template: SQL): Statement {
  const { sql: text, params } = dialect.sqlToQuery(template)
  if (params.length > 0) throw new Error(`the ${kind} statement has a value in its text`)
  return { kind, text }
}

/**
 * `$1` is how long one lock may be waited for, in milliseconds. Set by the statement itself, before its first lock, and
 * only for its own transaction: a setting of the session would not survive a transaction pooler.
 */
export const patience = sql.raw(`(SELECT set_config('lock_timeout', $1, true)) IS NOT NULL`)

/**
 * Rows of `x` that the CTE `asked` names. The bounds say nothing new: they are there for the planner, which would
 * otherwise plan a scan of the whole table while it is small, and keep that plan when it is large.
 */
export const named = sql.raw(`x.id = ANY (ARRAY(SELECT q.id FROM asked q))
    AND x.id >= (SELECT q.id FROM asked q ORDER BY q.id LIMIT 1)
    AND x.id <= (SELECT q.id FROM asked q ORDER BY q.id DESC LIMIT 1)`)

/** The items of a batch as its one parameter; amounts are decimal strings in it, which int8 reads exactly. */
export function batchOf(items: readonly object[]): string {
  return JSON.stringify(items, (_, value) => (typeof value === "bigint" ? value.toString() : value))
}

/** A text column that is not null. */
export function textOf(row: Row, column: string): string {
  const value = row[column]
  if (typeof value !== "string") throw new Error(`${column} is not a text`)
  return value
}

/** An int8 column that is not null. */
export function nanoOf(row: Row, column: string): bigint {
  const value = textOf(row, column)
  if (!/^-?\d{1,19}$/.test(value)) throw new Error(`${column} is not an int8`)
  return BigInt(value)
}

/** A column with the period of a spending limit. */
export function periodOf(row: Row, column: string): Period {
  const value = row[column]
  if (!isPeriod(value)) throw new Error(`${column} is not a period`)
  return value
}

export function isPeriod(value: unknown): value is Period {
  return periods.some((period) => period === value)
}

/** A boolean column that is not null. */
export function booleanOf(row: Row, column: string): boolean {
  const value = row[column]
  if (typeof value !== "boolean") throw new Error(`${column} is not a boolean`)
  return value
}
