import { isObject, isText, type JsonObject } from "../wire/usage.ts"
import type { JsonPosition, LargeOutput } from "./large-answer.ts"
import { countedBytes, valueBytes } from "./output.ts"

/** UTF-8 bytes of the output (D7, D64) in a whole message: the texts of its blocks. */
export function messageBytes({ content }: JsonObject): number {
  if (typeof content === "string") return Buffer.byteLength(content)
  if (!Array.isArray(content)) return 0
  return content.reduce((bytes: number, block: unknown) => bytes + blockBytes(block), 0)
}

/** The same for one event, in `delta`, `content_block` and `message`, without provider tools' results. */
export function eventBytes({ type, delta, content_block, message }: JsonObject): number {
  let bytes = content_block === undefined ? 0 : blockBytes(content_block)
  if (isObject(message)) bytes += messageBytes(message)
  if (!isObject(delta)) return bytes + valueBytes("delta", delta)
  if (delta.type === "citations_delta") return bytes
  return bytes + valueBytes("delta", type === "message_delta" ? withoutEnd(delta) : delta)
}

/** The fields of a `message_delta` that describe the end of the message are not output. */
function withoutEnd({
  stop_reason,
  stop_sequence,
  stop_details,
  container,
  ...output_fields
}: JsonObject): JsonObject {
  return output_fields
}

function blockBytes(block: unknown): number {
  if (!isObject(block)) return valueBytes("content", block)
  const { type, citations, ...output_fields } = block
  return typeof type === "string" && type.endsWith("_tool_result") ? 0 : valueBytes("content", output_fields)
}

/** The text of an event with exactly one text; null for any other event. */
export function eventText({ delta }: JsonObject): string | null {
  if (!isObject(delta)) return null
  const { text, thinking, partial_json } = delta
  return [text, thinking, partial_json].find(isText) ?? null
}

/** The depth of a field of a block: `content`, the index, the field. */
const FIELD_DEPTH = 3

/** Counts the output of a message that is too large to keep: the content of its blocks. */
export class MessagesLargeOutput implements LargeOutput {
  bytes = 0

  readsKeys({ depth, keys }: JsonPosition): boolean {
    return depth >= FIELD_DEPTH && keys[0] === "content"
  }

  take({ depth, keys, lists, name }: JsonPosition, bytes: number): void {
    if (keys[0] === "content" && lists[1] === true && depth >= FIELD_DEPTH)
      this.bytes += countedBytes(name, bytes)
  }
}
