import { isObject, type JsonObject } from "../wire/usage.ts"
import { ANSWER, ERRORS, EXAMPLES, HEADERS, headerReferences } from "./openapi.ts"

/**
 * The document that the plugin generates from the routes, as OpenAPI 3.0.3 wants it: its schemas in that dialect, each
 * body under its own media type, and the examples, headers and errors that the plugin has no place for.
 */
export function openApiDocument(generated: JsonObject): JsonObject {
  const paths = mapValues(objectOf(generated.paths), (methods) =>
    mapValues(objectOf(methods), (described) => operation(objectOf(described))),
  )
  return { ...generated, paths }
}

function operation({ [ERRORS]: errors, [HEADERS]: headers, ...generated }: JsonObject): JsonObject {
  const { parameters: validated, requestBody, responses, ...described } = generated
  const parameters = [...listOf(validated), ...listOf(headers)].map(parameter)
  return {
    ...described,
    ...(parameters.length > 0 && { parameters }),
    ...(requestBody !== undefined && { requestBody: body(objectOf(requestBody)) }),
    responses: { ...mapValues(objectOf(responses), response), ...objectOf(errors ?? {}) },
  }
}

function parameter(value: unknown): JsonObject {
  const { schema, examples, ...described } = objectOf(value)
  const [example] = listOf(examples)
  return { ...described, schema: openApiSchema(objectOf(schema)), ...(example !== undefined && { example }) }
}

function body({ required, content }: JsonObject): JsonObject {
  return { required, content: media(jsonSchemaOf(content)) }
}

/** Undoes what the plugin moved from the schema of an object to the response. */
function response(value: unknown): JsonObject {
  const { content, description, [ANSWER]: answer, [EXAMPLES]: examples } = objectOf(value)
  const moved = answer === undefined ? {} : { description, [EXAMPLES]: examples }
  return {
    description: answer ?? description,
    headers: headerReferences("x-request-id", "request-id"),
    ...(content !== undefined && { content: media({ ...moved, ...jsonSchemaOf(content) }) }),
  }
}

/** The plugin writes the same schema under every media type that Elysia can parse. */
function jsonSchemaOf(content: unknown): JsonObject {
  return objectOf(objectOf(objectOf(content)["application/json"]).schema)
}

/** A body by its media types: JSON, unless the schema, or alternatives of it, say what they are. */
function media(schema: JsonObject): JsonObject {
  const alternatives = listOf(schema.anyOf).filter(isObject)
  if (alternatives.some(({ contentMediaType }) => contentMediaType !== undefined)) {
    return Object.assign({}, ...alternatives.map(media))
  }
  const { contentMediaType, contentSchema, examples, [EXAMPLES]: named = {}, ...json } = schema
  if (contentMediaType === undefined) {
    const values = mapValues(objectOf(named), (value) => ({ value }))
    return {
      "application/json": {
        schema: openApiSchema({ ...json, examples }),
        ...(Object.keys(values).length > 0 && { examples: values }),
      },
    }
  }
  const [example] = listOf(examples)
  return {
    [String(contentMediaType)]: {
      schema: contentSchema === undefined ? { type: "string" } : openApiSchema(objectOf(contentSchema)),
      ...(example !== undefined && { example }),
    },
  }
}

function objectOf(value: unknown): JsonObject {
  if (!isObject(value)) throw new Error("the plugin generated a document of an unknown form")
  return value
}

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
 * A JSON Schema (draft 7), as TypeBox writes it, in OpenAPI 3.0's dialect, which has no `const`, no type `null`, no `examples`
 * and only flags for exclusive bounds. A keyword that has no counterpart is a broken invariant.
 */
export function openApiSchema(schema: JsonObject): JsonObject {
  return Object.assign({}, ...Object.entries(schema).map(([keyword, value]) => translate(keyword, value)))
}

function translate(keyword: string, value: unknown): JsonObject {
  if (value === undefined) return {}
  if (keyword === "type" && value === "null") return { nullable: true, enum: [null] }
  if (SHARED.has(keyword)) return { [keyword]: value }
  if (keyword.startsWith("x-")) return {}
  switch (keyword) {
    case "$id":
      return {}
    case "const":
      return { enum: [value] }
    case "examples":
      return { example: listOf(value)[0] }
    case "exclusiveMinimum":
      return { minimum: value, exclusiveMinimum: true }
    case "exclusiveMaximum":
      return { maximum: value, exclusiveMaximum: true }
    case "properties":
      return { properties: mapValues(schemaOf(value), schema) }
    case "patternProperties":
      return { additionalProperties: anyOf(Object.values(schemaOf(value)).map(schemaOf)) }
    case "additionalProperties":
      return { additionalProperties: isObject(value) ? openApiSchema(value) : Boolean(value) }
    case "items":
      return { type: "array", items: schema(value) }
    case "anyOf":
      return anyOf(listOf(value).map(schemaOf))
    case "allOf":
      return { allOf: listOf(value).map(schema) }
    case "not":
      return { not: schema(value) }
    default:
      throw new Error(`no OpenAPI 3.0 counterpart of the schema keyword ${keyword}`)
  }
}

/** Literals become one `enum`, `null` among the alternatives a flag (and a value of the enum), and a single alternative stands for itself. */
function anyOf(alternatives: readonly JsonObject[]): JsonObject {
  const others = alternatives.filter((one) => one.type !== "null")
  return others.length < alternatives.length ? nullable(oneOf(others)) : oneOf(others)
}

function oneOf(alternatives: readonly JsonObject[]): JsonObject {
  const [first] = alternatives
  if (first !== undefined && alternatives.every((one) => "const" in one)) {
    return { type: first.type, enum: alternatives.map((one) => one.const) }
  }
  if (first !== undefined && alternatives.length === 1) return openApiSchema(first)
  return { anyOf: alternatives.map(openApiSchema) }
}

function nullable(schema: JsonObject): JsonObject {
  return { ...schema, nullable: true, ...("enum" in schema && { enum: [...listOf(schema.enum), null] }) }
}

function schema(value: unknown): JsonObject {
  return openApiSchema(schemaOf(value))
}

/** `value` as the object that a schema has there. */
function schemaOf(value: unknown): JsonObject {
  if (!isObject(value)) throw new Error("a schema has another value where an object is expected")
  return value
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function mapValues(record: JsonObject, map: (value: unknown) => unknown): JsonObject {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value)]))
}
