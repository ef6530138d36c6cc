import { isObject, type JsonObject } from "../wire/usage.ts"
import { ANSWER, ERRORS, EXAMPLES, HEADERS, headerReferences } from "./openapi.ts"
import { listOf, mapValues, openApiSchema } from "./openapi-schema.ts"

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
  return { required, content: media(schemaOf(content)) }
}

/** What the plugin moved from the schema of an object to the response goes back. */
function response(value: unknown): JsonObject {
  const { content, description, [ANSWER]: answer, [EXAMPLES]: examples } = objectOf(value)
  const moved = answer === undefined ? {} : { description, [EXAMPLES]: examples }
  return {
    description: answer ?? description,
    headers: headerReferences("x-request-id", "request-id"),
    ...(content !== undefined && { content: media({ ...moved, ...schemaOf(content) }) }),
  }
}

/** The plugin writes the same schema under every media type that Elysia can parse. */
function schemaOf(content: unknown): JsonObject {
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
  if (!isObject(value)) throw new Error("the plugin wrote another document than before")
  return value
}
