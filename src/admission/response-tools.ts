import { isObject, type JsonObject } from "../wire/usage.ts"

/**
 * Who runs a tool of a response request, and what it costs besides tokens: the client runs it; the provider does, for the
 * tokens alone; the provider searches, for a fee (D60); or the provider runs it for a fee that no price covers, or it is not
 * known (D61, D66).
 */
export type ToolKind = "client" | "unmetered" | "search" | "hosted"

/** A tool of a request, and the path of the list that it is in. */
export interface FoundTool {
  readonly kind: ToolKind
  /** `tools[2]`. */
  readonly path: string
}

const CLIENT: ReadonlySet<unknown> = new Set([
  "function",
  "custom",
  "local_shell",
  "apply_patch",
  "computer",
  "computer_use_preview",
])
/** The provider asks another server, or looks through the tools of the request. */
const UNMETERED: ReadonlySet<unknown> = new Set(["mcp", "tool_search"])
const SEARCH = /^web_search/

/** The tools of a request: in `tools`, in its namespaces, and in items that bring further ones. A request is at most 64 levels deep (D18). */
export function* toolsOf(request: {
  readonly tools?: unknown
  readonly input?: unknown
}): Generator<FoundTool> {
  yield* toolsIn(request.tools, "tools")
  if (!Array.isArray(request.input)) return
  for (const [place, item] of request.input.entries()) {
    if (isObject(item) && "tools" in item && item.type !== "mcp_list_tools")
      yield* toolsIn(item.tools, `input[${place}].tools`)
  }
}

function* toolsIn(tools: unknown, path: string): Generator<FoundTool> {
  if (!Array.isArray(tools)) return
  for (const [place, tool] of tools.entries()) {
    const here = `${path}[${place}]`
    if (isObject(tool) && tool.type === "namespace") yield* toolsIn(tool.tools, `${here}.tools`)
    else yield { kind: kindOf(isObject(tool) ? tool : {}), path: here }
  }
}

function kindOf({ type, environment }: JsonObject): ToolKind {
  if (CLIENT.has(type)) return "client"
  if (UNMETERED.has(type)) return "unmetered"
  if (typeof type === "string" && SEARCH.test(type)) return "search"
  // A shell runs where its environment is, and a container has a fee.
  if (type === "shell" && isObject(environment) && environment.type === "local") return "client"
  return "hosted"
}
