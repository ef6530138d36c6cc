import { json, READ_MS, type Script } from "./provider.ts"

/** What a provider of the responses operation sends, written by hand. */

export function responseUsage(input_tokens: number, output_tokens: number, cached_tokens = 0) {
  return {
    input_tokens,
    input_tokens_details: { cached_tokens },
    output_tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input_tokens + output_tokens,
  }
}

const COMMON = {
  id: "resp_9f2c",
  object: "response",
  created_at: 1_760_000_000,
  status: "completed",
  error: null,
  model: "provider-model-2025",
  instructions: "What the request said is repeated here.",
  tools: [{ type: "function", name: "repeated" }],
}

/** A response object; `overrides` replaces fields (undefined leaves one out). */
export function responseObject(output: readonly object[], overrides: Record<string, unknown> = {}) {
  return { ...COMMON, output, usage: responseUsage(9, 12), ...overrides }
}

export function textItem(text: string, id = "msg_1") {
  const content = [{ type: "output_text", text, annotations: [], logprobs: [] }]
  return { id, type: "message", status: "completed", role: "assistant", content }
}

export function callItem(name: string, text: string, id = "fc_1") {
  return { id, type: "function_call", status: "completed", call_id: "call_1", name, arguments: text }
}

export function reasoningItem(text: string, id = "rs_1") {
  return {
    id,
    type: "reasoning",
    summary: [{ type: "summary_text", text }],
    encrypted_content: "Z".repeat(64),
  }
}

export function responseEvent(type: string, fields: object = {}): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`
}

/** The first event, which repeats the request. */
export const created = responseEvent("response.created", {
  response: responseObject([], { status: "in_progress", usage: null }),
})

/** The events of a message whose text comes in these pieces. */
export function textEvents(pieces: readonly string[], output_index = 0, id = "msg_1"): string[] {
  const item = textItem(pieces.join(""), id)
  const place = { item_id: id, output_index, content_index: 0 }
  const [part] = item.content
  return [
    responseEvent("response.output_item.added", {
      output_index,
      item: { ...item, status: "in_progress", content: [] },
    }),
    responseEvent("response.content_part.added", { ...place, part: { ...part, text: "" } }),
    ...pieces.map((delta) => responseEvent("response.output_text.delta", { ...place, delta, logprobs: [] })),
    responseEvent("response.output_text.done", { ...place, text: pieces.join(""), logprobs: [] }),
    responseEvent("response.content_part.done", { ...place, part }),
    responseEvent("response.output_item.done", { output_index, item }),
  ]
}

export function callEvents(name: string, pieces: readonly string[], output_index = 0, id = "fc_1"): string[] {
  const item = callItem(name, pieces.join(""), id)
  const place = { item_id: id, output_index }
  return [
    responseEvent("response.output_item.added", {
      output_index,
      item: { ...item, status: "in_progress", arguments: "" },
    }),
    ...pieces.map((delta) => responseEvent("response.function_call_arguments.delta", { ...place, delta })),
    responseEvent("response.function_call_arguments.done", {
      ...place,
      name,
      arguments: pieces.join(""),
    }),
    responseEvent("response.output_item.done", { output_index, item }),
  ]
}

export function reasoningEvents(pieces: readonly string[], output_index = 0, id = "rs_1"): string[] {
  const item = reasoningItem(pieces.join(""), id)
  const place = { item_id: id, output_index, summary_index: 0 }
  const [part] = item.summary
  return [
    responseEvent("response.output_item.added", {
      output_index,
      item: { ...item, summary: [] },
    }),
    responseEvent("response.reasoning_summary_part.added", { ...place, part: { ...part, text: "" } }),
    ...pieces.map((delta) => responseEvent("response.reasoning_summary_text.delta", { ...place, delta })),
    responseEvent("response.reasoning_summary_text.done", { ...place, text: pieces.join("") }),
    responseEvent("response.reasoning_summary_part.done", { ...place, part }),
    responseEvent("response.output_item.done", { output_index, item }),
  ]
}

export function last(
  output: readonly object[],
  overrides: Record<string, unknown> = {},
  type = "response.completed",
): string {
  return responseEvent(type, { response: responseObject(output, overrides) })
}

/** A whole stream that says `pieces` and reports `usage`. */
export function textStream(pieces: readonly string[], usage: unknown = responseUsage(9, 12)): string[] {
  return [created, ...textEvents(pieces), last([textItem(pieces.join(""))], { usage })]
}

/** Answers with these events, each in a chunk of its own. */
export function responseStream(
  events: readonly string[],
  { ending = "end" }: { readonly ending?: "end" | "reset" | "close" } = {},
): Script {
  return async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream" })
    for (const event of events) await exchange.chunk(event)
    if (ending !== "end") await Bun.sleep(READ_MS)
    await exchange[ending]()
  }
}

export function responseJson(output: readonly object[], overrides: Record<string, unknown> = {}): Script {
  return json(200, responseObject(output, overrides))
}
