import type { ElysiaSwaggerConfig } from "@elysiajs/swagger"
import { type Static, type TObject, type TSchema, Type } from "@sinclair/typebox"
import type { DocumentDecoration } from "elysia"
import { catalogue, type Detail, type ErrorCode, errorBody, GatewayError } from "../../errors.ts"
import { listOf } from "../../wire/admin.ts"
import { EXPECTED, invalidField, unknownParameter } from "../../wire/fault.ts"
import { LIST_FORMATS, MEDIA_TYPES } from "../list-formats.ts"
import { EXAMPLE_ID, exampleOf } from "./example.ts"

/** Descriptions of routes for the API reference, beside their schemas. */

/** Keywords that carry the description of an answer and the named examples of a schema. */
const ANSWER = "x-answer"
const EXAMPLES = "x-examples"
/** The extension with the body of a request, because the plugin would repeat it for every type that Elysia can parse. */
export const BODY = "x-body"

export type Documentation = NonNullable<ElysiaSwaggerConfig["documentation"]>
type Components = NonNullable<Documentation["components"]>
type Responses = NonNullable<DocumentDecoration["responses"]>

/** The cookie of a session of the console (D50). */
export const SESSION_COOKIE = "tollgate_session"

/** The accepted credentials: a client's key as a bearer token or as `x-api-key` (D20), the operator's token, or the console. */
type CredentialScheme = "apiKey" | "xApiKey" | "adminToken" | "adminSession"

const securitySchemes: Record<CredentialScheme, NonNullable<Components["securitySchemes"]>[string]> = {
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
    description:
      "The admin token: the value of `TOLLGATE_ADMIN_TOKEN`, or the token of an operator: `tgo_…`.",
  },
  adminSession: {
    type: "apiKey",
    in: "cookie",
    name: SESSION_COOKIE,
    description:
      "The session of the console. All of `/admin` accepts it in place of the admin token, from pages of this gateway.",
  },
}

export interface RouteDescription {
  /** The name generated clients give the method; unique in the document. */
  readonly operationId: string
  readonly tag: Tag
  readonly summary: string
  /** Markdown. */
  readonly description: string
  /** Any one of them is sufficient. Without any, the operation is public. */
  readonly credentials?: readonly CredentialScheme[]
  /** Headers that the handler checks, because Elysia would check them before the key. */
  readonly headers?: TObject
  /** The field of the body or the query string that is at fault in the example of `invalid_request`. Default: an unknown parameter. */
  readonly invalid?: string
  /**
   * Errors besides those of every route with a body or a query string. Of several with one code the last one counts.
   * `internal_error` is added, except to routes of the service, which cannot fail.
   */
  readonly errors?: readonly ErrorExample[]
}

/** A route's schemas, which Elysia validates unless the handler parses the body itself (`parse: "none"`). */
export interface Schemas {
  readonly params?: TObject
  readonly query?: TObject
  readonly parse?: "none"
  readonly body?: TSchema
  readonly response: Readonly<Record<number, TSchema>>
}

/** A code of the catalogue, with the message of its example if that differs from the catalogue's. */
export type ErrorExample =
  | ErrorCode
  | ({ readonly code: ErrorCode } & Pick<Detail, "message" | "param" | "fields">)

export function errorOf({ code, ...detail }: Exclude<ErrorExample, ErrorCode>): GatewayError {
  return new GatewayError(code, detail)
}

export const notFound = (message: string) => ({ code: "not_found", message }) as const satisfies ErrorExample

/** The row. Throws the error if it is null. */
export function found<Row>(row: Row | null, missing: Exclude<ErrorExample, ErrorCode>): Row {
  if (row === null) throw errorOf(missing)
  return row
}

type ChangeResult = { readonly outcome: string }
type Refusal = ErrorExample | (() => GatewayError)

/** The result of a change. Throws the error of its outcome if that is one of the refusals. */
export function accepted<
  Result extends ChangeResult,
  Given extends { readonly [Name in Result["outcome"]]?: Refusal },
>(result: Result, refusals: Given): Exclude<Result, { readonly outcome: keyof Given }>
export function accepted(result: ChangeResult, refusals: Readonly<Record<string, Refusal>>): ChangeResult {
  const refusal = refusals[result.outcome]
  if (refusal === undefined) return result
  if (typeof refusal === "function") throw refusal()
  throw typeof refusal === "string" ? new GatewayError(refusal) : errorOf(refusal)
}

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
  { name: "Operators", description: "For operators: tokens with roles, and the log of changes." },
  { name: "Ledger", description: "For operators: calls, usage, statistics and the audit." },
  { name: "Service", description: "Health, metrics and this reference." },
] as const

export type Tag = (typeof tags)[number]["name"]

/** The hooks of a route: its schemas, and the description that is made of them. */
export function described<Route extends RouteDescription & Schemas>(route: Route) {
  const { operationId, tag, summary, description, credentials, headers, invalid, errors, ...schemas } = route
  return { ...schemas, detail: operation(route) }
}

export function compatible<Hooks extends { readonly detail: DocumentDecoration }>(
  hooks: Hooks,
  operationId: string,
): Hooks {
  return {
    ...hooks,
    detail: { ...hooks.detail, operationId, summary: `${hooks.detail.summary} (compatible path)` },
  }
}

/** The description of a route. It replaces the plugin's own. */
export function operation(route: RouteDescription & Schemas) {
  const { tag, summary, description, operationId, credentials = [] } = route
  const errors = faultsOf(route)
  const parameters = [
    ...parametersIn("path", route.params),
    ...parametersIn("query", route.query),
    ...parametersIn("header", route.headers),
    ...(isList(route) ? [FORMAT] : []),
  ]
  const answers = Object.entries(route.response).map(([status, schema]) => [
    status,
    answerOf(schema, formsOf(route)),
  ])
  const responses: Responses = {
    ...Object.fromEntries(answers),
    ...errorAnswers(errors),
    ...(errors.includes("upstream_error") && { default: RELAYED }),
  }
  const extensions: Record<string, unknown> = {
    parameters,
    ...(route.body !== undefined && { [BODY]: { required: true, content: media(route.body) } }),
  }
  return {
    operationId,
    tags: [tag],
    summary,
    description,
    security: credentials.map((name) => ({ [name]: [] })),
    ...extensions,
    responses,
  }
}

function faultsOf({
  tag,
  body,
  query,
  invalid,
  errors = [],
}: RouteDescription & Schemas): readonly ErrorExample[] {
  const input = body ?? query
  return [
    ...(tag === "Service" ? [] : (["internal_error"] as const)),
    ...(input === undefined ? [] : [invalidFault(input, invalid)]),
    ...(body === undefined ? [] : BODY_ERRORS),
    ...errors,
  ]
}

const BODY_ERRORS = ["request_timeout", "request_too_large", "unsupported_media_type"] as const

function invalidFault(schema: TSchema, field: string | undefined): ErrorExample {
  const { message, detail } =
    field === undefined ? unknownParameter(schema) : invalidField(field, schema.properties[field][EXPECTED])
  return { code: "invalid_request", message, ...(detail.param !== undefined && { param: detail.param }) }
}

function parametersIn(
  place: "path" | "query" | "header",
  { properties = {}, required = [] }: Partial<TObject> = {},
) {
  return Object.entries(properties).map(([name, { description, examples, ...schema }]) => {
    const [example] = examples ?? []
    return {
      name,
      in: place,
      required: required.includes(name),
      description,
      schema,
      ...(example !== undefined && { example }),
    }
  })
}

/** True for a list of operators or of a key's account, which can also be CSV or NDJSON (D105). */
function isList({ tag, body, response }: RouteDescription & Schemas): boolean {
  const is_read = body === undefined && tag !== "Models" && tag !== "Service" && tag !== "Calls"
  return is_read && response[200]?.properties?.data?.type === "array"
}

const FORMAT = {
  name: "format",
  in: "query",
  required: false,
  description:
    "The format of the list: `json`, `csv` or `ndjson`, with one line for each entry of `data`. Default: by `Accept`. The next page is in the header `link`.",
  schema: { type: "string", enum: [...LIST_FORMATS], default: "json" },
}

const TEXT = { schema: { type: "string" } }
const LINES = Object.fromEntries(Object.values(MEDIA_TYPES).map((type) => [type, TEXT]))

/** The formats of an answer besides JSON: of a list, and of a route that has them as its parameter `format`. */
function formsOf(route: RouteDescription & Schemas) {
  if (route.query?.properties.format !== undefined) return { ...LINES, "text/html": TEXT }
  return isList(route) ? LINES : {}
}

function answerOf({ [ANSWER]: description, ...schema }: TSchema, forms: Readonly<Record<string, object>>) {
  return {
    description,
    headers: headerReferences("x-request-id", "request-id"),
    ...(schema.type !== "void" && { content: { ...media(schema), ...forms } }),
  }
}

/** A body by its media types: JSON, unless the schema, or alternatives of it, say what they are. */
function media(schema: Record<string, unknown>): Readonly<Record<string, object>> {
  const { anyOf, contentMediaType, contentSchema, examples, [EXAMPLES]: named, ...json } = schema
  const alternatives: readonly Record<string, unknown>[] = Array.isArray(anyOf) ? anyOf : []
  if (alternatives.some((one) => one.contentMediaType !== undefined))
    return Object.assign({}, ...alternatives.map(media))
  if (typeof contentMediaType === "string") {
    const [example] = Array.isArray(examples) ? examples : []
    return {
      [contentMediaType]: {
        schema: contentSchema ?? { type: "string" },
        ...(example !== undefined && { example }),
      },
    }
  }
  const values = Object.entries(named ?? {}).map(([name, value]) => [name, { value }])
  const whole = {
    ...json,
    ...(anyOf !== undefined && { anyOf }),
    ...(examples !== undefined && { examples }),
  }
  return {
    "application/json": {
      schema: whole,
      ...(values.length > 0 && { examples: Object.fromEntries(values) }),
    },
  }
}

/** Changes to the generated example of a schema, by the name of the resulting example. */
type Variants<S extends TSchema> = Readonly<Record<string, Partial<Static<S>>>>

/** `schema` as a successful answer of a route, with a description. An object also gets examples that are generated from the schema. */
export function answer<S extends TSchema>(
  description: string,
  schema: S,
  variants: Variants<S> = { example: {} },
): S {
  const described = { ...schema, [ANSWER]: description }
  if (schema.properties === undefined || EXAMPLES in schema) return described
  const examples = Object.entries(variants).map(([name, changes]) => [name, exampleOf(schema, changes)])
  return shown(described, Object.fromEntries(examples))
}

/** A page of a list as a successful answer. Its example has one entry for each of `changes`, or one generated entry without them. */
export function page<S extends TSchema>(
  entries: string,
  schema: S,
  ...changes: readonly Partial<Static<S>>[]
) {
  const data = (changes.length === 0 ? [{}] : changes).map((each) => exampleOf(schema, each))
  return { ...shown(listOf(schema), { [entries]: { data, next: null } }), [ANSWER]: `A page of ${entries}.` }
}

export function shown<S extends object>(schema: S, examples: Examples): S {
  return { ...schema, [EXAMPLES]: examples }
}

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
export function errorAnswers(errors: readonly ErrorExample[]): Responses {
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

/** Every code of the catalogue, in the catalogue's order, as a Markdown table. */
export function errorTable(): string {
  const rows = Object.entries(catalogue).map(
    ([code, { status, cause, cure }]) => `| ${status} | \`${code}\` | ${cause} | ${cure} |`,
  )
  return ["| Status | Code | Cause | What to do |", "|---|---|---|---|", ...rows].join("\n")
}

/** The cause of one code and what to do about it, in Markdown. */
function adviceText(code: ErrorCode): string {
  const { cause, cure } = catalogue[code]
  return `\`${code}\`: ${cause} **What to do:** ${cure}`
}

function adviceHeaders(code: ErrorCode): string[] {
  const entry = catalogue[code]
  return [
    ...("retry_after_s" in entry || code === "rate_limited" ? ["retry-after"] : []),
    ...("should_retry" in entry ? ["x-should-retry"] : []),
  ]
}

/** The `param` of faults that always have the same one. */
const params: Partial<Record<ErrorCode, string>> = { model_not_allowed: "model", model_not_found: "model" }

function errorExample(code: ErrorCode, { message, param = params[code], fields }: Detail) {
  const detail = { ...(message && { message }), ...(param && { param }), ...(fields && { fields }) }
  return errorBody(new GatewayError(code, detail), EXAMPLE_ID)
}

function headerReferences(...names: string[]): Record<string, { $ref: string }> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

const REQUEST_ID_HEADER: NonNullable<Components["headers"]>[string] = {
  description: "The request id. For a billed call it is also the id of the call in the ledger.",
  schema: { type: "string", format: "uuid" },
  example: EXAMPLE_ID,
}

const orNull = (description: string) => Type.Union([Type.String(), Type.Null()], { description })
const someText = (description: string) => Type.Optional(Type.String({ description }))

const ErrorBody: TSchema = Type.Object(
  {
    type: Type.Literal("error"),
    error: Type.Object({
      type: Type.String({ description: "The type of the error." }),
      message: Type.String({ description: "What happened and what to do, for people." }),
      param: orNull("The request field that caused the error."),
      code: orNull(
        "A code from this reference, or the provider's own code if the gateway passes on its error.",
      ),
      needed: someText(
        "The amount in USD that the call needs to hold (`insufficient_balance`, `spending_limit_reached`), or the amount in the unit of the budget (`budget_reached`, `rate_limited`).",
      ),
      available: someText("The amount in USD that the account can hold (`insufficient_balance`)."),
      missing: someText("The price that the model would need for the request (`invalid_request`)."),
      max_tokens: Type.Optional(
        Type.Integer({
          minimum: 1,
          description:
            "The largest `max_tokens` that fits, if any does (`insufficient_balance`, `spending_limit_reached`, `budget_reached`, `rate_limited`).",
        }),
      ),
      budget: Type.Optional(
        Type.Object(
          {
            id: Type.String({ format: "uuid" }),
            name: Type.String(),
            selector: Type.String(),
            selected: orNull("The id of the key, the path of the group or the name of the model."),
            unit: Type.String(),
            per: Type.String(),
          },
          { description: "The budget that has too little left (`budget_reached`, `rate_limited`)." },
        ),
      ),
      limit: someText("The amount of the budget, in its unit (`budget_reached`, `rate_limited`)."),
      spent: someText(
        "The spending of settled calls in the budget's current period (`budget_reached`). For a budget per minute, the part that calls have taken and that has not refilled (`rate_limited`).",
      ),
      held: someText(
        "The amount that open calls hold in the budget (`budget_reached`). For a budget per minute, the room that is kept for a call that was refused before (`rate_limited`).",
      ),
      remaining: someText(
        "The rest of the limit, in USD (`spending_limit_reached`) or in the unit of the budget (`budget_reached`, `rate_limited`).",
      ),
      resets_at: Type.Optional(
        orNull("When the budget's next period begins; null for a total and a minute (`budget_reached`)."),
      ),
      id: someText(
        "The id under which the request may have created something (`ledger_unavailable`). Without it, nothing was created. Repeat the request with it as `id`.",
      ),
      retryable: Type.Optional(
        Type.Boolean({
          description:
            "Whether the call fits once the open calls have finished, or after `Retry-After` (`budget_reached`, `rate_limited`).",
        }),
      ),
    }),
    request_id: Type.String({ format: "uuid" }),
  },
  { description: "The shape of all errors. Both SDK families can read it." },
)

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
  schemas: { Error: ErrorBody },
}
