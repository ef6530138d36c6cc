import type { Schema } from "./json-schema.ts"

/** The OpenAPI document of a gateway, as far as the tests read it. */

export interface Media {
  readonly schema?: Schema
  readonly example?: unknown
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
}

export interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly example?: unknown
  readonly schema?: Schema
}

export interface Operation {
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly security?: readonly Readonly<Record<string, unknown>>[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> }
  readonly responses: Readonly<Record<string, Described>>
}

export interface Described {
  readonly description?: string
  readonly headers?: Readonly<Record<string, unknown>>
  readonly content?: Readonly<Record<string, Media>>
}

export interface Document {
  readonly openapi: string
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly servers: readonly { readonly url: string }[]
  readonly tags: readonly { readonly name: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>
    readonly securitySchemes: Readonly<Record<string, unknown>>
  }
}

export interface Entry {
  /** `POST /v1/chat/completions` */
  readonly name: string
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

export function entriesOf(document: Document): Entry[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      method: method.toUpperCase(),
      path,
      operation,
    })),
  )
}

/** What the query string of an operation must have, as its examples. */
export function requiredQuery({ operation }: Entry): Readonly<Record<string, string>> {
  const required = (operation.parameters ?? []).filter(
    (parameter) => parameter.in === "query" && parameter.required,
  )
  return Object.fromEntries(required.map(({ name, example }) => [name, String(example)]))
}

const ERROR = "#/components/schemas/Error"

/** The error examples of an operation, by their codes: D16's body each. */
export function errorsOf({ operation }: Entry): Map<string, { status: number; body: unknown }> {
  return new Map(
    Object.entries(operation.responses).flatMap(([status, { content }]) => {
      const media = content?.["application/json"]
      if (media?.schema?.$ref !== ERROR) return []
      return Object.entries(media.examples ?? {}).map(
        ([code, { value }]) => [code, { status: Number(status), body: value }] as const,
      )
    }),
  )
}

/** What an operation answers that is no error, by status. `default` is the provider's own errors. */
export function answersOf({ operation }: Entry): [status: number, described: Described][] {
  return Object.entries(operation.responses)
    .filter(
      ([status, { content }]) =>
        status !== "default" && content?.["application/json"]?.schema?.$ref !== ERROR,
    )
    .map(([status, described]) => [Number(status), described])
}
