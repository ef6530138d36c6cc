import { isObject } from "../../src/wire/usage.ts"
import { type Document, misfit, type Schema } from "./json-schema.ts"

/** Written by a background task, up to a second after the call: null or a time, whatever the example has. */
const WRITTEN_LATER = "last_used_at"

/**
 * Where `real` is not what `example` promises, or null. The same fields, of the same types; alike to the letter where a
 * value is one of the schema's words, a truth value or null; any text or number where it is not. More fields than the
 * example has may only come where the schema says so.
 */
export function unlike(
  document: Document,
  schema: Schema,
  example: unknown,
  real: unknown,
  at = "$",
): string | null {
  const known = resolved(document, schema, example)
  if (example === null || real === null || typeof example === "boolean" || known.enum !== undefined) {
    return example === real ? null : `${at}: ${JSON.stringify(real)}, not ${JSON.stringify(example)}`
  }
  if (Array.isArray(example)) return unlikeList(document, known, example, real, at)
  if (isObject(example)) return unlikeObject(document, known, example, real, at)
  return typeof example === typeof real ? null : `${at}: ${typeof real}, not ${typeof example}`
}

function unlikeList(
  document: Document,
  schema: Schema,
  example: readonly unknown[],
  real: unknown,
  at: string,
) {
  if (!Array.isArray(real)) return `${at}: no list`
  if ((example.length === 0) !== (real.length === 0)) return `${at}: ${real.length} entries`
  const items = isObject(schema.items) ? schema.items : {}
  for (const [index, item] of real.entries()) {
    const faults = example.map((wanted) => unlike(document, items, wanted, item, `${at}[${index}]`))
    if (faults.every((fault) => fault !== null)) return faults[0] ?? null
  }
  return null
}

function unlikeObject(
  document: Document,
  schema: Schema,
  example: Readonly<Record<string, unknown>>,
  real: unknown,
  at: string,
) {
  if (!isObject(real)) return `${at}: no object`
  const missing = Object.keys(example).filter((name) => !(name in real))
  if (missing.length > 0) return `${at}: ${missing.join(", ")} missing`
  const further = Object.keys(real).filter((name) => !(name in example))
  const open = schema.additionalProperties !== undefined && schema.additionalProperties !== false
  if (further.length > 0 && !open) return `${at}: ${further.join(", ")} too many`
  const parts = isObject(schema.properties) ? schema.properties : {}
  for (const [name, wanted] of Object.entries(example)) {
    if (name === WRITTEN_LATER) continue
    const part = parts[name]
    const fault = unlike(document, isObject(part) ? part : {}, wanted, real[name], `${at}.${name}`)
    if (fault !== null) return fault
  }
  return null
}

/** The schema itself: behind its reference, and of several the one that the example fits. */
function resolved(document: Document, schema: Schema, example: unknown): Schema {
  if (typeof schema.$ref === "string") {
    return resolved(document, document.components.schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {}, example)
  }
  if (!Array.isArray(schema.anyOf)) return schema
  const fitting = schema.anyOf.find((one) => isObject(one) && misfit(document, one, example) === null)
  return isObject(fitting) ? resolved(document, fitting, example) : {}
}
