import type { OperationName } from "../wire/call.ts"
import type { Means } from "../wire/fields.ts"
import { knownFields } from "../wire/known-fields.ts"
import { folded, isPath } from "../wire/paths.ts"
import type { RefusedField } from "./config.ts"
import type { FileModel } from "./file.ts"
import type { FaultReport } from "./values.ts"

/** A model's settings for requests: fields that are refused or set (D61). */

const FIELD = "a field by its names with dots between them, such as reasoning.effort"

/** `field`, or `field=value`. */
export function refusedIn({ refuse }: FileModel, report: FaultReport): readonly RefusedField[] {
  return refuse.map((text, at) => {
    const end = text.indexOf("=")
    const field = end === -1 ? text : text.slice(0, end)
    if (!isPath(field)) report(`[${at}]`, `${FIELD}, or field=value`)
    return { path: field, value: end === -1 ? null : text.slice(end + 1) }
  })
}

/** Fields that the gateway itself reads. Set by an operator, they would not be what it goes by. */
const READ: ReadonlySet<Means> = new Set(["gateway", "parts", "embedded", "limit", "choices"])
const OPTIONS: ReadonlySet<string> = new Set(["usage", "stream_options"])

export function checkSet({ set }: FileModel, operations: readonly OperationName[], report: FaultReport) {
  for (const field of Object.keys(set)) {
    const top = folded(field.split(".")[0] ?? "")
    if (!isPath(field)) report(`set.${field}`, FIELD)
    else if (operations.some((operation) => isRead(operation, top)))
      report(`set.${field}`, "no such key, because the gateway reads this field itself")
  }
}

function isRead(operation: OperationName, folded_name: string): boolean {
  const { meanings, spellings } = knownFields("all", operation)
  const known = meanings.get(spellings.get(folded_name) ?? "")
  return known !== undefined && (READ.has(known.means) || OPTIONS.has(known.argument))
}
