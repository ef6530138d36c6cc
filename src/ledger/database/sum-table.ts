import { mergeRows } from "./row-merge.ts"
import { type Row, textOf, textOrNull } from "./statement.ts"

/** A column of sums: how its value is read from a row, and how those of two shards are added (D74). */
interface SumColumn<Value> {
  read(row: Row, name: string): Value
  /** Absent for a column that says what is summed. */
  add?(one: Value, other: Value): Value
}

type SumColumns<Sum> = { readonly [Name in keyof Sum]: SumColumn<Sum[Name]> }

/** Sums that every shard computes by one statement, whose columns have these names. */
export class SumTable<Sum extends object> {
  readonly #columns: readonly (readonly [name: string, column: SumColumn<unknown>])[]

  constructor(columns: SumColumns<Sum>) {
    this.#columns = Object.entries(columns)
  }

  /** `prefix`: of the names of its columns in the row. */
  read(row: Row, prefix = ""): Sum {
    return this.#sumOf((name, { read }) => read(row, prefix + name))
  }

  add(one: Sum, other: Sum): Sum {
    return this.#sumOf((name, { add }) => {
      const value: unknown = Reflect.get(one, name)
      return add === undefined ? value : add(value, Reflect.get(other, name))
    })
  }

  /** The sums of several shards. Those that say the same of what is summed become one. */
  merge(parts: readonly (readonly Sum[])[]): Sum[] {
    const own = this.#columns.filter(([, { add }]) => add === undefined).map(([name]) => name)
    const keyOf = (sum: Sum) => JSON.stringify(own.map((name): unknown => Reflect.get(sum, name)))
    return mergeRows(parts, keyOf, (one, other) => this.add(one, other))
  }

  #sumOf(value: (name: string, column: SumColumn<unknown>) => unknown): Sum {
    // The constructor has checked that each column has the type of its value.
    return Object.fromEntries(this.#columns.map(([name, column]) => [name, value(name, column)])) as Sum
  }
}

export type SumOf<Table> = Table extends SumTable<infer Sum> ? Readonly<Sum> : never

export const text: SumColumn<string> = { read: textOf }
export const optionalText: SumColumn<string | null> = { read: textOrNull }

export function word<Word extends string>(words: readonly Word[]): SumColumn<Word> {
  return {
    read(row, name) {
      const found = words.find((one) => one === row[name])
      if (found === undefined) throw new Error(`${name} is none of its words`)
      return found
    },
  }
}

/** A count as a number, which it fits: D1 bounds the tokens of a call. */
export const count: SumColumn<number> = { read: numberOf, add: (one, other) => one + other }

export const amount: SumColumn<bigint> = {
  read: (row, name) => BigInt(textOf(row, name)),
  add: (one, other) => one + other,
}

/** In milliseconds since 1970. */
export const time: SumColumn<Date> = { read: (row, name) => new Date(numberOf(row, name)) }

function larger<Value extends bigint | Date>(one: Value, other: Value): Value {
  return one > other ? one : other
}

export const highest: SumColumn<bigint> = { ...amount, add: larger }
export const latest: SumColumn<Date> = { ...time, add: larger }

/** Columns whose names begin with the name of this one. */
export function group<Sum extends object>(columns: SumColumns<Sum>): SumColumn<Sum> {
  const table = new SumTable(columns)
  return {
    read: (row, name) => table.read(row, `${name}_`),
    add: (one, other) => table.add(one, other),
  }
}

function numberOf(row: Row, name: string): number {
  const value = Number(textOf(row, name))
  if (!Number.isSafeInteger(value)) throw new Error(`${name} is no safe integer`)
  return value
}
