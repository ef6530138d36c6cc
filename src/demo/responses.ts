import { parseResponses } from "../wire/requests.ts"
import { checked, cutAnswer, type DemoAnswer, styleOf, wordsOf } from "./answer.ts"
import { newId } from "./chat.ts"
import { type PrefixCache, promptTokens, textOf } from "./tokens.ts"

/** The answer to a call of the responses operation: one body, or the bursts of events of a stream. Throws a `DemoError` in OpenAI's words. */
export function respond(body: unknown, cache: PrefixCache): DemoAnswer {
  const { model, input = [], instructions, tools, stream, max_output_tokens } = checked(parseResponses, body)
  const style = styleOf(model)
  const messages = typeof input === "string" ? [{ role: "user", content: input }] : input
  const prompt = promptTokens({ messages, system: instructions, tools })
  const question = textOf(messages.findLast(({ role }) => role === "user") ?? messages.at(-1) ?? "")
  const limit = max_output_tokens ?? Number.POSITIVE_INFINITY
  const { text, tokens: output_tokens, is_cut } = cutAnswer(question, style, 0, limit)
  const status = is_cut ? "incomplete" : "completed"
  const item = {
    id: newId("msg_"),
    type: "message",
    status,
    role: "assistant",
    content: [{ type: "output_text", text, annotations: [] }],
  }
  const begun = {
    id: newId("resp_"),
    object: "response",
    created_at: Math.floor(Date.now() / 1000),
    status: "in_progress",
    error: null,
    incomplete_details: null,
    model,
    output: [],
    usage: null,
  }
  const response = {
    ...begun,
    status,
    incomplete_details: is_cut ? { reason: "max_output_tokens" } : null,
    output: [item],
    usage: {
      input_tokens: prompt.length,
      input_tokens_details: { cached_tokens: cache.cachedTokens(prompt) },
      output_tokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: prompt.length + output_tokens,
    },
  }
  return stream === true ? { bursts: burstsOf(begun, item, text, response) } : { json: response }
}

/** The events in the order they are sent: the response and its empty message, then one word at a time, then the whole response. */
function burstsOf(
  begun: object,
  item: { readonly id: string; readonly content: readonly object[] },
  text: string,
  response: { readonly status: string },
): string[] {
  let sequence_number = 0
  const event = (type: string, fields: object) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence_number++, ...fields })}\n\n`
  const place = { item_id: item.id, output_index: 0, content_index: 0 }
  const [part] = item.content
  const empty = { ...item, status: "in_progress", content: [] }
  return [
    event("response.created", { response: begun }) +
      event("response.in_progress", { response: begun }) +
      event("response.output_item.added", { output_index: 0, item: empty }) +
      event("response.content_part.added", { ...place, part: { ...part, text: "" } }),
    ...wordsOf(text).map((delta) => event("response.output_text.delta", { ...place, delta, logprobs: [] })),
    event("response.output_text.done", { ...place, text, logprobs: [] }) +
      event("response.content_part.done", { ...place, part }) +
      event("response.output_item.done", { output_index: 0, item }) +
      event(`response.${response.status}`, { response }),
  ]
}
