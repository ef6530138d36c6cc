import { errorBody } from "../errors.ts"
import type { JsonForm } from "../meter/json-reading.ts"
import { LargeAnswer } from "../meter/large-answer.ts"
import { reportsError } from "../meter/reading.ts"
import { itemsOf, ResponsesLargeOutput, responseBytes } from "../meter/responses-output.ts"
import { ResponsesReading, responseUsage } from "../meter/responses-reading.ts"
import { isBodyShown, refusalError } from "../upstream/refusal.ts"
import { FieldTexts } from "../wire/json.ts"
import { parseResponses, type ResponsesRequest } from "../wire/requests.ts"
import { isObject, type JsonObject } from "../wire/usage.ts"
import { ResponseAssembly } from "./assembled.ts"
import type { EventForm, OperationOn } from "./operation.ts"
import { uncheckedCredential } from "./request-headers.ts"

const encoder = new TextEncoder()

const json: JsonForm = {
  usageOf: responseUsage,
  outputBytes: responseBytes,
  isError: (response) => reportsError(response) && itemsOf(response).length === 0,
  openLarge: () => new LargeAnswer(new ResponsesLargeOutput()),
}

const stream: EventForm = {
  open: (_choices, rules) => new ResponsesReading(rules),
  assembly: () => new ResponseAssembly(),
  keepalive: encoder.encode(": keepalive\n\n"),
  end: null,
  keeps_last: true,
  errorEvent(error, request_id) {
    const body = errorBody(error, request_id).error
    const { code, message, param } = body
    return encoder.encode(
      printedEvent({ type: "error", code, message, param, sequence_number: 0, error: body }),
    )
  },
  eventsOf: responseEvents,
}

/** Responses (D66). */
export const responses: OperationOn<ResponsesRequest> = {
  name: "responses",
  family: "chat",
  path: "/responses",
  generates: true,
  limit_field: "max_output_tokens",
  json,
  stream,
  refusals: { isRead: isBodyShown, errorOf: refusalError },
  credential: uncheckedCredential,
  passed: () => null,
  parse: parseResponses,
  texts: (request) => new FieldTexts(request),
  streams: ({ stream }) => stream === true,
  wantsUsage: () => true,
  wantsCost: () => false,
}

const LAST_EVENTS: Readonly<Record<string, string>> = {
  failed: "response.failed",
  incomplete: "response.incomplete",
}

/** The events of an equivalent stream (D29, D66); of an object that only reports an error, an `error` event. */
export function responseEvents(response: JsonObject): string {
  const { object, output, status, error } = response
  const is_response = object === "response" || Array.isArray(output) || typeof status === "string"
  if (!is_response) return isObject(error) ? printed([{ ...error, type: "error" }]) : ""
  const last = typeof status === "string" ? LAST_EVENTS[status] : undefined
  return printed([
    { type: "response.created", response: { ...response, status: "in_progress", output: [], usage: null } },
    ...itemsOf(response).flatMap(itemEvents),
    { type: last ?? "response.completed", response },
  ])
}

/** The events as text. Every event of this API has a name and a sequence number. */
function printed(events: readonly JsonObject[]): string {
  return events.map((event, at) => printedEvent({ ...event, sequence_number: at })).join("")
}

/** One event as text, with the name that clients of this API read. */
function printedEvent(event: JsonObject): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}

function itemEvents(item: JsonObject, output_index: number): JsonObject[] {
  const place = { output_index, ...(typeof item.id === "string" && { item_id: item.id }) }
  const { content, ...rest } = item
  const is_message = item.type === "message" && Array.isArray(content)
  const is_call = item.type === "function_call" && typeof item.arguments === "string"
  const begun = is_message ? { ...rest, content: [] } : is_call ? { ...item, arguments: "" } : item
  return [
    { type: "response.output_item.added", output_index, item: { ...begun, status: "in_progress" } },
    ...(is_message ? content.filter(isObject).flatMap((part, at) => partEvents(part, at, place)) : []),
    ...(is_call ? argumentEvents(item, place) : []),
    { type: "response.output_item.done", output_index, item },
  ]
}

function partEvents(part: JsonObject, content_index: number, item: JsonObject): JsonObject[] {
  const place = { ...item, content_index }
  const added = { type: "response.content_part.added", ...place }
  const done = { type: "response.content_part.done", ...place, part }
  if (part.type !== "output_text" || typeof part.text !== "string") return [{ ...added, part }, done]
  return [
    { ...added, part: { ...part, text: "" } },
    { type: "response.output_text.delta", ...place, delta: part.text, logprobs: [] },
    { type: "response.output_text.done", ...place, text: part.text, logprobs: [] },
    done,
  ]
}

function argumentEvents({ name, arguments: text }: JsonObject, place: JsonObject): JsonObject[] {
  return [
    { type: "response.function_call_arguments.delta", ...place, delta: text },
    { type: "response.function_call_arguments.done", ...place, name, arguments: text },
  ]
}
