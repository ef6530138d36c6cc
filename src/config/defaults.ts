import { KindGuard, type TSchema } from "@sinclair/typebox"

/**
 * Fills in the schema's defaults at keys that are missing or have no value. Invalid values stay unchanged, so that the
 * check can report them; TypeBox's own `Default` would replace them.
 */
export function complete(schema: TSchema, value: unknown): unknown {
  const given = value ?? schema.default
  if (KindGuard.IsArray(schema)) {
    return Array.isArray(given) ? given.map((item) => complete(schema.items, item)) : given
  }
  if (!isMapping(given)) return given
  if (KindGuard.IsRecord(schema)) {
    const [item] = Object.values(schema.patternProperties)
    return item === undefined ? given : mapEntries(given, (entry) => complete(item, entry))
  }
  if (KindGuard.IsObject(schema)) {
    return {
      ...given,
      ...mapEntries(schema.properties, (property, key) =>
        complete(property, Object.hasOwn(given, key) ? given[key] : undefined),
      ),
    }
  }
  return given
}

/** Whether a value of YAML or JSON is a mapping of keys to values. */
export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

/** The same keys with other values; a key named `__proto__` stays a key. */
export function mapEntries<T>(
  mapping: Readonly<Record<string, T>>,
  change: (value: T, key: string) => unknown,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(mapping).map(([key, value]) => [key, change(value, key)]))
}
