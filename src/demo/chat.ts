import { type ChatRequest, parseChat } from "../wire/requests.ts"
import { checked, cutAnswer, type DemoAnswer, styleOf, wordsOf } from "./answer.ts"
import { type PrefixCache, promptTokens, textOf } from "./tokens.ts"

/** The answer to a chat call: one body, or the events of a stream in bursts. Throws a `DemoError` like OpenAI's. */
export function completeChat(body: unknown, cache: PrefixCache): DemoAnswer {
  const call = checked(parseChat, body)
  const completion = complete(call, cache)
  if (call.stream === true)
    return { bursts: burstsOf(completion, call.stream_options?.include_usage === true) }
  const { choices, usage, ...common } = completion
  const messages = choices.map(({ index, text, finish_reason }) => ({
    index,
    message: { role: "assistant", content: text, refusal: null },
    logprobs: null,
    finish_reason,
  }))
  return { json: { ...common, object: "chat.completion", choices: messages, usage } }
}

function complete(call: ChatRequest, cache: PrefixCache) {
  const { model, messages, n } = call
  const style = styleOf(model)
  const prompt = promptTokens(call)
  const prompt_tokens = prompt.length
  const limit = Math.max(call.max_tokens ?? 0, call.max_completion_tokens ?? 0) || Number.POSITIVE_INFINITY
  const question = textOf(messages.findLast(({ role }) => role === "user") ?? messages.at(-1))
  const choices = Array.from({ length: n ?? 1 }, (_, index) => {
    const { is_cut, ...said } = cutAnswer(question, style, index, limit)
    return { index, ...said, finish_reason: is_cut ? "length" : "stop" }
  })
  const completion_tokens = choices.reduce((sum, { tokens }) => sum + tokens, 0)
  return {
    id: newId("chatcmpl-"),
    created: Math.floor(Date.now() / 1000),
    model,
    choices,
    usage: {
      prompt_tokens,
      completion_tokens,
      total_tokens: prompt_tokens + completion_tokens,
      prompt_tokens_details: { cached_tokens: cache.cachedTokens(prompt), audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
    },
  }
}

/** Events that are sent together: roles, a word of each choice at a time, finish reasons, then the usage. */
function burstsOf(
  { choices, usage, ...common }: ReturnType<typeof complete>,
  include_usage: boolean,
): string[] {
  const chunk = (further: object) => {
    const usual = { ...common, object: "chat.completion.chunk", ...(include_usage && { usage: null }) }
    return `data: ${JSON.stringify({ ...usual, ...further })}\n\n`
  }
  const piece = (index: number, delta: object, finish_reason: string | null = null) =>
    chunk({ choices: [{ index, delta, logprobs: null, finish_reason }] })
  const words = choices.map(({ text }) => wordsOf(text))
  const rounds = Math.max(...words.map(({ length }) => length))
  const round = (at: number) =>
    words.map((of, index) => (of[at] === undefined ? "" : piece(index, { content: of[at] })))
  return [
    choices.map(({ index }) => piece(index, { role: "assistant", content: "", refusal: null })).join(""),
    ...Array.from({ length: rounds }, (_, at) => round(at).join("")),
    choices.map(({ index, finish_reason }) => piece(index, {}, finish_reason)).join(""),
    `${include_usage ? chunk({ choices: [], usage }) : ""}data: [DONE]\n\n`,
  ]
}

/** A new id, such as `msg_` and 32 hex digits. */
export function newId(prefix: string): string {
  return `${prefix}${crypto.randomUUID().replaceAll("-", "")}`
}
