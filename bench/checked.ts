import type { Static, TSchema } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"

/** `value`, which came from another process, as what it must be; throws when it is something else. */
export function checked<S extends TSchema>(schema: S, value: unknown): Static<S> {
  if (Value.Check(schema, value)) return value
  const fault = Value.Errors(schema, value).First()
  throw new Error(`unexpected answer: ${fault?.path || "/"}: ${fault?.message ?? "unknown"}`)
}
