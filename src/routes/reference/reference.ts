import { swagger } from "@elysiajs/swagger"
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import manifest from "../../../package.json" with { type: "json" }
import type { Model } from "../../config/config.ts"
import type { OperationName } from "../../wire/call.ts"
import { EXPECTED } from "../../wire/fault.ts"
import type { Role } from "../../wire/roles.ts"
import { nextTurn } from "../../wire/shape.ts"
import { isObject, type JsonObject, objectOf } from "../../wire/usage.ts"
import { roleWords } from "../admin/authorize.ts"
import { rights } from "../admin/roles.ts"
import {
  fingerprinted,
  loadFile,
  pagePolicy,
  pageRoutes,
  type ServedFile,
  serveFile,
  UNCHANGED,
} from "../served-file.ts"
import {
  answer,
  BODY,
  components,
  type Documentation,
  type ErrorExample,
  errorAnswers,
  errorTable,
  operation,
  tags,
} from "./operation.ts"

const POLICY = pagePolicy("img-src 'self' data:")

const EXAMPLES: readonly (readonly [operation: OperationName, name: string])[] = [
  ["chat", "gpt-5-mini"],
  ["embeddings", "text-embedding-3-small"],
  ["messages", "claude-sonnet"],
]

const DOCUMENT = "/docs/json"

/** `/docs`: the reference, with all assets. `/docs/json`: the OpenAPI document, whose examples name configured models. */
export function docs(models: () => readonly Model[]) {
  return new Elysia({ name: "docs" }).use(openApi(models)).use(
    pageRoutes({
      name: "reference",
      path: "/docs",
      policy: POLICY,
      html: () => load("./page.html", "text/html; charset=utf-8"),
      assets: {
        "page.css": () => load("./page.css", "text/css; charset=utf-8"),
        "page.js": () => load("./page.js", "text/javascript; charset=utf-8"),
        "icon.svg": () => load("./icon.svg", "image/svg+xml"),
        "swagger-ui.css": () => load("swagger-ui-dist/swagger-ui.css", "text/css; charset=utf-8"),
        "swagger-ui-bundle.js": () =>
          load("swagger-ui-dist/swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
      },
      operationId: "getReference",
      summary: "This reference",
      description: "An HTML page. Everything that it loads is served by the gateway.",
    }),
  )
}

function load(file: string, type: string): Promise<ServedFile> {
  return loadFile(import.meta.resolve(file), type)
}

/** The request whose answer the plugin makes, for itself and for all others. */
interface Maker extends PromiseWithResolvers<ServedFile> {
  readonly models: readonly Model[]
}

/**
 * The Swagger plugin. Its own page loads a script from another host, so it gets the address of our page. The document is made
 * once: it takes 50 ms, and everybody may ask for it.
 */
function openApi(models: () => readonly Model[]) {
  let last: Maker | undefined
  const makers = new WeakMap<Request, Maker>()
  return new Elysia({ name: "openapi" })
    .onBeforeHandle(({ request, path }) => {
      if (path !== DOCUMENT) return undefined
      const configured = models()
      if (last?.models === configured) return serveFile(request, last.promise, POLICY)
      const maker = { ...Promise.withResolvers<ServedFile>(), models: configured }
      maker.promise.catch(() => {
        if (last === maker) last = undefined
      })
      last = maker
      makers.set(request, maker)
      return undefined
    })
    .onAfterHandle(async ({ request, responseValue }) => {
      const maker = makers.get(request)
      if (maker === undefined || !isObject(responseValue)) return undefined
      // Making the document and printing it are long pieces of work.
      await nextTurn()
      const text = printed(responseValue, maker.models)
      maker.resolve(fingerprinted(new TextEncoder().encode(text).buffer, "application/json"))
      return serveFile(request, maker.promise, POLICY)
    })
    .onError(({ request, error }) => makers.get(request)?.reject(error))
    .use(swagger({ path: "/docs", specPath: DOCUMENT, documentation, excludeStaticFile: false }))
}

/** The model whose first operation this is, otherwise one that offers it. */
function modelFor(operation: OperationName, models: readonly Model[]): Model | undefined {
  const own = models.find(({ operations }) => operations[0] === operation)
  return own ?? models.find(({ operations }) => operations.includes(operation))
}

/** Adds to the operations of operators the role that each needs (D101). Every role may do what needs `read`. */
function withRoles({ paths, ...document }: JsonObject): JsonObject {
  const described: Record<string, unknown> = { ...objectOf(paths) }
  for (const [operation, { role, others = role }] of Object.entries(rights)) {
    if (role === "read") continue
    const [method = "", path = ""] = operation.toLowerCase().split(" ")
    const place = path.replace(/:(\w+)/g, "{$1}")
    const operations = objectOf(described[place])
    const { description, responses, ...rest } = objectOf(operations[method])
    if (description === undefined) continue
    const needed = others === role ? `\`${role}\`` : `\`${others}\`, or only \`${role}\` to suspend or resume`
    described[place] = {
      ...operations,
      [method]: {
        ...rest,
        description: `${description} Needs the role ${needed}.`,
        responses: { ...objectOf(responses), ...errorAnswers([noRole(role)]) },
      },
    }
  }
  return { ...document, paths: described }
}

const noRole = (least: Role) =>
  ({ code: "role_required", message: roleWords(least, "read") }) satisfies ErrorExample

/** The document as text. Its examples name configured models. */
function printed(document: JsonObject, models: readonly Model[]): string {
  const names = new Map(
    EXAMPLES.map(([operation, name]) => [name, modelFor(operation, models)?.name ?? name]),
  )
  return JSON.stringify(withRoles(document), (key, value: unknown) => {
    if (typeof value === "string" && names.has(value)) return names.get(value)
    if (!isObject(value) || !(BODY in value)) return inDialect(key, value)
    const { [BODY]: requestBody, ...operation } = value
    return { ...operation, requestBody }
  })
}

/** The reference page takes twice as long to show a document of 3.1. */
const VERSION = "3.0.3"

/** Described here because the plugin leaves out its own route. */
const getOpenApi = operation({
  operationId: "getOpenApi",
  tag: "Service",
  summary: "OpenAPI document of this reference",
  description: "OpenAPI 3.0.3, for tools and generated clients.",
  response: {
    200: answer(
      "The document.",
      Type.Object({ openapi: Type.Literal(VERSION) }, { additionalProperties: true }),
      { Document: { openapi: VERSION } },
    ),
    304: UNCHANGED,
  },
  errors: [],
})

/** The parts of the OpenAPI document that no route declares. */
const documentation: Documentation = {
  info: {
    title: "Tollgate",
    version: manifest.version,
    license: { name: "MIT" },
    description: [introduction(), billing(), faults()].join("\n\n"),
  },
  servers: [{ url: "/", description: "This gateway" }],
  tags: [...tags],
  components,
  paths: { [DOCUMENT]: { get: getOpenApi } },
}

function introduction(): string {
  return `An LLM gateway with exact billing by the token. Clients keep their SDKs:

- **OpenAI SDKs**: set \`base_url\` to this address followed by \`/v1\`, and use an API key of this gateway.
- **Anthropic SDKs**: set \`base_url\` to this address, and use the same API key.

Every response carries a request id in the headers \`x-request-id\` and \`request-id\`. For a billed call it is also the id of the call in the ledger.`
}

function billing(): string {
  return `## How a call is billed

Before a call is sent to a provider, the gateway holds the most that it can cost on the account. After the call it charges the actual
cost once and frees the rest of the hold.

| | The provider sent | The charge |
|---|---|---|
| 1 | valid usage | that usage, at the prices that applied when the call started |
| 2 | a JSON object, usage missing or invalid | an estimate of its output, at least one token |
| 3 | an empty or malformed JSON response | nothing: the error is \`usage_missing\` or \`usage_invalid\` |
| 4 | a stream without valid final usage | the last valid usage plus an estimate of later output, or an estimate of its output |
| 5 | a stream cut off by the provider, the client or the network | the same |
| 6 | a stream without usage and without output | nothing: an empty stream with status 200 |

Embeddings have no output: rule 2 charges an estimate of their input.`
}

function faults(): string {
  return `## Errors

All errors have the same shape, with a code in \`error.code\` and a message for people in \`error.message\`. After a stream has started, an
error is its last event instead. If a retry makes sense, \`retry-after\` says when.

<details>
<summary>All errors, their causes, and what to do</summary>

${errorTable()}

</details>`
}

/**
 * A replacer for `JSON.stringify` that prints a TypeBox schema (JSON Schema, draft 7) for OpenAPI 3.0, which has no
 * `const`, no type `null`, one `example`, and flags for exclusive bounds. Texts for error messages are left out.
 */
function inDialect(key: string, value: unknown): unknown {
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
