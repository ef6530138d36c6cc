import { type Static, Type } from "@sinclair/typebox"
import { checked, cutAnswer, type DemoAnswer, type DemoSize, styleOf, wordsOf } from "./answer.ts"
import { newId } from "./chat.ts"
import { type PrefixCache, promptTokens, textOf } from "./tokens.ts"

const ResponsesCall = Type.Object({
  model: Type.String(),
  input: Type.Union([Type.String(), Type.Array(Type.Unknown())]),
  instructions: Type.Optional(Type.Unknown()),
  tools: Type.Optional(Type.Unknown()),
  stream: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
  max_output_tokens: Type.Optional(Type.Union([Type.Integer({ minimum: 1 }), Type.Null()])),
})
type ResponsesCall = Static<typeof ResponsesCall>

/** The answer to a call of the responses operation: one body, or the bursts of events of a stream. Throws a `DemoError` in OpenAI's words. */
export function respond(body: unknown, cache: PrefixCache): DemoAnswer {
  const call = checked(ResponsesCall, body)
  const generated = tell(call, styleOf(call.model), cache)
  return call.stream === true ? { bursts: burstsOf(generated) } : { json: generated.response }
}

function tell(call: ResponsesCall, style: DemoSize, cache: PrefixCache) {
  const messages = typeof call.input === "string" ? [call.input] : call.input
  const prompt = promptTokens({ messages, system: call.instructions, tools: call.tools })
  const limit = call.max_output_tokens ?? Number.POSITIVE_INFINITY
  const { text, tokens, is_cut } = cutAnswer(questionIn(messages), style, 0, limit)
  const part = { type: "output_text", text, annotations: [] }
  const item = {
    id: newId("msg_"),
    type: "message",
    status: is_cut ? "incomplete" : "completed",
    role: "assistant",
    content: [part],
  }
  const begun = {
    id: newId("resp_"),
    object: "response",
    created_at: Math.floor(Date.now() / 1000),
    status: "in_progress",
    error: null,
    incomplete_details: null,
    model: call.model,
    output: [],
    usage: null,
  }
  return {
    text,
    begun,
    item,
    part,
    is_cut,
    response: {
      ...begun,
      status: item.status,
      incomplete_details: is_cut ? { reason: "max_output_tokens" } : null,
      output: [item],
      usage: usageOf(prompt.length, cache.cachedTokens(prompt), tokens),
    },
  }
}

function questionIn(messages: readonly unknown[]): string {
  const isUsers = (item: unknown) =>
    typeof item === "string" ||
    (typeof item === "object" && item !== null && "role" in item && item.role === "user")
  return textOf(messages.findLast(isUsers) ?? messages.at(-1) ?? "")
}

function usageOf(input_tokens: number, cached_tokens: number, output_tokens: number) {
  return {
    input_tokens,
    input_tokens_details: { cached_tokens },
    output_tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input_tokens + output_tokens,
  }
}

/** The events in the order they are sent: the response and its empty message, then one word at a time, then the whole response. */
function burstsOf({ text, begun, response, item, part, is_cut }: ReturnType<typeof tell>): string[] {
  let sequence_number = 0
  const event = (type: string, fields: object) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence_number++, ...fields })}\n\n`
  const place = { item_id: item.id, output_index: 0, content_index: 0 }
  const words = wordsOf(text)
  return [
    event("response.created", { response: begun }) +
      event("response.in_progress", { response: begun }) +
      event("response.output_item.added", {
        output_index: 0,
        item: { ...item, status: "in_progress", content: [] },
      }) +
      event("response.content_part.added", { ...place, part: { ...part, text: "" } }),
    ...words.map((delta) => event("response.output_text.delta", { ...place, delta, logprobs: [] })),
    event("response.output_text.done", { ...place, text, logprobs: [] }) +
      event("response.content_part.done", { ...place, part }) +
      event("response.output_item.done", { output_index: 0, item }) +
      event(is_cut ? "response.incomplete" : "response.completed", { response }),
  ]
}
