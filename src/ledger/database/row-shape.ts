import { mapInTurns, sortInTurns } from "../../turns.ts"
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
  readonly #compare: (one: Shaped, other: Shaped) => number
  readonly #most: number

  /** `compare`: the order of merged rows, of which there are at most so many. */
  constructor(
    columns: ColumnShapes<Shaped>,
    compare: (one: NoInfer<Shaped>, other: NoInfer<Shaped>) => number = () => 0,
    most = Number.POSITIVE_INFINITY,
  ) {
    this.#columns = Object.entries(columns)
    this.#compare = compare
    this.#most = most
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

  /** The sums of several shards (D74). Those that say the same of what is summed become one. */
  readonly merge = async (parts: readonly (readonly Shaped[])[]): Promise<readonly Shaped[]> => {
    const own = this.#columns.filter(([, { add }]) => add === undefined).map(([name]) => name)
    const keyOf = (sum: Shaped) => JSON.stringify(own.map((name): unknown => Reflect.get(sum, name)))
    const merged = await mergeRows(parts, keyOf, (one, other) => this.add(one, other))
    return (await sortInTurns(merged, this.#compare)).slice(0, this.#most)
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

/** The rows of several shards, with turns of the event loop; those with the same key are added. */
export async function mergeRows<Row>(
  parts: readonly (readonly Row[])[],
  keyOf: (row: Row) => string,
  add: (one: Row, other: Row) => Row,
): Promise<Row[]> {
  const merged = new Map<string, Row>()
  for (const part of parts)
    await mapInTurns(part, (row) => {
      const key = keyOf(row)
      const known = merged.get(key)
      merged.set(key, known === undefined ? row : add(known, row))
    })
  return [...merged.values()]
}
