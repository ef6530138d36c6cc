import type { ElysiaSwaggerConfig } from "@elysiajs/swagger"
import { type TObject, type TSchema, Type } from "@sinclair/typebox"
import type { DocumentDecoration } from "elysia"
import { catalogue, type Detail, type ErrorCode, errorBody, GatewayError } from "../errors.ts"
import { adviceText } from "./docs/error-table.ts"

/** What a route declares for the API reference, besides its schemas. */

/** Extensions that carry the errors and the headers of an operation until the document is complete. */
export const ERRORS = "x-errors"
export const HEADERS = "x-headers"
/** Keywords that carry the description of an answer and the examples of a schema. */
export const ANSWER = "x-answer"
export const EXAMPLES = "x-examples"

/** The parts of a document besides its operations. */
export type Documentation = NonNullable<ElysiaSwaggerConfig["documentation"]>
type Components = NonNullable<Documentation["components"]>
type Responses = NonNullable<DocumentDecoration["responses"]>

/** The cookie of a session of the console (D50). */
export const SESSION_COOKIE = "tollgate_session"

/** The accepted credentials: a client's key as a bearer token or as `x-api-key` (D20), the operator's token, or the console. */
export type Credential = "apiKey" | "xApiKey" | "adminToken" | "adminSession"

const securitySchemes: Record<Credential, NonNullable<Components["securitySchemes"]>[string]> = {
  apiKey: {
    type: "http",
    scheme: "bearer",
    description: "A user API key: `Authorization: Bearer tg_live_…`.",
  },
  xApiKey: {
    type: "apiKey",
    in: "header",
    name: "x-api-key",
    description: "The same user API key, as Anthropic SDKs send it.",
  },
  adminToken: {
    type: "http",
    scheme: "bearer",
    description: "The admin token: the value of `TOLLGATE_ADMIN_TOKEN`.",
  },
  adminSession: {
    type: "apiKey",
    in: "cookie",
    name: SESSION_COOKIE,
    description:
      "The session of the console. All of `/admin` accepts it in place of the admin token, from pages of this gateway.",
  },
}

export interface Operation {
  /** The name generated clients give the method; unique in the document. */
  readonly operationId: string
  readonly tag: Tag
  readonly summary: string
  /** Markdown. */
  readonly description: string
  /** Any one of them is sufficient. Without any, the operation is public. */
  readonly credentials?: readonly Credential[]
  /**
   * Headers that the handler checks itself. Elysia would check them before the key, and read all headers of every
   * request.
   */
  readonly headers?: TObject
  /**
   * The errors of the operation; of several with one code the last one counts. `internal_error` is added, except to
   * those of the service, which touch nothing that could fail.
   */
  readonly errors: readonly Fault[]
}

/** A code of the catalogue, with the message of its example if that differs from the catalogue's. */
export type Fault = ErrorCode | ({ readonly code: ErrorCode } & Pick<Detail, "message" | "param" | "fields">)

/** Values by name. The name is shown as the example's title. */
export type Examples = Readonly<Record<string, unknown>>

export const tags = [
  { name: "Calls", description: "Model calls, billed by the token." },
  {
    name: "Receipts",
    description: "What calls cost: receipts, balance, usage and quotes.",
  },
  { name: "Models", description: "The models that a key can call." },
  { name: "Token count", description: "Token counts of the messages API. Free of charge." },
  { name: "Accounts", description: "For operators: accounts, credits and keys." },
  { name: "Ledger", description: "For operators: calls, usage, statistics and the audit." },
  { name: "Service", description: "Health, metrics and this reference." },
] as const

export type Tag = (typeof tags)[number]["name"]

/** The `detail` of a route. */
export function operation(described: Operation): DocumentDecoration {
  const { tag, summary, description, operationId, credentials = [], headers } = described
  const errors: readonly Fault[] =
    tag === "Service" ? described.errors : ["internal_error", ...described.errors]
  const relayed = errors.includes("upstream_error") ? { default: RELAYED } : {}
  const extensions: Record<string, unknown> = {
    [ERRORS]: { ...errorAnswers(errors), ...relayed },
    [HEADERS]: headers === undefined ? [] : headerParameters(headers),
  }
  return {
    operationId,
    tags: [tag],
    summary,
    description,
    security: credentials.map((name) => ({ [name]: [] })),
    ...extensions,
  }
}

/** The headers as the plugin writes those that Elysia validates. */
function headerParameters({ properties, required = [] }: TObject) {
  return Object.entries(properties).map(([name, { description, examples, ...schema }]) => {
    return { name, in: "header", required: required.includes(name), description, examples, schema }
  })
}

/** `schema` as a successful answer of a route, with a description and examples. */
export function answer<S extends TSchema>(description: string, schema: S, examples: Examples = {}): S {
  return { ...shown(schema, examples), [ANSWER]: description }
}

/** `schema` with examples. */
export function shown<S extends object>(schema: S, examples: Examples): S {
  return { ...schema, [EXAMPLES]: examples }
}

/** A body that is not JSON. */
export function text(media_type: string, example?: string) {
  return Type.String({ contentMediaType: media_type, ...(example !== undefined && { examples: [example] }) })
}

/** A stream of `data:` events, each of this schema until `[DONE]`, with the text of a whole stream as example. */
export function events(schema: TSchema, example: string) {
  return Type.String({ contentMediaType: "text/event-stream", contentSchema: schema, examples: [example] })
}

const RELAYED = {
  description: "An error of the provider, with the provider's own status (D17).",
  headers: headerReferences("x-request-id", "request-id"),
  content: { "application/json": { schema: { type: "object" } } },
}

/** One response per status, with an example for each code in the shape of D16. */
function errorAnswers(errors: readonly Fault[]): Responses {
  const details = new Map(
    errors.map((fault) => (typeof fault === "string" ? [fault, {}] : [fault.code, fault])),
  )
  const by_status = Object.groupBy(details, ([code]) => catalogue[code].status)
  return Object.fromEntries(
    Object.entries(by_status).map(([status, group = []]) => {
      const codes = group.map(([code]) => code)
      const headers = headerReferences("x-request-id", "request-id", ...new Set(codes.flatMap(adviceHeaders)))
      const examples = group.map(([code, detail]) => [code, { value: errorExample(code, detail) }])
      return [
        status,
        {
          description: codes.map(adviceText).join("\n\n"),
          headers,
          content: {
            "application/json": {
              schema: { $ref: "#/components/schemas/Error" },
              examples: Object.fromEntries(examples),
            },
          },
        },
      ]
    }),
  )
}

function adviceHeaders(code: ErrorCode): string[] {
  const entry = catalogue[code]
  return [
    ...("retry_after_s" in entry || code === "rate_limited" ? ["retry-after"] : []),
    ...("should_retry" in entry ? ["x-should-retry"] : []),
  ]
}

export const REQUEST_ID = "019f8b1c-6a2e-7000-9c41-2f6d0e5b7a13"

/** The `param` of faults that always have the same one. */
const params: Partial<Record<ErrorCode, string>> = { model_not_allowed: "model", model_not_found: "model" }

/** The body of a fault, as an example. */
function errorExample(code: ErrorCode, { message, param = params[code], fields }: Detail) {
  const detail = { ...(message && { message }), ...(param && { param }), ...(fields && { fields }) }
  return errorBody(new GatewayError(code, detail), REQUEST_ID)
}

export function headerReferences(...names: string[]): Record<string, { $ref: string }> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

const REQUEST_ID_HEADER: NonNullable<Components["headers"]>[string] = {
  description: "The request id. For a billed call it is also the id of the call in the ledger.",
  schema: { type: "string", format: "uuid" },
  example: REQUEST_ID,
}

/** What the operations refer to. */
export const components: Components = {
  securitySchemes,
  headers: {
    "x-request-id": REQUEST_ID_HEADER,
    "request-id": {
      ...REQUEST_ID_HEADER,
      description: "The same id, under the header name that Anthropic SDKs read.",
    },
    "retry-after": {
      description: "The number of seconds to wait before a retry.",
      schema: { type: "integer", minimum: 0 },
      example: 2,
    },
    "x-should-retry": {
      description: "`false` if a retry cannot help although the status suggests it.",
      schema: { type: "string", enum: ["true", "false"] },
      example: "false",
    },
  },
  schemas: {
    Error: {
      type: "object",
      description: "The shape of all errors. Both SDK families can read it.",
      required: ["type", "error", "request_id"],
      properties: {
        type: { type: "string", enum: ["error"] },
        error: {
          type: "object",
          required: ["type", "message", "param", "code"],
          properties: {
            type: { type: "string", description: "The type of the error." },
            message: { type: "string", description: "What happened and what to do, for people." },
            param: {
              type: "string",
              nullable: true,
              description: "The request field that caused the error.",
            },
            code: {
              type: "string",
              nullable: true,
              description:
                "A code from this reference, or the provider's own code if the gateway passes on its error.",
            },
            needed: {
              type: "string",
              description:
                "The amount in USD that the call needs to hold (`insufficient_balance`, `spending_limit_reached`).",
            },
            available: {
              type: "string",
              description: "The amount in USD that the account can hold (`insufficient_balance`).",
            },
            missing: {
              type: "string",
              description: "The price that the model would need for the request (`invalid_request`).",
            },
            max_tokens: {
              type: "integer",
              minimum: 1,
              description:
                "The largest `max_tokens` that fits, if any does (`insufficient_balance`, `spending_limit_reached`).",
            },
          },
        },
        request_id: { type: "string", format: "uuid" },
      },
    },
  },
}
