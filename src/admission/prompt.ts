import type { ChatRequest } from "../wire/chat.ts"

/** How large the prompt of a chat request can be (D12). */
export interface Prompt {
  /** UTF-8 bytes of the JSON text of the prompt fields, without media parts. */
  readonly bytes: number
  /** Image, audio and file parts, whose bytes say nothing about their tokens. */
  readonly media_parts: number
}

/**
 * Fields that never become prompt tokens. Every other one is measured, also those nobody here has heard of: they pass
 * upstream (D18), where they may be prompt, and holding a few bytes too many costs the client nothing.
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

/** The `type` of an image, audio or file part, under the names that providers of this convention give it. */
const MEDIA: ReadonlySet<unknown> = new Set([
  "image_url",
  "image",
  "input_image",
  "input_audio",
  "audio_url",
  "file",
  "input_file",
])

/** Measures the prompt; each field is turned into JSON text once, and media parts not at all. */
export function measurePrompt(request: ChatRequest): Prompt {
  let bytes = 0
  let media_parts = 0
  for (const [field, value] of Object.entries(request)) {
    if (NOT_PROMPT.has(field) || field === "messages") continue
    bytes += jsonBytes(value)
  }
  const messages = request.messages.map((message) => {
    const { content } = message
    if (!Array.isArray(content)) return message
    const text = content.filter((part) => !isMedia(part))
    media_parts += content.length - text.length
    return { ...message, content: text }
  })
  bytes += jsonBytes(messages)
  return { bytes, media_parts }
}

function isMedia(part: unknown): boolean {
  return typeof part === "object" && part !== null && "type" in part && MEDIA.has(part.type)
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}
