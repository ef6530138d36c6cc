import { type Static, Type } from "@sinclair/typebox"
import { checked, cutAnswer, type DemoAnswer, type DemoSize, styleOf, wordsOf } from "./answer.ts"
import { type PrefixCache, promptTokens, textOf } from "./tokens.ts"

const Limit = Type.Optional(Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]))

const ChatCall = Type.Object({
  model: Type.String(),
  messages: Type.Array(Type.Object({ role: Type.String(), content: Type.Optional(Type.Unknown()) }), {
    minItems: 1,
  }),
  stream: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
  stream_options: Type.Optional(
    Type.Union([Type.Object({ include_usage: Type.Optional(Type.Boolean()) }), Type.Null()]),
  ),
  max_tokens: Limit,
  max_completion_tokens: Limit,
  n: Type.Optional(Type.Union([Type.Integer({ minimum: 1, maximum: 128 }), Type.Null()])),
  tools: Type.Optional(Type.Unknown()),
})
type ChatCall = Static<typeof ChatCall>

type Completion = ReturnType<typeof complete>

/** The answer to a chat call: one body, or the events of a stream in bursts. Throws a `DemoError` like OpenAI's. */
export function completeChat(body: unknown, cache: PrefixCache): DemoAnswer {
  const call = checked(ChatCall, body)
  const completion = complete(call, styleOf(call.model), cache)
  return call.stream === true
    ? { bursts: burstsOf(completion, call.stream_options?.include_usage === true) }
    : { json: bodyOf(completion) }
}

function complete(call: ChatCall, style: DemoSize, cache: PrefixCache) {
  const prompt = promptTokens(call)
  const limit = Math.max(call.max_tokens ?? 0, call.max_completion_tokens ?? 0) || Number.POSITIVE_INFINITY
  const question = textOf(call.messages.findLast(({ role }) => role === "user") ?? call.messages.at(-1))
  const choices = Array.from({ length: call.n ?? 1 }, (_, index) => {
    const { text, tokens, is_cut } = cutAnswer(question, style, index, limit)
    return { index, text, tokens, finish_reason: is_cut ? "length" : "stop" }
  })
  return {
    id: newId("chatcmpl-"),
    created: Math.floor(Date.now() / 1000),
    model: call.model,
    choices,
    usage: usageOf(prompt.length, cache.cachedTokens(prompt), choices),
  }
}

function usageOf(
  prompt_tokens: number,
  cached_tokens: number,
  choices: readonly { readonly tokens: number }[],
) {
  const completion_tokens = choices.reduce((sum, { tokens }) => sum + tokens, 0)
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
  }
}

function bodyOf({ id, created, model, choices, usage }: Completion): object {
  return {
    id,
    object: "chat.completion",
    created,
    model,
    choices: choices.map(({ index, text, finish_reason }) => ({
      index,
      message: { role: "assistant", content: text, refusal: null },
      logprobs: null,
      finish_reason,
    })),
    usage,
  }
}

/** Events that are sent together: roles, a word of each choice at a time, finish reasons, then the usage. */
function burstsOf({ id, created, model, choices, usage }: Completion, include_usage: boolean): string[] {
  const chunk = (further: object) =>
    event({
      id,
      object: "chat.completion.chunk",
      created,
      model,
      ...(include_usage ? { usage: null } : {}),
      ...further,
    })
  const piece = (index: number, delta: object, finish_reason: string | null = null) =>
    chunk({ choices: [{ index, delta, logprobs: null, finish_reason }] })
  const words = choices.map(({ text }) => wordsOf(text))
  const rounds = Math.max(...words.map(({ length }) => length))
  return [
    choices.map(({ index }) => piece(index, { role: "assistant", content: "", refusal: null })).join(""),
    ...Array.from({ length: rounds }, (_, round) =>
      words
        .map((of, index) => (of[round] === undefined ? "" : piece(index, { content: of[round] })))
        .join(""),
    ),
    choices.map(({ index, finish_reason }) => piece(index, {}, finish_reason)).join(""),
    `${include_usage ? chunk({ choices: [], usage }) : ""}data: [DONE]\n\n`,
  ]
}

function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`
}

/** A new id, such as `msg_` and 32 hex digits. */
export function newId(prefix: string): string {
  return `${prefix}${crypto.randomUUID().replaceAll("-", "")}`
}
