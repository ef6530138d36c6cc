import type { ChatRequest } from "../wire/chat.ts"
import type { FieldTexts } from "../wire/field-texts.ts"

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

/** Measures the prompt of a request by the texts of its fields; messages with media are written anew, without it. */
export function measurePrompt({ messages }: ChatRequest, texts: FieldTexts): Prompt {
  let bytes = 0
  for (const [place, name] of texts.names.entries()) {
    if (name !== "messages" && !NOT_PROMPT.has(name)) bytes += Buffer.byteLength(texts.at(place))
  }
  const media_parts = messages.reduce((count, { content }) => count + mediaIn(content).length, 0)
  const text = media_parts === 0 ? texts.of("messages") : JSON.stringify(messages.map(withoutMedia))
  return { bytes: bytes + Buffer.byteLength(text ?? ""), media_parts }
}

function withoutMedia(message: ChatRequest["messages"][number]) {
  const { content } = message
  return Array.isArray(content) ? { ...message, content: content.filter((part) => !isMedia(part)) } : message
}

function mediaIn(content: unknown): readonly unknown[] {
  return Array.isArray(content) ? content.filter(isMedia) : []
}

function isMedia(part: unknown): boolean {
  return typeof part === "object" && part !== null && "type" in part && MEDIA.has(part.type)
}
