import type { Edits, Upstream } from "../config/config.ts"
import type { FieldTexts } from "../wire/json.ts"
import { isAtAny, withoutValue, withValue } from "../wire/paths.ts"
import type { JsonObject } from "../wire/usage.ts"

/** The body for an upstream, in parts: the request with `changes` and the upstream's own edits. */
export function sentTo(
  { edits }: Pick<Upstream, "edits">,
  texts: FieldTexts,
  changes: Readonly<Record<string, unknown>>,
): readonly string[] {
  return texts.with(edits === null ? changes : edited(texts, changes, edits))
}

/** `changes` and the upstream's edits (D81): `drop`, then `set`, in any spelling. Undefined: the field is left out. */
function edited(texts: FieldTexts, changes: Readonly<Record<string, unknown>>, { set, drop }: Edits) {
  const is_changed = isAtAny([...drop, ...Object.keys(set)])
  const fields: Record<string, unknown> = {}
  for (const name of texts.names) if (is_changed(name)) fields[name] = texts.value(name)
  let object: JsonObject = { ...fields, ...changes }
  for (const path of drop) object = withoutValue(object, path)
  for (const [path, value] of Object.entries(set)) object = withValue(object, path, value)
  const left_out = Object.keys(fields).filter((name) => !Object.hasOwn(object, name))
  return { ...object, ...Object.fromEntries(left_out.map((name) => [name, undefined])) }
}
