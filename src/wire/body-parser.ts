import type { Static, TSchema } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { invalidBody } from "./fault.ts"

/** A function that checks a parsed body; throws `invalid_request` with the path at fault (D15, D18). */
export function parserOf<Schema extends TSchema>(schema: Schema): (body: unknown) => Static<Schema> {
  const compiled = TypeCompiler.Compile(schema)
  return (body) => {
    if (compiled.Check(body)) return body
    throw invalidBody(schema, body)
  }
}
