import { errorBody } from "../errors.ts"
import { ChatReading } from "../meter/chat-reading.ts"
import type { JsonForm } from "../meter/json-reading.ts"
import { LargeAnswer } from "../meter/large-answer.ts"
import { ChatLargeOutput, choicesOf, outputBytes } from "../meter/output.ts"
import { reportsError } from "../meter/reading.ts"
import { isBodyShown, refusalError } from "../upstream/refusal.ts"
import { readingIn } from "../usage/reading.ts"
import { FieldTexts } from "../wire/json.ts"
import { type ChatRequest, parseChat, wantsCost, wantsUsage, withoutOurs } from "../wire/requests.ts"
import { isObject, type JsonObject } from "../wire/usage.ts"
import { ChatAssembly } from "./assembled.ts"
import type { EventForm, OperationOn } from "./operation.ts"
import { uncheckedCredential } from "./request-headers.ts"

const encoder = new TextEncoder()

const json: JsonForm = {
  usageOf: readingIn,
  outputBytes,
  isError: (payload) => reportsError(payload) && choicesOf(payload).length === 0,
  openLarge: () => new LargeAnswer(new ChatLargeOutput()),
}

export const chatEvents: EventForm = {
  open: (choices, rules) => new ChatReading(choices, rules),
  assembly: () => new ChatAssembly(),
  keepalive: encoder.encode(": keepalive\n\n"),
  end: encoder.encode("data: [DONE]\n\n"),
  keeps_last: false,
  errorEvent: (error, request_id) =>
    encoder.encode(`data: ${JSON.stringify({ error: errorBody(error, request_id).error })}\n\n`),
  eventsOf: (payload) => `data: ${JSON.stringify(chunkOf(payload))}\n\ndata: [DONE]\n\n`,
}

/** Chat completions (spec 4.1). */
export const chat: OperationOn<ChatRequest> = {
  name: "chat",
  family: "chat",
  path: "/chat/completions",
  generates: true,
  limit_field: "max_tokens",
  json,
  stream: chatEvents,
  refusals: { isRead: isBodyShown, errorOf: refusalError },
  credential: uncheckedCredential,
  passed: () => null,
  parse: parseChat,
  texts: (request) => new FieldTexts(withoutOurs(request)),
  changes: ({ stream, stream_options }) =>
    stream === true ? { stream_options: { ...stream_options, include_usage: true } } : {},
  streams: ({ stream }) => stream === true,
  wantsUsage,
  wantsCost,
}

function chunkOf(completion: JsonObject): JsonObject {
  const { object, choices } = completion
  return {
    ...completion,
    ...(object === "chat.completion" && { object: "chat.completion.chunk" }),
    ...(Array.isArray(choices) && { choices: choices.map(choiceOf) }),
  }
}

function choiceOf(choice: unknown): unknown {
  if (!isObject(choice) || !isObject(choice.message)) return choice
  const { message, ...rest } = choice
  return { ...rest, delta: deltaOf(message) }
}

/** Adds the index of each tool call, by which clients assemble it. */
function deltaOf(message: JsonObject): JsonObject {
  const { tool_calls } = message
  if (!Array.isArray(tool_calls)) return message
  const calls = tool_calls.map((call: unknown, index) => (isObject(call) ? { index, ...call } : call))
  return { ...message, tool_calls: calls }
}
