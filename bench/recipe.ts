import { type Static, Type } from "@sinclair/typebox"

const Count = Type.Integer({ minimum: 1 })

/** What the provider answers under one path, the same every time. */
export const Recipe = Type.Union([
  Type.Object({
    kind: Type.Literal("json"),
    content_bytes: Count,
    delay_ms: Type.Number(),
  }),
  Type.Object({
    kind: Type.Literal("stream"),
    events: Count,
    content_bytes: Count,
    /** Events that leave together. */
    together: Count,
    /** Null: as fast as they are taken. */
    per_second: Type.Union([Type.Number(), Type.Null()]),
    /** Without everything in an event that is not its content. */
    lean: Type.Boolean(),
  }),
  Type.Object({ kind: Type.Literal("count") }),
])
export type Recipe = Static<typeof Recipe>
type StreamRecipe = Extract<Recipe, { kind: "stream" }>

/** What a whole answer is reported to have used. */
export interface Tokens {
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly completion_tokens: number
}

const BYTES_PER_TOKEN = 4
const PROMPT = { prompt_tokens: 20, cached_tokens: 4 }
const encoder = new TextEncoder()

/** One token for each event of a stream, one for four bytes of a JSON answer. */
export function tokensOf(recipe: Recipe): Tokens {
  switch (recipe.kind) {
    case "json":
      return { ...PROMPT, completion_tokens: Math.ceil(recipe.content_bytes / BYTES_PER_TOKEN) }
    case "stream":
      return { ...PROMPT, completion_tokens: recipe.events }
    case "count":
      return { prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0 }
  }
}

/** The body of a JSON answer. */
export function jsonAnswer(recipe: Exclude<Recipe, StreamRecipe>): Uint8Array {
  if (recipe.kind === "count") return encoder.encode(JSON.stringify({ input_tokens: PROMPT.prompt_tokens }))
  return encoder.encode(
    JSON.stringify({
      ...FRAME,
      object: "chat.completion",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "x".repeat(recipe.content_bytes), refusal: null },
          logprobs: null,
          finish_reason: "stop",
        },
      ],
      usage: usageOf(recipe),
    }),
  )
}

/** One write of a stream, and how many events with content are in it. */
export interface Write {
  readonly bytes: Uint8Array
  readonly events: number
}

/**
 * The writes of a stream: its role leaves with the first content, its end (finish reason, usage, `[DONE]`) after the last. Equal
 * writes share their bytes.
 */
export function streamWrites(recipe: StreamRecipe): Write[] {
  const { events, together } = recipe
  const content = event(recipe, { content: "x".repeat(recipe.content_bytes) })
  const role = event(recipe, { role: "assistant", content: "" })
  const first = Math.min(together, events)
  const full: Write = { bytes: encoder.encode(content.repeat(together)), events: together }
  const rest = (events - first) % together
  return [
    { bytes: encoder.encode(role + content.repeat(first)), events: first },
    ...Array.from({ length: Math.floor((events - first) / together) }, () => full),
    ...(rest === 0 ? [] : [{ bytes: encoder.encode(content.repeat(rest)), events: rest }]),
    { bytes: encoder.encode(endOf(recipe)), events: 0 },
  ]
}

/** What OpenAI's answers carry besides their content. */
const FRAME = {
  id: "chatcmpl-CjW3mPZ0q8tYb1Vw5nRk7aXs2Ld9u",
  object: "chat.completion.chunk",
  created: 1_795_257_600,
  model: "bench-2026-11-21",
  service_tier: "default",
  system_fingerprint: "fp_a1b2c3d4e5",
}

function event({ lean }: StreamRecipe, delta: object, finish_reason: string | null = null): string {
  const data = lean
    ? { choices: [{ index: 0, delta, finish_reason }] }
    : { ...FRAME, choices: [{ index: 0, delta, logprobs: null, finish_reason }], usage: null }
  return `data: ${JSON.stringify(data)}\n\n`
}

function endOf(recipe: StreamRecipe): string {
  const usage = JSON.stringify({ ...FRAME, choices: [], usage: usageOf(recipe) })
  return `${event(recipe, {}, "stop")}data: ${usage}\n\ndata: [DONE]\n\n`
}

function usageOf(recipe: Recipe) {
  const { prompt_tokens, cached_tokens, completion_tokens } = tokensOf(recipe)
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens },
  }
}
