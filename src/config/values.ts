import { KindGuard, type TSchema } from "@sinclair/typebox"

/** Values of the configuration: durations, sizes, URLs, mappings and defaults. */

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/**
 * A duration: a whole number and a unit. The unit is required, because a bare number would be ambiguous. The number of
 * digits limits it to some days, because a timer of more than 2^31 - 1 ms would fire immediately.
 */
export const DURATION = /^(?:\d{1,8}ms|\d{1,6}s|\d{1,4}m|\d{1,2}h)$/

/** `50ms`, `15s`, `5m`, `1h` in milliseconds; null when `text` is no duration. */
export function parseDuration(text: string): number | null {
  const unit_ms = UNIT_MS[text.replace(/^\d+/, "")]
  return DURATION.test(text) && unit_ms !== undefined ? Number.parseInt(text, 10) * unit_ms : null
}

const UNIT_BYTES: Readonly<Record<string, number>> = {
  B: 1,
  KB: 1_000,
  KiB: 1_024,
  MB: 1_000_000,
  MiB: 1_048_576,
}

/** A size: a whole number above zero and a unit. Below 1 GiB, the limit of a string. */
export const SIZE = /^(?!0+[BKM])(?:\d{1,9}B|\d{1,6}Ki?B|\d{1,3}Mi?B)$/

/** `20MiB`, `512KiB`, `8MB`, `64B` in bytes; null when `text` is no size. */
export function parseSize(text: string): number | null {
  const unit_bytes = UNIT_BYTES[text.replace(/^\d+/, "")]
  return SIZE.test(text) && unit_bytes !== undefined ? Number.parseInt(text, 10) * unit_bytes : null
}

/** Removes trailing slashes. A loop, because a regular expression can take quadratic time here. */
export function withoutSlashes(url: string): string {
  let end = url.length
  while (url[end - 1] === "/") end--
  return url.slice(0, end)
}

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
