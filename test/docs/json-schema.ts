import { Ajv, type ValidateFunction } from "ajv"
import formats from "ajv-formats"
import { isObject } from "../../src/wire/usage.ts"

/** A schema of the OpenAPI document, as far as it uses keywords. */
export type Schema = Readonly<Record<string, unknown>>

export type Document = { readonly components: { readonly schemas: Readonly<Record<string, Schema>> } }

/** Each document's schemas, by their text: most responses have the same few. */
const compiled = new WeakMap<Document, (text: string) => ValidateFunction>()

/** Where `value` does not fit a schema of OpenAPI 3.0.3, or null. */
export function misfit(document: Document, schema: Schema, value: unknown): string | null {
  const compile = compiled.get(document) ?? compilerOf(document)
  compiled.set(document, compile)
  const fits = compile(JSON.stringify(schema))
  return fits(value) ? null : JSON.stringify(fits.errors)
}

/** Throws on an unknown keyword, so that nothing passes unchecked. */
function compilerOf({ components }: Document): (text: string) => ValidateFunction {
  const ajv = new Ajv({ strictTypes: false, inlineRefs: false, validateSchema: false })
  formats.default(ajv, ["uuid", "date", "date-time"])
  ajv.addVocabulary(["components", "example", "x-unit"])
  ajv.addSchema(readable(JSON.stringify({ components: { schemas: components.schemas } })), "document")
  const known = new Map<string, ValidateFunction>()
  return (text) => {
    const fits = known.get(text) ?? ajv.compile(readable(text))
    known.set(text, fits)
    return fits
  }
}

/** Resolves references within the document, and makes `nullable` beside alternatives one more of them, because Ajv accepts it only beside a type. */
function readable(text: string): Schema {
  const schema: unknown = JSON.parse(text, (_, part: unknown) => {
    if (!isObject(part)) return part
    if (typeof part.$ref === "string") return { $ref: `document${part.$ref}` }
    if (part.nullable !== true || !Array.isArray(part.anyOf)) return part
    const { nullable: __, ...rest } = part
    return { ...rest, anyOf: [...part.anyOf, { enum: [null] }] }
  })
  return isObject(schema) ? schema : {}
}
