import { mapInTurns } from "../../turns.ts"
import { intOf, type Row, textOf, textOrNull } from "./statement.ts"

/** A column of a statement: how its value is read from a row, and how those of two shards are added (D74). */
interface ColumnShape<Value> {
  read(row: Row, name: string): Value
  /** Absent for a column that says what is summed. */
  add?(one: Value, other: Value): Value
}

type ColumnShapes<Shaped> = { readonly [Name in keyof Shaped]: ColumnShape<Shaped[Name]> }

/** The rows of a statement, whose columns have these names. */
export class RowShape<Shaped extends object> {
  readonly #columns: readonly (readonly [name: string, column: ColumnShape<unknown>])[]

  constructor(columns: ColumnShapes<Shaped>) {
    this.#columns = Object.entries(columns)
  }

  /** `prefix`: of the names of its columns in the row. */
  read(row: Row, prefix = ""): Shaped {
    return this.#made((name, { read }) => read(row, prefix + name))
  }

  add(one: Shaped, other: Shaped): Shaped {
    return this.#made((name, { add }) => {
      const value: unknown = Reflect.get(one, name)
      return add === undefined ? value : add(value, Reflect.get(other, name))
    })
  }

  /** The sums of several shards. Those that say the same of what is summed become one. */
  merge(parts: readonly (readonly Shaped[])[]): Shaped[] {
    return mergeRows(parts, this.#key(), (one, other) => this.add(one, other))
  }

  /** The same for many sums, with turns of the event loop. */
  mergeInTurns(parts: readonly (readonly Shaped[])[]): Promise<Shaped[]> {
    return mergeInTurns(parts, this.#key(), (one, other) => this.add(one, other))
  }

  /** Of a sum, the values that say what is summed. */
  #key(): (sum: Shaped) => string {
    const own = this.#columns.filter(([, { add }]) => add === undefined).map(([name]) => name)
    return (sum) => JSON.stringify(own.map((name): unknown => Reflect.get(sum, name)))
  }

  #made(value: (name: string, column: ColumnShape<unknown>) => unknown): Shaped {
    // The constructor has checked that each column has the type of its value.
    return Object.fromEntries(this.#columns.map(([name, column]) => [name, value(name, column)])) as Shaped
  }
}

export type RowOf<Shape> = Shape extends RowShape<infer Shaped> ? Readonly<Shaped> : never

export const text: ColumnShape<string> = { read: textOf }
export const optionalText: ColumnShape<string | null> = { read: textOrNull }

export function word<Word extends string>(words: readonly Word[]): ColumnShape<Word> {
  return {
    read(row, name) {
      const found = words.find((one) => one === row[name])
      if (found === undefined) throw new Error(`${name} is none of its words`)
      return found
    },
  }
}

export const int: ColumnShape<number> = { read: intOf }

/** A count as a number, which it fits: D1 bounds the tokens of a call. */
export const count: ColumnShape<number> = { read: numberOf, add: (one, other) => one + other }

export const amount: ColumnShape<bigint> = {
  read: (row, name) => BigInt(textOf(row, name)),
  add: (one, other) => one + other,
}

/** A `timestamptz`, which the drivers of operators' questions leave as a text. */
export const optionalMoment: ColumnShape<Date | null> = {
  read: (row, name) => (row[name] === null ? null : new Date(textOf(row, name))),
}

/** In milliseconds since 1970. */
export const time: ColumnShape<Date> = { read: (row, name) => new Date(numberOf(row, name)) }

function larger<Value extends bigint | Date>(one: Value, other: Value): Value {
  return one > other ? one : other
}

export const highest: ColumnShape<bigint> = { ...amount, add: larger }
export const latest: ColumnShape<Date> = { ...time, add: larger }

/** Columns whose names begin with the name of this one. */
export function group<Shaped extends object>(columns: ColumnShapes<Shaped>): ColumnShape<Shaped> {
  const shape = new RowShape(columns)
  return {
    read: (row, name) => shape.read(row, `${name}_`),
    add: (one, other) => shape.add(one, other),
  }
}

function numberOf(row: Row, name: string): number {
  const value = Number(textOf(row, name))
  if (!Number.isSafeInteger(value)) throw new Error(`${name} is no safe integer`)
  return value
}

/** The rows of several shards; those with the same key are added. */
export function mergeRows<Row>(
  parts: readonly (readonly Row[])[],
  keyOf: (row: Row) => string,
  add: (one: Row, other: Row) => Row,
): Row[] {
  const merged = new Map<string, Row>()
  for (const row of parts.flat()) addRow(merged, keyOf(row), row, add)
  return [...merged.values()]
}

/** The same for many rows, with turns of the event loop. */
export async function mergeInTurns<Row>(
  parts: readonly (readonly Row[])[],
  keyOf: (row: Row) => string,
  add: (one: Row, other: Row) => Row,
): Promise<Row[]> {
  const merged = new Map<string, Row>()
  for (const part of parts) await mapInTurns(part, (row) => addRow(merged, keyOf(row), row, add))
  return [...merged.values()]
}

/** Adds a row to that of the same key. */
function addRow<Row>(
  rows: Map<string, Row>,
  key: string,
  row: Row,
  add: (one: Row, other: Row) => Row,
): void {
  const known = rows.get(key)
  rows.set(key, known === undefined ? row : add(known, row))
}
