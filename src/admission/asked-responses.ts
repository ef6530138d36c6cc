import type { FieldTexts } from "../wire/json.ts"
import { type InputItem, itemsOf, type ResponsesRequest, STORED_INPUTS } from "../wire/responses-request.ts"
import { isObject, type JsonObject } from "../wire/usage.ts"
import {
  type AskedFor,
  audioOutput,
  hasAudio,
  longCacheIn,
  NOTHING_ASKED,
  searchField,
  serviceTierOf,
  waysOf,
} from "./asked.ts"
import {
  fieldBytes,
  isElsewhere,
  isMedia,
  isOpen,
  type Media,
  mediaIn,
  NO_MEDIA,
  type Prompt,
} from "./prompt.ts"

/**
 * The parts of a response request that are billed separately, and the part of its prompt that only the provider has
 * (D61, D66).
 */
export function askedOfResponses(request: ResponsesRequest): AskedFor {
  const tools = [...toolsOf(request)]
  const first = (kind: string) => tools.find((tool) => tool.kind === kind)?.path ?? null
  return {
    ...NOTHING_ASKED,
    service_tier: serviceTierOf(request),
    ...waysOf(request),
    cache_write_1h: longCacheIn(request),
    audio_input: itemsOf(request).some((item) => hasAudio(item.content) || hasAudio(item.output))
      ? "input"
      : null,
    audio_output: audioOutput(request),
    web_search: searchField(request) ?? first("search"),
    hosted_tool: first("hosted"),
    stored_prompt: storedIn(request),
  }
}

/** The first field whose size only the provider knows. */
function storedIn(request: ResponsesRequest): string | null {
  const field = STORED_INPUTS.find((name) => (request[name] ?? null) !== null)
  if (field !== undefined) return field
  const place = itemsOf(request).findIndex(isReference)
  return place === -1 ? null : `input[${place}]`
}

/** Whether an item only refers to one that the provider has. */
function isReference({ type, role, id }: InputItem): boolean {
  if (type === "item_reference") return true
  return (type ?? null) === null && role === undefined && typeof id === "string"
}

/** How large the prompt of a response request can be (D12, D66). */
export function measureResponses(request: ResponsesRequest, texts: FieldTexts): Prompt {
  const items = itemsOf(request)
  const media = [
    ...items.flatMap(mediaOf),
    ...(storedIn(request) === null ? NO_MEDIA : [UNKNOWN]),
    ...items.filter(isKeptReasoning).map(() => UNKNOWN),
  ]
  const text = items.some(hasMedia) ? JSON.stringify(items.map(withoutMedia)) : texts.of("input")
  const bytes =
    fieldBytes(texts, "input") +
    Buffer.byteLength(text ?? "") +
    media.reduce((sum, part) => sum + part.text_bytes, 0)
  const is_open =
    isOpen(texts) || media.some(isElsewhere) || [...toolsOf(request)].some(({ kind }) => kind !== "client")
  return { bytes, tokens: 0, media, is_open }
}

/** A part that only the provider has counts as the whole context of the model. */
const UNKNOWN: Media = { kind: "file", bytes: null, text_bytes: 0 }

/** Whether it is reasoning that only the provider has: without text and without an encrypted copy. */
function isKeptReasoning({ type, id, content, encrypted_content }: InputItem): boolean {
  return type === "reasoning" && typeof id === "string" && !content && !encrypted_content
}

/** Fields of an item that hold parts: those of a message, and those that a tool returned. */
const PARTS = ["content", "output"] as const

function hasMedia(item: InputItem): boolean {
  return isMedia(item) || PARTS.some((name) => partsOf(item[name]).some(isMedia))
}

function mediaOf(item: InputItem): readonly Media[] {
  if (isMedia(item)) return mediaIn([item])
  return PARTS.flatMap((name) => mediaIn(partsOf(item[name])))
}

/** The item without its media; null for one that is nothing else. */
function withoutMedia(item: InputItem): object | null {
  if (isMedia(item)) return null
  const changes = PARTS.filter((name) => partsOf(item[name]).some(isMedia)).map(
    (name) => [name, partsOf(item[name]).filter((part) => !isMedia(part))] as const,
  )
  return changes.length === 0 ? item : { ...item, ...Object.fromEntries(changes) }
}

/** Most tools return a list of parts; a screenshot is one part. */
function partsOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value
  return isObject(value) ? [value] : []
}

/**
 * Who runs a tool, and what it costs. `client`: the client runs it. `unmetered`: the provider runs it for the tokens
 * alone. `search`: the provider searches, for a fee (D60). `hosted`: the provider runs it at no known price, or it is
 * unknown (D61, D66).
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
/** The provider runs these without a fee: it asks another server, or searches the tools of the request. */
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
  // A local shell runs at the client. A shell in a container of the provider has a fee.
  if (type === "shell" && isObject(environment) && environment.type === "local") return "client"
  return "hosted"
}
