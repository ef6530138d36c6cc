import fc from "fast-check"
import { isObject } from "../../src/wire/usage.ts"
import type { Schema } from "./json-schema.ts"

/** Random values that fit a schema of the document. A part without a type is left out, or has the value of its example. */
export function randomValue(schema: Schema): fc.Arbitrary<unknown> {
  const { anyOf, nullable, enum: words, example, type, ...rest } = schema
  if (nullable === true)
    return fc.oneof(
      fc.constant(null),
      randomValue({ ...rest, ...given({ anyOf, enum: words, example, type }) }),
    )
  if (Array.isArray(words)) return fc.constantFrom(...words)
  if (Array.isArray(anyOf)) {
    const whole = { ...rest, ...given({ type }) }
    return fc.oneof(...anyOf.map((one) => randomValue(isObject(one) ? joined(whole, one) : whole)))
  }
  switch (type) {
    case "string":
      return textOf(schema)
    case "integer":
    case "number":
      return fc.integer({
        min: numberIn(schema.minimum, 0),
        max: Math.min(numberIn(schema.maximum, 100), 1_000),
      })
    case "boolean":
      return fc.boolean()
    case "array":
      return fc.array(isObject(schema.items) ? randomValue(schema.items) : fc.constant("text"), {
        minLength: numberIn(schema.minItems, 0),
        maxLength: 3,
      })
    case "object":
      return objectOf(schema)
    default:
      return fc.constant(example)
  }
}

const given = (fields: Schema) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
const numberIn = (value: unknown, otherwise: number) => (typeof value === "number" ? value : otherwise)

/** A schema and one of its alternatives. */
function joined(whole: Schema, one: Schema): Schema {
  const properties = { ...Object(whole.properties), ...Object(one.properties) }
  const required = [
    ...new Set([whole.required, one.required].flatMap((names) => (Array.isArray(names) ? names : []))),
  ]
  const is_object = Object.keys(properties).length > 0
  return { ...whole, ...one, ...(is_object && { type: "object", properties, required }) }
}

function textOf({ format, pattern, minLength, maxLength }: Schema): fc.Arbitrary<string> {
  if (format === "uuid") return fc.uuid()
  if (format === "date-time")
    return fc
      .date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) })
      .map((at) => at.toISOString())
  if (typeof pattern === "string" && minLength === undefined) return fc.stringMatching(new RegExp(pattern))
  return fc
    .stringMatching(/^[a-z]+$/, { maxLength: 8 })
    .filter((text) => text.length >= numberIn(minLength, 0) && text.length <= numberIn(maxLength, 100))
}

function objectOf({ properties, required, additionalProperties }: Schema): fc.Arbitrary<object> {
  const names = Array.isArray(required) ? required : []
  const fields = Object.entries(isObject(properties) ? properties : {}).flatMap(([name, field]) => {
    if (!isObject(field)) return []
    const value = randomValue(field)
    const is_typed =
      field.type !== undefined ||
      field.anyOf !== undefined ||
      field.enum !== undefined ||
      field.example !== undefined
    return is_typed
      ? [[name, names.includes(name) ? value : fc.option(value, { nil: undefined })] as const]
      : []
  })
  const record = fc.record(Object.fromEntries(fields))
  if (fields.length > 0 || !isObject(additionalProperties))
    return record.map((value) => JSON.parse(JSON.stringify(value)))
  return fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), randomValue(additionalProperties), { maxKeys: 2 })
}
