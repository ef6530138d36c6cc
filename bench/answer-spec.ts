import { type Static, Type } from "@sinclair/typebox"
import type { Price } from "../src/money.ts"
import type { StreamEvents } from "./job.ts"

const Count = Type.Integer({ minimum: 1 })

/** What the provider answers under one path. Every answer is the same. */
export const AnswerSpec = Type.Union([
  Type.Object({
    kind: Type.Literal("json"),
    content_bytes: Count,
    delay_ms: Type.Number(),
  }),
  Type.Object({
    kind: Type.Literal("stream"),
    /** How it is framed. */
    family: Type.Union([Type.Literal("chat"), Type.Literal("messages")]),
    events: Count,
    content_bytes: Count,
    /** Events per write. */
    together: Count,
    /** Null: as fast as the client reads. */
    per_second: Type.Union([Type.Number(), Type.Null()]),
    /** Whether events of chat contain only their content, without ids and other fields. */
    lean: Type.Boolean(),
  }),
  Type.Object({ kind: Type.Literal("count") }),
])
export type AnswerSpec = Static<typeof AnswerSpec>
type StreamSpec = Extract<AnswerSpec, { kind: "stream" }>

/** A stream of chat: five bytes an event, one event a write, as fast as the client reads, unless `changes` says otherwise. */
export function streamOf(events: number, changes: Partial<Omit<StreamSpec, "kind">> = {}): StreamSpec {
  return {
    kind: "stream",
    family: "chat",
    events,
    content_bytes: 5,
    together: 1,
    per_second: null,
    lean: false,
    ...changes,
  }
}

/** The API family of a request for such an answer. */
export function familyOf(spec: AnswerSpec): "chat" | "messages" {
  if (spec.kind === "stream") return spec.family
  return spec.kind === "count" ? "messages" : "chat"
}

/** Where such a request goes, at a provider and at the gateway. */
export function operationPath(spec: AnswerSpec): string {
  if (spec.kind === "count") return "/v1/messages/count_tokens"
  return familyOf(spec) === "messages" ? "/v1/messages" : "/v1/chat/completions"
}

/** The usage that a complete answer reports. */
export interface Tokens {
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly completion_tokens: number
}

/** What a token costs in the benchmark's configuration. */
export const PRICE: Price = {
  input_pico: 1_000_000n,
  cached_input_pico: 100_000n,
  output_pico: 4_000_000n,
  per_call_nano: 0n,
}

const BYTES_PER_TOKEN = 4
const PROMPT = { prompt_tokens: 20, cached_tokens: 4 }
const encoder = new TextEncoder()

/** One token for each event of a stream, one for four bytes of a JSON answer. */
export function tokensOf(spec: AnswerSpec): Tokens {
  switch (spec.kind) {
    case "json":
      return { ...PROMPT, completion_tokens: Math.ceil(spec.content_bytes / BYTES_PER_TOKEN) }
    case "stream":
      return { ...PROMPT, completion_tokens: spec.events }
    case "count":
      return { prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0 }
  }
}

export function jsonAnswer(spec: Exclude<AnswerSpec, StreamSpec>): Uint8Array {
  if (spec.kind === "count") return encoder.encode(JSON.stringify({ input_tokens: PROMPT.prompt_tokens }))
  return encoder.encode(
    JSON.stringify({
      ...FRAME,
      object: "chat.completion",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "x".repeat(spec.content_bytes), refusal: null },
          logprobs: null,
          finish_reason: "stop",
        },
      ],
      usage: usageOf(spec),
    }),
  )
}

/**
 * The writes of a stream: the role is sent with the first content, its end (finish reason, usage, `[DONE]`) after the last. Equal
 * writes share their bytes.
 */
export function streamWrites(spec: StreamSpec): Uint8Array[] {
  const { events, together } = spec
  const text = "x".repeat(spec.content_bytes)
  const content =
    spec.family === "chat"
      ? event(spec, { content: text })
      : named({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })
  const role = spec.family === "chat" ? event(spec, { role: "assistant", content: "" }) : MESSAGE_START
  const first = Math.min(together, events)
  const full = encoder.encode(content.repeat(together))
  const rest = (events - first) % together
  return [
    encoder.encode(role + content.repeat(first)),
    ...Array.from({ length: Math.floor((events - first) / together) }, () => full),
    ...(rest === 0 ? [] : [encoder.encode(content.repeat(rest))]),
    encoder.encode(endOf(spec)),
  ]
}

/** The events that a client sees: beside the contents a role or two starts, and three of the end. */
export function streamEvents(spec: AnswerSpec): StreamEvents | null {
  if (spec.kind !== "stream") return null
  const first_output = spec.family === "chat" ? 2 : 3
  return { first_output, events: first_output + spec.events + 2 }
}

/** An event of the messages family: clients skip one without a name. */
function named(data: { readonly type: string } & Record<string, unknown>): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
}

/** Cached tokens are not in `input_tokens`. */
const MESSAGE_START =
  named({
    type: "message_start",
    message: {
      id: "msg_01XFDUDYJgAACzvnptvVoYEL",
      type: "message",
      role: "assistant",
      model: "bench-2026-11-21",
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: {
        input_tokens: PROMPT.prompt_tokens - PROMPT.cached_tokens,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: PROMPT.cached_tokens,
        output_tokens: 1,
      },
    },
  }) + named({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } })

/** What OpenAI's answers carry besides their content. */
const FRAME = {
  id: "chatcmpl-CjW3mPZ0q8tYb1Vw5nRk7aXs2Ld9u",
  object: "chat.completion.chunk",
  created: 1_795_257_600,
  model: "bench-2026-11-21",
  service_tier: "default",
  system_fingerprint: "fp_a1b2c3d4e5",
}

function event({ lean }: StreamSpec, delta: object, finish_reason: string | null = null): string {
  const data = lean
    ? { choices: [{ index: 0, delta, finish_reason }] }
    : { ...FRAME, choices: [{ index: 0, delta, logprobs: null, finish_reason }], usage: null }
  return `data: ${JSON.stringify(data)}\n\n`
}

function endOf(spec: StreamSpec): string {
  if (spec.family === "messages") {
    const { completion_tokens } = tokensOf(spec)
    return (
      named({ type: "content_block_stop", index: 0 }) +
      named({
        type: "message_delta",
        delta: { stop_reason: "end_turn", stop_sequence: null },
        usage: { output_tokens: completion_tokens },
      }) +
      named({ type: "message_stop" })
    )
  }
  const usage = JSON.stringify({ ...FRAME, choices: [], usage: usageOf(spec) })
  return `${event(spec, {}, "stop")}data: ${usage}\n\ndata: [DONE]\n\n`
}

function usageOf(spec: AnswerSpec) {
  const { prompt_tokens, cached_tokens, completion_tokens } = tokensOf(spec)
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens },
  }
}
