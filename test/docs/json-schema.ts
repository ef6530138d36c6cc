/** A schema of the OpenAPI document, as far as it uses keywords. */
export type Schema = Readonly<Record<string, unknown>>

export type Document = { readonly components: { readonly schemas: Readonly<Record<string, Schema>> } }

/** Where `value` does not fit a schema of OpenAPI 3.0.3, or null. A keyword that is not known here throws: nothing passes unread. */
export function misfit(document: Document, schema: Schema, value: unknown, at = "$"): string | null {
  if (typeof schema.$ref === "string") {
    const name = schema.$ref.split("/").at(-1) ?? ""
    const named = document.components.schemas[name]
    return named === undefined ? `${at}: no schema ${name}` : misfit(document, named, value, at)
  }
  if (value === null && schema.nullable === true) return null
  for (const [keyword, wanted] of Object.entries(schema)) {
    const check = KEYWORDS[keyword]
    if (check === undefined) throw new Error(`${at}: unknown keyword ${keyword}`)
    const fault = check({
      wanted,
      value,
      schema,
      at,
      within: (part, of, where) => misfit(document, part, of, where),
    })
    if (fault !== null) return fault
  }
  return null
}

interface Check {
  readonly wanted: unknown
  readonly value: unknown
  readonly schema: Schema
  readonly at: string
  within(schema: Schema, value: unknown, at: string): string | null
}

const ignored = () => null

const KEYWORDS: Readonly<Record<string, (check: Check) => string | null>> = {
  title: ignored,
  "x-unit": ignored,
  description: ignored,
  example: ignored,
  default: ignored,
  nullable: ignored,
  required: ({ wanted, value, at }) => {
    const missing = isObject(value) ? listOf(wanted).filter((name) => !(String(name) in value)) : []
    return missing.length === 0 ? null : `${at}: ${missing.join(", ")} missing`
  },
  type: ({ wanted, value, at }) => (typeOf(value, wanted) ? null : `${at}: no ${String(wanted)}`),
  enum: ({ wanted, value, at }) =>
    listOf(wanted).includes(value) ? null : `${at}: none of ${String(wanted)}`,
  format: ({ wanted, value, at }) =>
    FORMATS[String(wanted)]?.test(String(value)) ? null : `${at}: no ${String(wanted)}`,
  pattern: ({ wanted, value, at }) =>
    typeof value !== "string" || new RegExp(String(wanted)).test(value) ? null : `${at}: against its pattern`,
  minimum: bound((value, least, exclusive) => (exclusive ? value > least : value >= least)),
  maximum: bound((value, most, exclusive) => (exclusive ? value < most : value <= most)),
  exclusiveMinimum: ignored,
  exclusiveMaximum: ignored,
  minLength: length("string", (size, least) => size >= least),
  maxLength: length("string", (size, most) => size <= most),
  minItems: length("array", (size, least) => size >= least),
  maxItems: length("array", (size, most) => size <= most),
  items: ({ wanted, value, at, within }) =>
    Array.isArray(value) && isObject(wanted)
      ? firstOf(value.map((item, index) => within(wanted, item, `${at}[${index}]`)))
      : null,
  properties: ({ wanted, value, at, within }) =>
    isObject(value) && isObject(wanted)
      ? firstOf(
          Object.entries(wanted).map(([name, part]) =>
            name in value && isObject(part) ? within(part, value[name], `${at}.${name}`) : null,
          ),
        )
      : null,
  additionalProperties: ({ wanted, value, schema, at }) => {
    const known = isObject(schema.properties) ? Object.keys(schema.properties) : []
    const further = isObject(value) ? Object.keys(value).filter((name) => !known.includes(name)) : []
    return wanted !== false || further.length === 0 ? null : `${at}: ${further.join(", ")} not allowed`
  },
  anyOf: ({ wanted, value, at, within }) =>
    listOf(wanted).some((part) => isObject(part) && within(part, value, at) === null)
      ? null
      : `${at}: no alternative fits`,
}

const FORMATS: Readonly<Record<string, RegExp>> = {
  uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/,
  date: /^\d{4}-\d{2}-\d{2}$/,
  "date-time": /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/,
}

function bound(holds: (value: number, limit: number, exclusive: boolean) => boolean) {
  return ({ wanted, value, schema, at }: Check) => {
    const exclusive = schema.exclusiveMinimum === true || schema.exclusiveMaximum === true
    return typeof value !== "number" || holds(value, Number(wanted), exclusive)
      ? null
      : `${at}: out of bounds`
  }
}

function length(of: "string" | "array", holds: (size: number, limit: number) => boolean) {
  return ({ wanted, value, at }: Check) => {
    const sized = of === "string" ? typeof value === "string" && value : Array.isArray(value) && value
    return sized === false || holds(sized.length, Number(wanted)) ? null : `${at}: wrong length`
  }
}

function typeOf(value: unknown, type: unknown): boolean {
  switch (type) {
    case "object":
      return isObject(value)
    case "array":
      return Array.isArray(value)
    case "integer":
      return Number.isInteger(value)
    case "string":
    case "number":
    case "boolean":
      return typeof value === type
    default:
      throw new Error(`unknown type ${String(type)}`)
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function firstOf(faults: readonly (string | null)[]): string | null {
  return faults.find((fault) => fault !== null) ?? null
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}
