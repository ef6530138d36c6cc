import {
  KindGuard,
  type Static,
  type StringOptions,
  type TObject,
  type TProperties,
  type TSchema,
  Type,
} from "@sinclair/typebox"
import { EXPECTED } from "../wire/fault.ts"
import { isObject } from "../wire/usage.ts"
import { bytes, DURATION, MEMORY_SIZE, ms, SIZE } from "./values.ts"

/** The kinds of values in the schema of the configuration file. */

type TextOptions = StringOptions & { [EXPECTED]?: string; [UNIT]?: string }

/** A key with its meaning, for the tables of docs/configuration.md. */
export function key<S extends TSchema>(description: string, schema: S): S {
  return { ...schema, description }
}

/** A mapping without unknown keys, optional if all of its keys are. */
export function section<P extends TProperties>(properties: P) {
  return Type.Object(properties, { additionalProperties: false, default: {}, [EXPECTED]: "a mapping" })
}

export function text(options: TextOptions = {}) {
  return Type.String({ [EXPECTED]: "a string", ...options })
}

export function modelName() {
  return text({
    pattern: "^(?! )[^\\x00-\\x1f\\x7f]{1,256}(?<! )$",
    [EXPECTED]:
      "a name of 1 to 256 characters, without control characters and without spaces at its start or end",
  })
}

/** The unit of a text's value in the configuration: its key there ends with the unit. */
const UNIT = "x-unit"
type Duration = string & { readonly [UNIT]: "ms" }
type Size = string & { readonly [UNIT]: "bytes" }

export function duration(fallback?: string) {
  return quantity<Duration>("ms", {
    pattern: `(?!0+[a-z])${DURATION.source}`,
    ...(fallback === undefined ? {} : { default: fallback }),
    [EXPECTED]: "a duration above zero, such as 50ms, 15s, 5m or 1h (at most 99h)",
  })
}

export function durationOrNone(fallback: string) {
  return quantity<Duration>("ms", {
    pattern: DURATION.source,
    default: fallback,
    [EXPECTED]: "a duration, such as 0s, 50ms, 15s, 5m or 1h (at most 99h)",
  })
}

export function size(fallback: string) {
  return quantity<Size>("bytes", {
    pattern: SIZE.source,
    default: fallback,
    [EXPECTED]: "a size, such as 64KiB, 20MiB or 8MB (at most 999MiB)",
  })
}

/** Without a default: it depends on the machine. */
export function memorySize() {
  return quantity<Size>("bytes", {
    pattern: MEMORY_SIZE.source,
    [EXPECTED]: "a size, such as 512MiB or 4GiB (at most 999GiB)",
  })
}

function quantity<Text extends Duration | Size>(unit: Text[typeof UNIT], options: TextOptions) {
  return Type.Unsafe<Text>(text({ ...options, [UNIT]: unit }))
}

type KeyOf<Key extends string, Value> = [NonNullable<Value>] extends [Duration | Size]
  ? `${Key}_${NonNullable<Value>[typeof UNIT]}`
  : Key
type ValueOf<Value> = Value extends undefined
  ? null
  : Value extends Duration | Size
    ? number
    : Value extends readonly unknown[] | string | number | boolean
      ? Value
      : Value extends object
        ? Decoded<Value>
        : Value

/** A section as the configuration has it: durations and sizes are numbers, missing values are null. */
export type Decoded<Section> = {
  readonly [Key in keyof Section & string as KeyOf<Key, Section[Key]>]-?: ValueOf<Section[Key]>
}

/** Reads a section whose form was checked. */
export function decoded<P extends TProperties>(
  { properties }: TObject<P>,
  section: Static<TObject<P>>,
): Decoded<Static<TObject<P>>> {
  const given: Readonly<Record<string, unknown>> = section
  const entries = Object.entries<TSchema>(properties).map(([key, property]) => {
    const value = given[key] ?? null
    if (typeof property[UNIT] === "string") {
      const read = property[UNIT] === "ms" ? ms : bytes
      return [`${key}_${property[UNIT]}`, typeof value === "string" ? read(value) : null]
    }
    return [key, KindGuard.IsObject(property) && isObject(value) ? decoded(property, value) : value]
  })
  // The type has the same keys: it is made from the same schema.
  return Object.fromEntries(entries) as Decoded<Static<TObject<P>>>
}

export function count(options: { maximum: number; default?: number }) {
  return Type.Integer({
    minimum: 1,
    ...options,
    [EXPECTED]: `an integer from 1 to ${options.maximum}`,
  })
}

export function oneOf<const Words extends readonly string[]>(words: Words, options: TextOptions = {}) {
  return Type.Unsafe<Words[number]>(
    Type.Union(
      words.map((word) => Type.Literal(word)),
      { [EXPECTED]: new Intl.ListFormat("en-GB", { type: "disjunction" }).format(words), ...options },
    ),
  )
}

export function flag() {
  return Type.Boolean({ default: false, [EXPECTED]: "true or false" })
}

/** The values of `proxy:`; `none` means no proxy. */
export const PROXY = /^(?:none|https?:\/\/[^\s/?#]+\/?)$/
export const PROXY_EXPECTED =
  "http://HOST:PORT, https://HOST:PORT, with USER:PASSWORD@ before HOST if needed, or none"

export function proxy() {
  return text({ pattern: PROXY.source, [EXPECTED]: PROXY_EXPECTED })
}
