import type { OperationName } from "../wire/call.ts"
import { TOOLS } from "../wire/fields.ts"
import { namesIn } from "../wire/known-fields.ts"
import { isObject } from "../wire/usage.ts"

const TYPES = namesIn(TOOLS)
/** A type ends with the date of its version. */
const DATE = /_(?:\d{8}|\d{4}_\d{2}_\d{2})$/
const UNKNOWN = "hosted_tool"

/**
 * Who runs a tool (`client`), or what it needs a price for. A tool without a type is one of the client in the messages family;
 * elsewhere it may have several names, such as `google_search`.
 */
export function runnersOf(tool: unknown, operation: OperationName): readonly string[] {
  if (!isObject(tool)) return [UNKNOWN]
  const { type = null } = tool
  if (typeof type === "string") {
    const [who = UNKNOWN, unless = ""] = rowOf(type) ?? []
    const [field = "", client] = unless.split("=")
    const at = tool[field]
    return [client !== undefined && (isObject(at) ? at.type : at) === client ? "client" : who]
  }
  if (type !== null) return [UNKNOWN]
  if (operation === "messages" || "function" in tool || typeof tool.name === "string") return ["client"]
  const names = Object.keys(tool).flatMap((name) => rowOf(name)?.[0] ?? [])
  return names.length === 0 ? [UNKNOWN] : names
}

function rowOf(type: string): readonly [who: string, unless?: string] | undefined {
  return TYPES.get(type) ?? TYPES.get(type.replace(DATE, ""))
}
