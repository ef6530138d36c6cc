import { type MessagesRequest, parseMessages } from "../wire/requests.ts"
import { checked, cutAnswer, type DemoAnswer, DemoError, wordsOf } from "./answer.ts"
import { newId } from "./chat.ts"
import { type PrefixCache, promptTokens, textOf } from "./tokens.ts"

export const messagesModel = "demo-messages"

/** The answer to a messages call: one body, or bursts of events. Throws a `DemoError` like Anthropic's. */
export function completeMessage(body: unknown, cache: PrefixCache): DemoAnswer {
  const call = checked(parseMessages, body)
  if (call.model !== messagesModel) throw new DemoError(404, "not_found_error", "model: not found")
  const question = questionOf(call.messages)
  const { text, tokens: output_tokens, is_cut } = cutAnswer(question, "small", 0, call.max_tokens)
  const message = {
    id: newId("msg_"),
    type: "message",
    role: "assistant",
    model: call.model,
    stop_sequence: null,
  }
  const stop_reason = is_cut ? "max_tokens" : "end_turn"
  const usage = inputOf(call, cache)
  if (call.stream !== true) {
    const content = [{ type: "text", text }]
    return { json: { ...message, content, stop_reason, usage: { ...usage, output_tokens } } }
  }
  const words = wordsOf(text)
  const delta = (word: string) =>
    event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: word } })
  return {
    bursts: [
      event({
        type: "message_start",
        message: { ...message, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } },
      }) + event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
      ...words.map(delta),
      event({ type: "content_block_stop", index: 0 }) +
        event({
          type: "message_delta",
          delta: { stop_reason, stop_sequence: null },
          usage: { ...usage, output_tokens },
        }) +
        event({ type: "message_stop" }),
    ],
  }
}

/** The last text of the user: agents put reminders before it. */
function questionOf(messages: MessagesRequest["messages"]): string {
  const content = (messages.findLast(({ role }) => role === "user") ?? messages.at(-1))?.content
  return textOf(Array.isArray(content) ? content.at(-1) : content)
}

/** The input of a call. `input_tokens` does not include cached tokens. */
function inputOf(call: MessagesRequest, cache: PrefixCache) {
  const prompt = promptTokens(call)
  const cache_read_input_tokens = cache.cachedTokens(prompt)
  return {
    input_tokens: prompt.length - cache_read_input_tokens,
    cache_read_input_tokens,
    cache_creation_input_tokens: 0,
  }
}

function event(data: { readonly type: string; readonly [field: string]: unknown }): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
}
