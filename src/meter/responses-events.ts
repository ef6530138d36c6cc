import { isObject, type JsonObject } from "../wire/usage.ts"
import { itemsOf } from "./responses-output.ts"

/** The states of a response, and the event that ends a stream with each. */
const LAST: Readonly<Record<string, string>> = {
  failed: "response.failed",
  incomplete: "response.incomplete",
}

/**
 * A response object as the events of a stream that says the same (D29, D66). An object that is no response, but reports an
 * error, is an `error` event; any other is none.
 */
export function responseEvents(response: JsonObject): string {
  const { object, output, status, error } = response
  const is_response = object === "response" || Array.isArray(output) || typeof status === "string"
  if (!is_response) return isObject(error) ? printed([{ ...error, type: "error" }]) : ""
  const last = typeof status === "string" ? LAST[status] : undefined
  return printed([
    { type: "response.created", response: { ...response, status: "in_progress", output: [], usage: null } },
    ...itemsOf(response).flatMap(itemEvents),
    { type: last ?? "response.completed", response },
  ])
}

/** With the name and the number that every event of this family has. */
function printed(events: readonly JsonObject[]): string {
  return events.map((event, at) => printedEvent({ ...event, sequence_number: at })).join("")
}

/** One event, with the name that clients of this family go by. */
export function printedEvent(event: JsonObject): string {
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
