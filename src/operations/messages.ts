import { errorBody } from "../errors.ts"
import type { JsonForm } from "../meter/json-reading.ts"
import { LargeAnswer } from "../meter/large-answer.ts"
import { MessagesLargeOutput, messageBytes } from "../meter/messages-output.ts"
import { MessagesReading, WHOLE_MESSAGE } from "../meter/messages-reading.ts"
import { reportsError } from "../meter/reading.ts"
import { isShown, shownRefusal } from "../upstream/refusal.ts"
import { readUsage, type UsageRules } from "../usage/reading.ts"
import { FieldTexts } from "../wire/json.ts"
import { type MessagesRequest, parseMessages } from "../wire/requests.ts"
import { isObject, type JsonObject, objectsIn, type UsageReading } from "../wire/usage.ts"
import { MessageAssembly } from "./assembled.ts"
import type { EventForm, OperationOn } from "./operation.ts"
import {
  messagesCredential,
  passedHeaders,
  passedQuery,
  sessionOf,
  vendorVersion,
} from "./request-headers.ts"

const encoder = new TextEncoder()

function usageOf({ usage }: JsonObject, rules: UsageRules): UsageReading {
  return readUsage(usage, rules, WHOLE_MESSAGE)
}

const json: JsonForm = {
  usageOf,
  outputBytes: messageBytes,
  isError: (payload) => reportsError(payload) && objectsIn(payload.content).length === 0,
  openLarge: () => new LargeAnswer(new MessagesLargeOutput()),
}

const stream: EventForm = {
  open: (_, rules) => new MessagesReading(rules),
  assembly: () => new MessageAssembly(),
  keepalive: encoder.encode(event({ type: "ping" })),
  end: encoder.encode(event({ type: "message_stop" })),
  keeps_last: true,
  errorEvent: (error, request_id) => encoder.encode(event(errorBody(error, request_id))),
  eventsOf: messageEvents,
}

/** Messages (D64). */
export const messages: OperationOn<MessagesRequest> = {
  name: "messages",
  family: "messages",
  path: "/v1/messages",
  generates: true,
  limit_field: "max_tokens",
  json,
  stream,
  refusals: { isRead: isShown, errorOf: shownRefusal },
  credential: messagesCredential,
  passed: (request, vendors, vendor) => ({
    headers: passedHeaders(request.headers, vendorVersion(request.headers, vendors, vendor)),
    query: passedQuery(request.url),
    session: sessionOf(request.headers),
  }),
  parse: parseMessages,
  texts: (request) => new FieldTexts(request),
  streams: ({ stream }) => stream === true,
  wantsUsage: () => true,
  wantsCost: () => false,
}

/** The SDKs skip events without a name. */
function event(payload: JsonObject): string {
  return `event: ${String(payload.type)}\ndata: ${JSON.stringify(payload)}\n\n`
}

/** A message converted to the events of a stream, as text (D29). */
export function messageEvents(message: JsonObject): string {
  return eventsOf(message).map(event).join("")
}

function eventsOf(message: JsonObject): readonly JsonObject[] {
  if (reportsError(message)) return [{ ...message, type: "error" }]
  const { content, stop_reason = null, stop_sequence = null, ...rest } = message
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  return [
    { type: "message_start", message: { ...rest, content: [], stop_reason: null, stop_sequence: null } },
    ...blocks.flatMap(blockEvents),
    { type: "message_delta", delta: { stop_reason, stop_sequence }, usage: rest.usage ?? null },
    { type: "message_stop" },
  ]
}

function blockEvents(block: unknown, index: number): readonly JsonObject[] {
  const { start, deltas } = isObject(block) ? partsOf(block) : { start: block, deltas: [] }
  return [
    { type: "content_block_start", index, content_block: start },
    ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
    { type: "content_block_stop", index },
  ]
}

/** Texts come in deltas, by which clients put a block together; any other block is whole from its start. */
function partsOf(block: JsonObject) {
  const { type, text, thinking, signature, input = {} } = block
  switch (type) {
    case "text":
      return { start: { ...block, text: "" }, deltas: [{ type: "text_delta", text }] }
    case "thinking":
      return {
        start: { ...block, thinking: "", signature: "" },
        deltas: [
          { type: "thinking_delta", thinking },
          ...(signature === undefined ? [] : [{ type: "signature_delta", signature }]),
        ],
      }
    case "tool_use":
    case "server_tool_use":
    case "mcp_tool_use":
      return {
        start: { ...block, input: {} },
        deltas: [{ type: "input_json_delta", partial_json: JSON.stringify(input) }],
      }
    default:
      return { start: block, deltas: [] }
  }
}
