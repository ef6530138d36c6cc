import type { OperationName } from "../wire/call.ts"
import { TOOLS } from "../wire/fields.ts"
import { rowsByName } from "../wire/known-fields.ts"
import { isObject, type JsonObject } from "../wire/usage.ts"

const TYPES = rowsByName(TOOLS)
type ToolRow = readonly [who: string, client_if?: string, tokens?: number]
const CLIENT: ToolRow = ["client"]
const UNKNOWN: ToolRow = ["hosted_tool"]
/** A type ends with the date of its version. */
const DATE = /_(?:\d{8}|\d{4}_\d{2}_\d{2})$/

/** The switches of a tool, by type and names: some providers take a client's `google_search` for a search. */
export function rowsOf(tool: unknown, operation: OperationName): readonly ToolRow[] {
  if (!isObject(tool)) return [UNKNOWN]
  const named = Object.keys(tool).flatMap((name) => {
    const row = (tool[name] ?? false) === false ? undefined : TYPES.get(name)
    return row === undefined ? [] : [row]
  })
  const hosted = named.filter(([who]) => who !== "client")
  const { type = null } = tool
  if (typeof type === "string") return [...new Set([typedRow(tool, type), ...hosted])]
  if (type !== null) return [UNKNOWN]
  if (operation === "messages" || "function" in tool || typeof tool.name === "string")
    return [CLIENT, ...hosted]
  return named.length === 0 ? [UNKNOWN] : named
}

function typedRow(tool: JsonObject, type: string): ToolRow {
  const row = TYPES.get(type) ?? TYPES.get(type.replace(DATE, "")) ?? UNKNOWN
  const [field = "", client] = (row[1] ?? "").split("=")
  const at = tool[field]
  return client !== undefined && (isObject(at) ? at.type : at) === client ? CLIENT : row
}
