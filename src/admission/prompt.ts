import type { ChatRequest } from "../wire/chat.ts"
import type { FieldTexts } from "../wire/field-texts.ts"

/** How large the prompt of a chat request can be (D12). */
export interface Prompt {
  /** UTF-8 bytes of the JSON text of the prompt fields, without media parts. */
  readonly bytes: number
  readonly media: readonly Media[]
  /**
   * Whether the provider adds tokens that the gateway cannot measure: files by reference, searches, tools of its own.
   */
  readonly is_open: boolean
}

/** An image, audio or file part, whose JSON text says nothing about its tokens. */
export interface Media {
  readonly kind: MediaKind
  /** Decoded; null when the part only names what it stands for. */
  readonly bytes: number | null
}

export type MediaKind = "image" | "audio" | "file"

/**
 * Fields that never become prompt tokens. Every other field is measured, even unknown ones: they are passed on (D18)
 * and may become prompt. Holding a few bytes too many costs the client nothing.
 */
const NOT_PROMPT: ReadonlySet<string> = new Set([
  "model",
  "stream",
  "stream_options",
  "n",
  "max_tokens",
  "max_completion_tokens",
  "temperature",
  "top_p",
  "top_k",
  "min_p",
  "frequency_penalty",
  "presence_penalty",
  "repetition_penalty",
  "seed",
  "stop",
  "logit_bias",
  "logprobs",
  "top_logprobs",
  "modalities",
  "audio",
  "parallel_tool_calls",
  "reasoning_effort",
  "verbosity",
  "service_tier",
  "store",
  "metadata",
  "user",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_retention",
])

/** The `type` of a media part, under the names that providers of this convention give it. */
const MEDIA: ReadonlyMap<unknown, MediaKind> = new Map([
  ["image_url", "image"],
  ["image", "image"],
  ["input_image", "image"],
  ["input_audio", "audio"],
  ["audio_url", "audio"],
  ["audio", "audio"],
  ["file", "file"],
  ["input_file", "file"],
  ["document", "file"],
  ["video", "file"],
  ["video_url", "file"],
  ["input_video", "file"],
])
const NO_MEDIA: readonly Media[] = []

/**
 * Measures the prompt of a request by the JSON texts of its fields. Messages with media are serialised again without
 * it.
 */
export function measurePrompt(request: ChatRequest, texts: FieldTexts): Prompt {
  const { messages } = request
  let bytes = 0
  for (const [place, name] of texts.names.entries()) {
    if (name !== "messages" && !NOT_PROMPT.has(name)) bytes += Buffer.byteLength(texts.at(place))
  }
  const has_media = messages.some(({ content }) => Array.isArray(content) && content.some(isMedia))
  const text = has_media ? JSON.stringify(messages.map(withoutMedia)) : texts.of("messages")
  const media = has_media ? messages.flatMap(({ content }) => mediaIn(content)) : NO_MEDIA
  const is_open =
    texts.names.some((name) => OPEN.has(name)) ||
    hasOwnTools(request) ||
    media.some((part) => part.kind !== "image" && part.bytes === null)
  return { bytes: bytes + Buffer.byteLength(text ?? ""), media, is_open }
}

/** Fields by which a provider adds to the prompt. */
const OPEN: ReadonlySet<string> = new Set([
  "conversation",
  "data_sources",
  "plugins",
  "previous_response_id",
  "prompt",
  "search_parameters",
  "web_search_options",
])

/** Whether it has tools that the provider runs itself. */
function hasOwnTools(request: object): boolean {
  return "tools" in request && Array.isArray(request.tools) && request.tools.some(isRunByProvider)
}

function isRunByProvider(tool: unknown): boolean {
  const type = typeof tool === "object" && tool !== null && "type" in tool ? tool.type : "function"
  return type !== "function" && type !== "custom"
}

function withoutMedia(message: ChatRequest["messages"][number]) {
  const { content } = message
  return Array.isArray(content) ? { ...message, content: content.filter((part) => !isMedia(part)) } : message
}

function mediaIn(content: unknown): readonly Media[] {
  if (!Array.isArray(content)) return NO_MEDIA
  return content.filter(isMedia).map((part) => {
    const kind = MEDIA.get(part.type) ?? "file"
    return { kind, bytes: kind === "image" ? null : inlineBytes(part) }
  })
}

function isMedia(part: unknown): part is { readonly type: unknown } {
  return typeof part === "object" && part !== null && "type" in part && MEDIA.has(part.type)
}

/** Field names for data inside a part, and field names that refer to data elsewhere. */
const INLINE: ReadonlySet<string> = new Set(["data", "file_data", "b64_json"])
const ELSEWHERE = /(?:^|_)(?:id|url|uri)$/
const BASE64 = ";base64,"

/** The most bytes that the data of a part can decode to. A part that also refers to data elsewhere may be any size. */
function inlineBytes(part: object): number | null {
  const bytes = dataBytes(part)
  return bytes === 0 || bytes === Number.POSITIVE_INFINITY ? null : bytes
}

/** Infinite for data that is elsewhere. A request is at most 64 levels deep (D18). */
function dataBytes(part: object): number {
  let bytes = 0
  for (const [name, value] of Object.entries(part)) {
    if (typeof value === "string") bytes += stringBytes(name, value)
    else if (typeof value === "object" && value !== null) bytes += dataBytes(value)
  }
  return bytes
}

function stringBytes(name: string, text: string): number {
  if (text.startsWith("data:")) {
    const start = text.indexOf(",") + 1
    const is_base64 = text.slice(0, start).endsWith(BASE64)
    return is_base64 ? Math.ceil(((text.length - start) * 3) / 4) : Buffer.byteLength(text)
  }
  if (INLINE.has(name)) return Buffer.byteLength(text)
  return text !== "" && ELSEWHERE.test(name) ? Number.POSITIVE_INFINITY : 0
}
