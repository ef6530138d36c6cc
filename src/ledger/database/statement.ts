import { type SQL, sql } from "drizzle-orm"
import { type PgColumn, PgDialect, PgEnumColumn } from "drizzle-orm/pg-core"
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js"
import type { StatementKind } from "../events.ts"

/** One SQL text, built once by drizzle from the schema, and run without drizzle, which would build it again for each call. */
export interface Statement {
  readonly kind: StatementKind
  readonly text: string
  /** True for a statement that does only what fits. If its assertion fails, the exact statement is used. */
  readonly is_lean: boolean
}

/** A statement's parameters, as texts that the statement casts. */
export type StatementValues = readonly (string | null)[]

/** A row of the driver; int8 is a string. */
export type Row = Readonly<Record<string, unknown>>

const dialect = new PgDialect()

/** Compiles a statement. Parameters are `$1`, `$2` …; only tables, columns and fragments are interpolated. */
export function statement(kind: StatementKind, template: SQL, is_lean = false): Statement {
  const { sql: text, params } = dialect.sqlToQuery(template)
  if (params.length > 0) throw new Error(`the ${kind} statement has a value in its text`)
  return { kind, text, is_lean }
}

/** Sets the lock timeout to `$1` ms in each transaction, because a pooler loses a session's setting. */
export const lockTimeout = sql.raw(`(SELECT set_config('lock_timeout', $1, true)) IS NOT NULL`)

/** The bare names of columns: for the column list of an INSERT, or of a CTE. */
export function names(...columns: readonly PgColumn[]): SQL {
  return sql.join(columns.map(nameOf), sql.raw(", "))
}

export const instant = (at: Date): SQL => sql`${at.toISOString()}::timestamptz`

/** A column of the relation `alias` in a statement, by the name that it has in its table. */
export function of(alias: string, column: PgColumn): SQL {
  return sql`${sql.raw(alias)}.${nameOf(column)}`
}

export function allOf(alias: string, ...columns: readonly PgColumn[]): SQL {
  return sql.join(
    columns.map((column) => of(alias, column)),
    sql.raw(", "),
  )
}

function nameOf({ name }: PgColumn): SQL {
  return sql.raw(`"${name}"`)
}

function typeOf(column: PgColumn): string {
  if (column instanceof PgEnumColumn) {
    const { schema, enumName } = column.enum
    return schema === undefined ? `"${enumName}"` : `"${schema}"."${enumName}"`
  }
  return column.getSQLType()
}

/** Hides a value's length from the planner, which would otherwise plan a batch statement anew each time. */
export function hidden(value: string): SQL {
  return sql.raw(`(SELECT ${value})`)
}

/**
 * A value that the planner cannot compute, but that is known when the statement starts, because `now()` is stable. A kept plan
 * then skips the partitions outside of such a bound before it opens them. Cheaper for each row than `concat`.
 */
export function atStart(value: string): SQL {
  return sql.raw(`CASE WHEN now() IS NOT NULL THEN ${value} END`)
}

/**
 * True if `id` is the id of `item`, of a batch. The parameters `$first` and `$first + 1` are what `firstAndLast` returns; only
 * the months between them are opened. The id is compared with an array, so that the server does not also prune partitions for
 * each row: PostgreSQL 18.4 crashes, or misses rows, if a statement prunes them both at its start and for each row, and another
 * transaction changes a row that the statement waits for.
 */
export function isItem(id: PgColumn, item: SQL, first: number): SQL {
  const [from, to] = [atStart(`$${first}::uuid`), atStart(`$${first + 1}::uuid`)]
  return sql`${id} = ANY (array_append(NULL::uuid[], ${item})) AND ${id} BETWEEN ${from} AND ${to}`
}

/** The first and the last id of a batch: UUIDs sort as their texts do. */
export function firstAndLast(items: readonly { readonly id: string }[]): [first: string, last: string] {
  let first = items[0]?.id ?? ""
  let last = first
  for (const { id } of items) {
    if (id < first) first = id
    if (id > last) last = id
  }
  return [first, last]
}

type ColumnValue = string | number | bigint | boolean | null

/** One column of a batch: its schema column, its value for an item, and its type if it is read as another one. */
export type ArrayColumn<Item> = readonly [column: PgColumn, read: (item: Item) => ColumnValue, type?: string]

/** A batch as one array for each column, from the parameter `$first` on. `unnest` costs the server less CPU than JSON. */
export class Batch<Item> {
  readonly #fields: readonly ArrayColumn<Item>[]
  readonly columns: readonly PgColumn[]
  /** As a relation `x` whose columns are named as in the schema. */
  readonly relation: SQL
  /** The same for a kept plan (see `hidden`), as columns, because the server copies results of functions. */
  readonly kept: SQL
  /** Like `kept`, with the position of each item as `ordinal`, starting at 1. */
  readonly ordered: SQL

  constructor(first: number, fields: readonly ArrayColumn<Item>[]) {
    this.#fields = fields
    this.columns = fields.map(([column]) => column)
    const arrayAt = ([column, , type]: ArrayColumn<Item>, at: number) =>
      `$${first + at}::${type ?? typeOf(column)}[]`
    const unnested = sql`unnest(${sql.raw(fields.map(arrayAt).join(", "))})`
    this.relation = sql`${unnested} AS x (${names(...this.columns)})`
    const arrays = fields.map((field, at) => hidden(arrayAt(field, at)))
    const unnests = fields.map(([column], at) => sql`unnest(${arrays[at]}) AS ${names(column)}`)
    const ordinals = sql`generate_subscripts(${arrays[0]}, 1) AS ordinal`
    this.kept = sql`(SELECT ${sql.join(unnests, sql.raw(", "))}) AS x`
    this.ordered = sql`(SELECT ${sql.join([...unnests, ordinals], sql.raw(", "))}) AS x`
  }

  /** Values of text columns must need no quotes in an array. */
  values(items: readonly Item[]): string[] {
    return this.#fields.map(([, read]) => arrayOf(items, read))
  }
}

const NULL = "NULL"

/** An array of values that need no quotes. An all-null column is `{}`, which `unnest` pads with nulls. */
export function arrayOf<Item>(items: readonly Item[], read: (item: Item) => ColumnValue): string {
  const values: ColumnValue[] = []
  let has_values = false
  for (const item of items) {
    const value = read(item)
    has_values ||= value !== null
    values.push(value ?? NULL)
  }
  return has_values ? `{${values.join(",")}}` : "{}"
}

/** A batch as one JSON parameter; amounts are decimal strings, which int8 reads exactly. */
export function jsonOf(items: readonly object[]): string {
  return JSON.stringify(items, (_, value) => (typeof value === "bigint" ? value.toString() : value))
}

export function textOf(row: Row, column: string): string {
  const value = row[column]
  if (typeof value !== "string") throw new Error(`${column} is not a text`)
  return value
}

export function textOrNull(row: Row, column: string): string | null {
  return row[column] === null ? null : textOf(row, column)
}

/** An int4 column that is not null. */
export function intOf(row: Row, column: string): number {
  const value = row[column]
  if (typeof value !== "number") throw new Error(`${column} is not an int4`)
  return value
}

/** An int8 column that is not null. */
export function nanoOf(row: Row, column: string): bigint {
  const value = textOf(row, column)
  if (!/^-?\d{1,19}$/.test(value)) throw new Error(`${column} is not an int8`)
  return BigInt(value)
}

export function booleanOf(row: Row, column: string): boolean {
  const value = row[column]
  if (typeof value !== "boolean") throw new Error(`${column} is not a boolean`)
  return value
}

/** The ids in a `uuid[]` that was cast to text; none when it is null. */
export function idsOf(row: Row, column: string): string[] {
  const value = row[column]
  if (value === null) return []
  const text = textOf(row, column).slice(1, -1)
  return text === "" ? [] : text.split(",")
}

/** The first row of a query; null if it has none. */
export async function firstRow<Found>(query: PromiseLike<readonly Found[]>): Promise<Found | null> {
  const [row = null] = await query
  return row
}

/** A database or an open transaction in it, to run statements on. */
export type Db = Pick<
  PostgresJsDatabase,
  "select" | "insert" | "update" | "delete" | "execute" | "transaction" | "$count"
>
