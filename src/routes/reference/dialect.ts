import { EXPECTED } from "../../wire/fault.ts"
import { isObject, type JsonObject } from "../../wire/usage.ts"

/**
 * A replacer for `JSON.stringify` that prints a TypeBox schema (JSON Schema, draft 7) in OpenAPI 3.0's dialect, which has no
 * `const`, no type `null`, one `example`, and only flags for exclusive bounds. Words for error messages are left out.
 */
export function inDialect(key: string, value: unknown): unknown {
  return key === EXPECTED ? undefined : isObject(value) ? translated(value) : value
}

function translated(schema: JsonObject): JsonObject {
  const { const: only, examples, patternProperties, anyOf, exclusiveMinimum, ...same } = schema
  return {
    ...(same.type === "null" ? { nullable: true, enum: [null] } : same),
    ...(only !== undefined && { enum: [only] }),
    ...(Array.isArray(examples) ? { example: examples[0] } : { examples }),
    ...(exclusiveMinimum !== undefined && { minimum: exclusiveMinimum, exclusiveMinimum: true }),
    ...(isObject(patternProperties) && { additionalProperties: union(Object.values(patternProperties)) }),
    ...(Array.isArray(anyOf) && union(anyOf)),
  }
}

/** Literals become one `enum`, `null` among the alternatives a flag (and a value of the enum), and a single alternative replaces its list. */
function union(schemas: readonly unknown[]): JsonObject {
  const alternatives = schemas.filter(isObject)
  const others = alternatives.filter((one) => one.type !== "null")
  const [first] = others
  if (first === undefined) return {}
  const whole = others.every((one) => "const" in one)
    ? { type: first.type, enum: others.map((one) => one.const) }
    : others.length === 1
      ? translated(first)
      : { anyOf: others }
  if (others.length === alternatives.length) return whole
  return { ...whole, nullable: true, ...("enum" in whole && { enum: [...listOf(whole.enum), null] }) }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
