import type { Static, TObject } from "@sinclair/typebox"
import { printUsd } from "../money.ts"
import { printTime } from "./time.ts"
import { isObject } from "./usage.ts"

/** The value of a field as a record has it: a time as a `Date`, a list as one that nobody changes. */
type Recorded<Value> = Value extends string
  ? string extends Value
    ? Value | Date
    : Value
  : Value extends readonly (infer Item)[]
    ? readonly Recorded<Item>[]
    : Value extends object
      ? { readonly [Name in keyof Value]: Recorded<Value[Name]> }
      : Value

/** True if a record has the amount of a field in nano-USD: `charge_nano` for `charge`. */
type HasAmount<Body, Name extends keyof Body, Given> = Given extends {
  readonly [Amount in `${Name & string}_nano`]: bigint | Extract<Body[Name], null>
}
  ? true
  : false

type RecordOf<Body, Given> = {
  readonly [Name in keyof Body as HasAmount<Body, Name, Given> extends true ? never : Name]: Recorded<
    Body[Name]
  >
}

/** The fields of a record that its schema has, in that order, with times and amounts printed. */
export function bodyOf<Schema extends TObject, Given extends object>(
  { properties }: Schema,
  record: Given & RecordOf<Static<Schema>, Given>,
): Static<Schema> {
  const given: ReadonlyMap<string, unknown> = new Map(Object.entries(record))
  const names = Object.keys(properties).flatMap((name) => {
    const own = given.has(name) ? name : `${name}_nano`
    return given.has(own) ? [[name, printed(given.get(own))]] : []
  })
  return Object.fromEntries(names)
}

function printed(value: unknown): unknown {
  if (typeof value === "bigint") return printUsd(value)
  if (value instanceof Date) return printTime(value)
  if (Array.isArray(value)) return value.map(printed)
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, printed(field)]))
}
