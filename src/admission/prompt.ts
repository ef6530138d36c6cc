import type { ChatRequest, Message } from "../wire/chat-request.ts"
import type { FieldTexts } from "../wire/json.ts"

/** How large the prompt of a request can be (D12). */
export interface Prompt {
  /** UTF-8 bytes of the JSON text of the prompt fields, without media parts but with text in them. */
  readonly bytes: number
  /** The tokens of an input that is given in tokens (D67). */
  readonly tokens: number
  readonly media: readonly Media[]
  /**
   * Whether the provider adds tokens that the gateway cannot measure: files by reference, searches, tools of its own.
   */
  readonly is_open: boolean
}

/** An image, audio or file part. The size of its JSON text does not bound its tokens. */
export interface Media {
  readonly kind: MediaKind
  /** Decoded bytes; null if the part only refers to its data. */
  readonly bytes: number | null
  /** UTF-8 bytes of text in it beyond a label. */
  readonly text_bytes: number
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
  "max_output_tokens",
  "max_tool_calls",
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
  "thinking",
  "stop_sequences",
  "speed",
  "inference_geo",
  "verbosity",
  "service_tier",
  "store",
  "metadata",
  "user",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "background",
  "include",
  "truncation",
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
  ["image_file", "image"],
  ["computer_screenshot", "image"],
])
/** Parts of other types that only say where something is: `document_url`. */
const NAMING = /_(?:file|id|url)$/
export const NO_MEDIA: readonly Media[] = []

/**
 * Measures the prompt of a request by the JSON texts of its fields. Messages with media are serialised again without
 * it.
 */
export function measurePrompt(request: ChatRequest, texts: FieldTexts): Prompt {
  const { messages } = request
  const has_media = messages.some(hasMedia)
  const text = has_media ? JSON.stringify(messages.map(withoutMedia)) : texts.of("messages")
  const media = has_media ? messages.flatMap(({ content }) => mediaIn(content)) : NO_MEDIA
  let bytes = fieldBytes(texts, "messages") + Buffer.byteLength(text ?? "")
  for (const part of media) bytes += part.text_bytes
  const is_open = isOpen(texts) || hasOwnTools(request) || media.some(isElsewhere)
  return { bytes, tokens: 0, media, is_open }
}

function hasMedia({ content }: Message): boolean {
  return Array.isArray(content) && content.some(isMedia)
}

/** Whether the part only refers to data whose size is not known. */
export function isElsewhere({ kind, bytes }: Media): boolean {
  return kind !== "image" && bytes === null
}

/** UTF-8 bytes of the JSON text of all prompt fields but the one that may hold media. */
export function fieldBytes(texts: FieldTexts, but: string): number {
  let bytes = 0
  for (let place = 0; place < texts.names.length; place++) {
    const name = texts.names[place] ?? ""
    if (name !== but && !NOT_PROMPT.has(name)) bytes += Buffer.byteLength(texts.at(place))
  }
  return bytes
}

/** Whether the request has a field that makes the provider add to the prompt. */
export function isOpen(texts: FieldTexts): boolean {
  for (const name of texts.names) if (OPEN.has(name)) return true
  return false
}

/** Fields that make the provider add to the prompt. */
const OPEN: ReadonlySet<string> = new Set([
  "conversation",
  "data_sources",
  "enable_search",
  "extra_body",
  "file_ids",
  "plugins",
  "previous_response_id",
  "prompt",
  "search_parameters",
  "tool_resources",
  "web_search",
  "web_search_options",
])

/** Whether it has tools that the provider runs itself. */
function hasOwnTools(request: object): boolean {
  return "tools" in request && Array.isArray(request.tools) && request.tools.some(isRunByProvider)
}

/**
 * Whether the provider runs this tool. One without a type is a function if it has `function` or a name;
 * `{"google_search": {}}` is not.
 */
function isRunByProvider(tool: unknown): boolean {
  if (typeof tool !== "object" || tool === null) return false
  if ("type" in tool) return tool.type !== "function" && tool.type !== "custom"
  return Object.keys(tool).length > 0 && !("function" in tool) && !("name" in tool)
}

function withoutMedia(message: Message) {
  const { content } = message
  return Array.isArray(content) ? { ...message, content: content.filter((part) => !isMedia(part)) } : message
}

export function mediaIn(content: unknown): readonly Media[] {
  if (!Array.isArray(content)) return NO_MEDIA
  return content.flatMap((part: unknown) => {
    const kind = kindOf(part)
    if (kind === null || typeof part !== "object" || part === null) return []
    const text_bytes = Math.max(0, textBytes(part) - LABEL_BYTES)
    return [{ kind, bytes: kind === "image" ? null : inlineBytes(part), text_bytes }]
  })
}

export function isMedia(part: unknown): boolean {
  return kindOf(part) !== null
}

/**
 * The kind of media of a part; null for none. A part without a type has the kind of its first known field, as some
 * providers read it.
 */
function kindOf(part: unknown): MediaKind | null {
  if (typeof part !== "object" || part === null) return null
  if (!("type" in part)) return MEDIA.get(Object.keys(part).find((name) => MEDIA.has(name))) ?? null
  const known = MEDIA.get(part.type)
  if (known !== undefined) return known
  return typeof part.type === "string" && NAMING.test(part.type) ? "file" : null
}

/** Field names for data inside a part, and field names that refer to data elsewhere. */
const INLINE: ReadonlySet<string> = new Set(["data", "file_data", "b64_json"])
const ELSEWHERE = /(?:^|_)(?:id|url|uri)$/
/** Fields of images and audio whose data has no prefix. */
const BARE: ReadonlySet<string> = new Set(["image", "audio", "video"])
/** Bytes for the name of a file, its format and the like, which the hold for any part covers. */
const LABEL_BYTES = 256
const BASE64 = ";base64,"

/** The most bytes that the data of a part can decode to. A part that also refers to data elsewhere may be any size. */
function inlineBytes(part: object): number | null {
  const bytes = dataBytes(part)
  return bytes === 0 || bytes === Number.POSITIVE_INFINITY ? null : bytes
}

/**
 * The decoded bytes of the data in a part; infinite if the data is elsewhere. A request is at most 64 levels deep
 * (D18).
 */
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

/** UTF-8 bytes of the strings in a part that are neither data nor an address. */
function textBytes(part: object): number {
  let bytes = 0
  for (const [name, value] of Object.entries(part)) {
    if (typeof value === "object" && value !== null) bytes += textBytes(value)
    else if (typeof value !== "string" || value.startsWith("data:")) continue
    else if (!INLINE.has(name) && !BARE.has(name) && !ELSEWHERE.test(name)) bytes += Buffer.byteLength(value)
  }
  return bytes
}
