import type { Static, TSchema } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"

/** Checks a value that came from another process; throws when it does not match the schema. */
export function checked<S extends TSchema>(schema: S, value: unknown): Static<S> {
  if (Value.Check(schema, value)) return value
  const fault = Value.Errors(schema, value).First()
  throw new Error(`unexpected answer: ${fault?.path || "/"}: ${fault?.message ?? "unknown"}`)
}
