import type { TSchema } from "@sinclair/typebox"
import { Value, type ValueError, ValueErrorType } from "@sinclair/typebox/value"
import { GatewayError } from "../errors.ts"

/** A fault in data from outside: where it is, and what was expected. Never what was found. */
export interface Fault {
  /** `messages[0].role`; empty for the whole. */
  readonly path: string
  /** `a string`: completes the sentence "expected …". */
  readonly expected: string
}

/** The keyword of a schema for what it expects, in words. OpenAPI allows keywords that begin with `x-`. */
export const EXPECTED = "x-expected"

/** Every place where `value` does not fit `schema`, in the schema's order, one fault for each place. */
export function* faults(schema: TSchema, value: unknown): Generator<Fault> {
  const seen = new Set<string>()
  for (const error of Value.Errors(schema, value)) {
    if (seen.has(error.path)) continue
    seen.add(error.path)
    yield { path: pathOf(keysOf(error.path)), expected: expectation(error) }
  }
}

/** A path can end in any key of the client. This much of it is shown, which is enough to find a typo. */
const SHOWN_CHARACTERS = 100

/** `invalid_request` for the first fault of a body: 400, with the path as its `param` (D15, D30). */
export function invalidBody(schema: TSchema, body: unknown): GatewayError {
  const first = Value.Errors(schema, body).First()
  if (first === undefined) throw new Error("the schema refused a body but reports no error")
  return bodyFault(first)
}

/** The same for a known fault. */
export function bodyFault(error: ValueError): GatewayError {
  const param = pathOf(keysOf(error.path)).slice(0, SHOWN_CHARACTERS)
  const expected = expectation(error)
  if (param !== "") return invalidField(param, expected)
  return invalidRequest(`The request body: expected ${expected}.`)
}

/** `invalid_request` with a message of its own, and the field or parameter at fault, if it is one. */
export function invalidRequest(message: string, param?: string): GatewayError {
  return new GatewayError("invalid_request", { message, ...(param !== undefined && { param }) })
}

/** `invalid_request` for an id of the caller's that is taken by another account. */
export function takenId(what: string): GatewayError {
  return invalidRequest(
    `A ${what} of another account already has this id. Nothing was changed. Use a new id for a new ${what}.`,
    "id",
  )
}

/** `invalid_request` for a field or parameter that is not what was `expected`. */
export function invalidField(param: string, expected: string): GatewayError {
  return invalidRequest(`\`${param}\`: expected ${expected}.`, param)
}

/** The first fault of a query: an unknown name, which is not repeated (D16), before others. A name given twice is a list. */
export function queryFault(errors: readonly ValueError[]): GatewayError {
  const unknown = errors.find(({ type }) => type === ValueErrorType.ObjectAdditionalProperties)
  if (unknown !== undefined) return unknownParameter(unknown.schema)
  const [first] = errors
  if (first === undefined) throw new Error("the schema refused a query string but reports no error")
  const param = pathOf(keysOf(first.path))
  if (!Array.isArray(first.value)) return invalidField(param, expectation(first))
  return invalidRequest(`\`${param}\` is set more than once. Send it once.`, param)
}

/** `invalid_request` for a parameter that a query string of this schema does not have. */
export function unknownParameter({ properties }: TSchema): GatewayError {
  const names = Object.keys(properties)
  const message =
    names.length === 0
      ? "This endpoint accepts no query parameters."
      : `Unknown query parameter. This endpoint accepts: ${names.join(", ")}.`
  return invalidRequest(message)
}

/** Keys from the root down in the way people write them: `models[0].price`. */
export function pathOf(keys: readonly string[]): string {
  return keys.map((key, at) => (/^\d+$/.test(key) ? `[${key}]` : at === 0 ? key : `.${key}`)).join("")
}

/** The keys of a JSON pointer (RFC 6901). */
function keysOf(pointer: string): string[] {
  const keys = pointer.split("/").slice(1)
  return keys.map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"))
}

function expectation({ type, schema, message }: ValueError): string {
  if (type === ValueErrorType.ObjectAdditionalProperties) return knownKeys(schema)
  const words: unknown = schema[EXPECTED]
  return typeof words === "string" ? words : message.replace(/^Expected /, "").toLowerCase()
}

function knownKeys({ properties, patternProperties }: TSchema): string {
  return properties === undefined
    ? `a name that matches ${Object.keys(patternProperties).join(" or ")}`
    : `a known key: ${Object.keys(properties).join(", ")}`
}
