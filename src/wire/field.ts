import type { SchemaOptions, TNull, TObject, TProperties, TSchema, TUnion } from "@sinclair/typebox"
import { isObject } from "./usage.ts"

/** Titles and units of fields. They stand in the schema of a resource, and tables and details are made of them. */

/** The keyword for the unit of a value. Without it, the type and the format of the schema say what it is. */
export const UNIT = "x-unit"
/** `usd` is a decimal string. */
export type Unit = "text" | "usd" | "count" | "number" | "percent" | "ms" | "time"

/** A field that can be shown: its title heads its column. */
export function titled<S extends TSchema>(title: string, schema: S, options: SchemaOptions = {}) {
  return { ...schema, ...options, title }
}

type Titled<P> = { [Name in keyof P & string]: P[Name] extends { title: string } ? Name : never }[keyof P &
  string]
type Inside<S> = S extends TObject<infer P> | TUnion<[TObject<infer P>, TNull]> ? Titled<P> : never

/** The name of a field with a title; of one in an object, both names with a point between them. */
export type FieldPath<P> =
  | Titled<P>
  | { [Name in keyof P & string]: `${Name}.${Inside<P[Name]>}` }[keyof P & string]

export function fieldAt<P extends TProperties>(schema: TObject<P>, path: FieldPath<P>) {
  let field: TSchema = schema
  for (const name of path.split(".")) field = withoutNull(field).properties[name]
  return { title: field.title ?? path, unit: unitOf(withoutNull(field)) }
}

/** The value of a field; null if an object on its way is null. */
export function valueAt(record: unknown, path: string): unknown {
  return path
    .split(".")
    .reduce<unknown>((value, name) => (isObject(value) ? (value[name] ?? null) : null), record)
}

function withoutNull(schema: TSchema): TSchema {
  const alternatives: readonly TSchema[] = schema.anyOf ?? []
  return alternatives.find(({ type }) => type !== "null") ?? schema
}

function unitOf(schema: TSchema): Unit {
  if (schema[UNIT] !== undefined) return schema[UNIT]
  if (schema.format === "date-time") return "time"
  return schema.type === "integer" ? "count" : schema.type === "number" ? "number" : "text"
}
