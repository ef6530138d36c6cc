import {
  type SchemaOptions,
  type Static,
  type StaticDecode,
  type TNull,
  type TObject,
  type TOptional,
  type TProperties,
  type TSchema,
  type TUnion,
  Type,
} from "@sinclair/typebox"
import { EXPECTED } from "./fault.ts"
import { isObject } from "./usage.ts"

/** Titles and units of fields. They stand in the schema of a resource, and tables and details are made of them. */

/** The keyword for the unit of a value. Without it, the type and the format of the schema say what it is. */
export const UNIT = "x-unit"
/** `usd` is a decimal string. */
export type Unit = "text" | "usd" | "count" | "number" | "percent" | "ms" | "time"

/** A field that can be shown: its title heads its column. */
export function titled<S extends TSchema>(title: string, schema: S, description?: string) {
  return { ...schema, ...(description !== undefined && { description }), title }
}

/** Fields with titles: their own, or else their names. */
export function fields<P extends TProperties>(
  properties: P,
): { readonly [Name in keyof P]: P[Name] & { readonly title: string } }
export function fields(properties: TProperties): TProperties {
  const all = Object.entries(properties).map(([name, schema]) => [name, { title: titleOf(name), ...schema }])
  return Object.fromEntries(all)
}

/** `held_at` as "Held at". */
function titleOf(name: string): string {
  return (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll("_", " ")
}

/** The schema of a resource. Its fields have titles, by which they can be shown. */
export const resource = <P extends TProperties>(properties: P) => Type.Object(fields(properties))

/** Makes every field optional. */
export function optional<P extends TProperties>(
  properties: P,
): { readonly [Name in keyof P]: TOptional<P[Name]> }
export function optional(properties: TProperties): TProperties {
  return Type.Partial(Type.Object(properties)).properties
}

export const text = (description: string) => Type.String({ description })
export const count = (description: string) => Type.Integer({ minimum: 0, description })
export const nullable = <S extends TSchema>(schema: S, description?: string) =>
  Type.Union([schema, Type.Null()], description === undefined ? {} : { description })

/** Typed `string`, so that a word of a newer gateway is shown and not refused. */
export const choice = (words: readonly string[], description?: string) =>
  Type.String({ enum: [...words], ...(description !== undefined && { description }) })

/** An object of a provider, with any further fields. */
export const open = <P extends TProperties>(properties: P, description?: string, more: SchemaOptions = {}) =>
  Type.Object(properties, {
    additionalProperties: true,
    ...(description !== undefined && { description }),
    ...more,
  })

/** An optional field of a call that the gateway checks. It can be null. */
export const checked = <S extends TSchema>(
  schema: S,
  description: string,
  expected: string,
  example?: unknown,
) =>
  Type.Optional(
    Type.Union([schema, Type.Null()], {
      description,
      ...(example !== undefined && { examples: [example] }),
      [EXPECTED]: expected,
    }),
  )

/** An optional field of a call that the gateway does not check. */
export const passed = (description: string, example?: unknown) =>
  Type.Optional(Type.Unknown({ description, ...(example !== undefined && { examples: [example] }) }))

export const oneOf = <Word extends string>(
  words: readonly Word[],
  description: string,
  expected = `one of ${words.join(", ")}`,
) =>
  Type.Unsafe<Word>(
    Type.Union(
      words.map((word) => Type.Literal(word)),
      { description, [EXPECTED]: expected },
    ),
  )

/** Some fields of a resource, in this order. */
export function pick<P, Name extends keyof P>(properties: P, ...names: readonly Name[]): Pick<P, Name>
export function pick(properties: TProperties, ...names: readonly string[]): TProperties {
  return Object.fromEntries(names.flatMap((name) => (properties[name] ? [[name, properties[name]]] : [])))
}

/** A field of a request whose handler gets the decoded value. */
export const decoded = <S extends TSchema, Value>(
  schema: S,
  decode: (given: StaticDecode<S>) => Value,
  encode: (value: Value) => Static<S>,
) => Type.Unsafe<Value>(Type.Transform(schema).Decode(decode).Encode(encode))

type Titled<P> = { [Name in keyof P & string]: P[Name] extends { title: string } ? Name : never }[keyof P &
  string]
type Inside<S> = S extends TObject<infer P> | TUnion<[TObject<infer P>, TNull]> ? Titled<P> : never

/** The name of a field with a title; of one in an object, both names with a point between them. */
export type FieldPath<P> =
  | Titled<P>
  | { [Name in keyof P & string]: `${Name}.${Inside<P[Name]>}` }[keyof P & string]

export function fieldAt<P extends TProperties>(schema: TObject<P>, path: FieldPath<P>) {
  const names = path.split(".")
  let field: TSchema = schema
  for (const name of names) field = withoutNull(field).properties[name]
  return { title: field.title ?? titleOf(names.at(-1) ?? ""), unit: unitOf(withoutNull(field)) }
}

/** A function of a field, with `each` for fields that are shown as their schema says. */
export function eachOf<Path, Shown, Show>(show: Show & ((path: Path) => Shown)) {
  return Object.assign(show, { each: (...paths: readonly Path[]) => paths.map((path) => show(path)) })
}

/** The part of a schema that `fieldAt` reads, for a page that shows records and does not validate them. */
export function partForTitles(
  { title, type, format, anyOf, properties, [UNIT]: unit }: TSchema,
  name = "",
): object {
  const own: readonly (readonly [string, TSchema])[] = Object.entries(properties ?? {})
  return {
    ...(title !== undefined && title !== titleOf(name) && { title }),
    ...(unit !== undefined && { [UNIT]: unit }),
    ...(type !== "string" && type !== "object" && { type }),
    ...(format === "date-time" && { format }),
    ...(anyOf !== undefined && { anyOf: anyOf.map((one: TSchema) => partForTitles(one)) }),
    ...(own.length > 0 && {
      properties: Object.fromEntries(
        own.map(([own_name, field]) => [own_name, partForTitles(field, own_name)]),
      ),
    }),
  }
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
