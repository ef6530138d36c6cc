import type { Static, TObject } from "@sinclair/typebox"

/** The fields of a record that a schema has, in the schema's order. All other fields of the record stay inside. */
export function bodyOf<Schema extends TObject>(
  { properties }: Schema,
  record: Static<Schema>,
): Static<Schema> {
  const given = new Map(Object.entries(record))
  const names = Object.keys(properties).filter((name) => given.has(name))
  return Object.fromEntries(names.map((name) => [name, given.get(name)]))
}
