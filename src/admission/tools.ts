import type { OperationName } from "../wire/call.ts"
import { TOOLS } from "../wire/fields.ts"
import { namesIn } from "../wire/known-fields.ts"
import { isObject } from "../wire/usage.ts"

const TYPES = namesIn(TOOLS)
type ToolRow = readonly [who: string, client_if?: string, tokens?: number]
const CLIENT: ToolRow = ["client"]
const UNKNOWN: ToolRow = ["hosted_tool"]
/** A type ends with the date of its version. */
const DATE = /_(?:\d{8}|\d{4}_\d{2}_\d{2})$/

/**
 * What the table says of a tool. A tool without a type is one of the client in the messages family; elsewhere it may have several
 * names, such as `google_search`.
 */
export function rowsOf(tool: unknown, operation: OperationName): readonly ToolRow[] {
  if (!isObject(tool)) return [UNKNOWN]
  const { type = null } = tool
  if (typeof type === "string") {
    const row = rowOf(type) ?? UNKNOWN
    const [field = "", client] = (row[1] ?? "").split("=")
    const at = tool[field]
    return [client !== undefined && (isObject(at) ? at.type : at) === client ? CLIENT : row]
  }
  if (type !== null) return [UNKNOWN]
  if (operation === "messages" || "function" in tool || typeof tool.name === "string") return [CLIENT]
  const rows = Object.keys(tool).flatMap((name) => {
    const row = rowOf(name)
    return row === undefined ? [] : [row]
  })
  return rows.length === 0 ? [UNKNOWN] : rows
}

function rowOf(type: string): ToolRow | undefined {
  return TYPES.get(type) ?? TYPES.get(type.replace(DATE, ""))
}
