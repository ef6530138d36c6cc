import type { FieldTexts } from "../wire/json.ts"
import type { MessagesRequest } from "../wire/messages-request.ts"
import { isObject } from "../wire/usage.ts"
import {
  type AskedFor,
  audioOutput,
  fieldOf,
  hasAudio,
  longCacheIn,
  NOTHING_ASKED,
  OWN_TIER,
  searchField,
  serviceTierOf,
  waysOf,
} from "./asked.ts"
import { fieldBytes, isElsewhere, isMedia, isOpen, type Media, mediaIn, type Prompt } from "./prompt.ts"

/**
 * The parts of a messages request that are billed separately, and the part of its prompt that only the provider has
 * (D61, D64).
 */
export function askedOfMessages(request: MessagesRequest): AskedFor {
  const tools = toolsOf(request)
  const first = (kind: ToolKind) => tools.find((tool) => tool.kind === kind)?.path ?? null
  return {
    ...NOTHING_ASKED,
    service_tier: request.service_tier === "standard_only" ? OWN_TIER : serviceTierOf(request),
    ...waysOf(request),
    cache_write_1h: longCacheIn(request),
    audio_input: request.messages.some(({ content }) => hasAudio(content)) ? "messages" : null,
    audio_output: audioOutput(request),
    web_search: searchField(request) ?? first("search"),
    hosted_tool: first("hosted"),
    stored_prompt: continuesThread(request) ? "thread" : null,
  }
}

/**
 * Who runs a tool, and what it costs. `client`: the client runs it. `unmetered`: the provider runs it for the tokens
 * alone. `search`: the provider searches, for a fee (D60). `hosted`: the provider runs it at no known price, or it is
 * unknown (D61).
 */
type ToolKind = "client" | "unmetered" | "search" | "hosted"

interface FoundTool {
  readonly kind: ToolKind
  /** `tools[2]`. */
  readonly path: string
}

/** A type ends with the date of its version. */
const CLIENT = /^(?:custom|(?:bash|text_editor|computer|computer_toolset|browser_toolset|memory)_\d{8})$/
/** The provider runs these without a fee: it asks another server, or searches the tools of the request. */
const UNMETERED = /^(?:mcp_toolset|tool_search_tool_\w+)$/
const SEARCH = /^web_search_\d{8}$/

/** The tools of a request, and those that its messages add. */
function toolsOf({ tools, messages }: MessagesRequest): readonly FoundTool[] {
  const found = (tools ?? []).map((tool, place) => ({ kind: kindOf(tool), path: `tools[${place}]` }))
  for (const [place, { content }] of messages.entries()) {
    if (!Array.isArray(content)) continue
    for (const part of content) {
      if (!isObject(part) || part.type !== "tool_addition" || !isObject(part.tool)) continue
      if (part.tool.definition !== undefined)
        found.push({ kind: kindOf(part.tool.definition), path: `messages[${place}].content` })
    }
  }
  return found
}

function kindOf(tool: unknown): ToolKind {
  const type = isObject(tool) ? (tool.type ?? "custom") : null
  if (typeof type !== "string") return "hosted"
  if (CLIENT.test(type)) return "client"
  if (UNMETERED.test(type)) return "unmetered"
  return SEARCH.test(type) ? "search" : "hosted"
}

/** Whether the request continues a conversation that the provider keeps. */
function continuesThread(request: MessagesRequest): boolean {
  const thread = fieldOf(request, "thread")
  return (thread ?? null) !== null && fieldOf(thread, "type") !== "create"
}

/**
 * How large the prompt of a messages request can be (D12, D64). Images and documents may be in what a tool returned, too. A
 * compaction reads the prompt a second time, and that is held as the whole context.
 */
export function measureMessages(request: MessagesRequest, texts: FieldTexts): Prompt {
  const { messages } = request
  const has_media = messages.some(({ content }) => hasMedia(content))
  const text = has_media
    ? JSON.stringify(messages.map((message) => ({ ...message, content: withoutMedia(message.content) })))
    : texts.of("messages")
  const media = [
    ...(has_media ? messages.flatMap(({ content }) => mediaWithin(content)) : []),
    ...(continuesThread(request) || compacts(request) ? [UNKNOWN] : []),
  ]
  return {
    bytes:
      fieldBytes(texts, "messages") +
      Buffer.byteLength(text ?? "") +
      media.reduce((sum, part) => sum + part.text_bytes, 0),
    media,
    tokens: 0,
    is_open:
      isOpen(texts) ||
      media.some(isElsewhere) ||
      toolsOf(request).some(({ kind }) => kind !== "client") ||
      texts.names.includes("mcp_servers"),
  }
}

/** A part that only the provider has counts as the whole context of the model. */
const UNKNOWN: Media = { kind: "file", bytes: null, text_bytes: 0 }

/** Whether it asks the provider to summarise the conversation. */
function compacts(request: MessagesRequest): boolean {
  if ((fieldOf(request, "compaction") ?? null) !== null) return true
  const edits = fieldOf(fieldOf(request, "context_management"), "edits")
  return Array.isArray(edits) && edits.some((edit) => COMPACTION.test(String(fieldOf(edit, "type"))))
}

const COMPACTION = /^compact/

/** A request is at most 64 levels deep (D18). */
function hasMedia(content: unknown): boolean {
  return Array.isArray(content) && content.some((part) => isMedia(part) || hasMedia(contentOf(part)))
}

function mediaWithin(content: unknown): readonly Media[] {
  if (!Array.isArray(content)) return []
  return content.flatMap((part) => (isMedia(part) ? mediaIn([part]) : mediaWithin(contentOf(part))))
}

function withoutMedia(content: unknown): unknown {
  if (!hasMedia(content) || !Array.isArray(content)) return content
  return content
    .filter((part) => !isMedia(part))
    .map((part) =>
      isObject(part) && hasMedia(part.content) ? { ...part, content: withoutMedia(part.content) } : part,
    )
}

function contentOf(part: unknown): unknown {
  return isObject(part) ? part.content : undefined
}
