import type { TSchema } from "@sinclair/typebox"
import type { DocumentDecoration } from "elysia"

type Body = Exclude<NonNullable<DocumentDecoration["requestBody"]>, { $ref: string }>
/** A schema as OpenAPI 3.0.3 writes it. */
export type OpenApiSchema = Exclude<NonNullable<Body["content"][string]["schema"]>, { $ref: string }>

/** Keywords that mean the same in both dialects. */
const SHARED = new Set([
  "type",
  "title",
  "description",
  "format",
  "default",
  "enum",
  "multipleOf",
  "minimum",
  "maximum",
  "minLength",
  "maxLength",
  "pattern",
  "minItems",
  "maxItems",
  "uniqueItems",
  "minProperties",
  "maxProperties",
  "required",
])

/**
 * A TypeBox schema (JSON Schema draft 7) in OpenAPI 3.0's dialect, which has no `const`, no type `null`, no `examples` and only
 * flags for exclusive bounds. A keyword that has no counterpart is a broken invariant.
 */
export function openApiSchema(schema: TSchema): OpenApiSchema {
  return Object.assign(
    {},
    ...Object.entries(schema).map(([keyword, value]) => translate(keyword, value, schema)),
  )
}

function translate(keyword: string, value: unknown, schema: TSchema): OpenApiSchema {
  if (keyword === "type" && value === "null") return { nullable: true, enum: [null] }
  if (SHARED.has(keyword)) return { [keyword]: value }
  if (keyword.startsWith("x-")) return {}
  switch (keyword) {
    case "$id":
      return {}
    case "const":
      return { enum: [value] }
    case "examples":
      return { example: schema.examples[0] }
    case "exclusiveMinimum":
      return { minimum: schema.exclusiveMinimum, exclusiveMinimum: true }
    case "exclusiveMaximum":
      return { maximum: schema.exclusiveMaximum, exclusiveMaximum: true }
    case "properties":
      return { properties: mapSchemas(schema.properties) }
    case "patternProperties":
      return { additionalProperties: anyOf(Object.values(schema.patternProperties)) }
    case "additionalProperties":
      return {
        additionalProperties:
          typeof value === "object" ? openApiSchema(schema.additionalProperties) : Boolean(value),
      }
    case "items":
      return { type: "array", items: openApiSchema(schema.items) }
    case "anyOf":
      return anyOf(schema.anyOf)
    case "allOf":
      return { allOf: schema.allOf.map(openApiSchema) }
    case "not":
      return { not: openApiSchema(schema.not) }
    default:
      throw new Error(`no OpenAPI 3.0 counterpart of the schema keyword ${keyword}`)
  }
}

/** Literals become one `enum`, `null` among the alternatives a flag (and a value of the enum), and a single alternative stands for itself. */
function anyOf(alternatives: readonly TSchema[]): OpenApiSchema {
  const others = alternatives.filter((one) => one.type !== "null")
  return others.length < alternatives.length ? nullable(oneOf(others)) : oneOf(others)
}

function oneOf(alternatives: readonly TSchema[]): OpenApiSchema {
  const [first] = alternatives
  if (first !== undefined && alternatives.every((one) => "const" in one)) {
    return { type: first.type, enum: alternatives.map((one) => one.const) }
  }
  if (first !== undefined && alternatives.length === 1) return openApiSchema(first)
  return { anyOf: alternatives.map(openApiSchema) }
}

function nullable(schema: OpenApiSchema): OpenApiSchema {
  return { ...schema, nullable: true, ...(schema.enum === undefined ? {} : { enum: [...schema.enum, null] }) }
}

function mapSchemas(schemas: Readonly<Record<string, TSchema>>): Record<string, OpenApiSchema> {
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, openApiSchema(schema)]))
}
