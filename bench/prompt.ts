import { type AnswerSpec, familyOf, tokensOf } from "./answer-spec.ts"

/** Bytes per message: a long prompt has many messages. */
const TURN_BYTES = 4096
const WORDS = "every balance equals the sum of its journal to the last unit, however the call ended "

/** The messages of a prompt of about this many bytes. */
export function promptOf(bytes: number): { readonly role: string; readonly content: string }[] {
  const turns = Math.max(1, Math.round(bytes / TURN_BYTES))
  const content = textOf(Math.floor(bytes / turns))
  return Array.from({ length: turns }, (_, turn) => ({
    role: turn % 2 === 0 ? "user" : "assistant",
    content,
  }))
}

/** A request's body for a model, with a prompt of about this many bytes. */
export function requestBody(model: string, spec: AnswerSpec, prompt_bytes: number): string {
  const messages = promptOf(prompt_bytes)
  if (spec.kind === "count") return JSON.stringify({ model, messages })
  const usage = familyOf(spec) === "chat" ? { stream_options: { include_usage: true } } : {}
  const stream = spec.kind === "stream" ? { stream: true, ...usage } : {}
  return JSON.stringify({ model, messages, max_tokens: tokensOf(spec).completion_tokens, ...stream })
}

/** The headers of a request: the credential of its family, and the version that messages and token counts need. */
export function requestHeaders(key: string, spec: AnswerSpec): Record<string, string> {
  return familyOf(spec) === "messages"
    ? { "x-api-key": key, "anthropic-version": "2023-06-01" }
    : { authorization: `Bearer ${key}` }
}

function textOf(bytes: number): string {
  return WORDS.repeat(Math.ceil(bytes / WORDS.length)).slice(0, bytes)
}
