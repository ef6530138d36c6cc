import { isObject, type JsonObject } from "../wire/usage.ts"

/** The one place where a provider's payload is parsed; null when it is not a JSON object. */
export function parsePayload(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

/** The choices of a chat chunk or a chat completion; what is not an object is none. */
export function choicesOf(payload: JsonObject): JsonObject[] {
  return objectsIn(payload.choices)
}

/**
 * UTF-8 bytes of the extractable output (D7) in one parsed chat chunk or chat completion: what the model wrote, in any
 * choice. White space counts; roles, finish reasons, usage and anything of another type than D7 names do not.
 */
export function outputBytes(payload: JsonObject): number {
  return choicesOf(payload).reduce((bytes, choice) => bytes + choiceBytes(choice), 0)
}

/** A choice carries a `delta` or a `message`, never the same text in both; completions of old carry `text`. */
function choiceBytes({ delta, message, text }: JsonObject): number {
  const said = isObject(delta) ? delta : message
  return textBytes(text) + (isObject(said) ? messageBytes(said) : 0)
}

function messageBytes(message: JsonObject): number {
  let bytes =
    contentBytes(message.content) + textBytes(message.refusal) + functionBytes(message.function_call)
  bytes += textBytes(message.reasoning_content) || textBytes(message.reasoning)
  if (isObject(message.audio)) bytes += textBytes(message.audio.transcript)
  for (const call of objectsIn(message.tool_calls))
    bytes += functionBytes(call.function) + customBytes(call.custom)
  return bytes
}

/** A string, or a list of parts of which the text parts count. */
function contentBytes(content: unknown): number {
  if (typeof content === "string") return textBytes(content)
  return objectsIn(content).reduce((bytes, part) => bytes + textBytes(part.text), 0)
}

function functionBytes(call: unknown): number {
  return isObject(call) ? textBytes(call.name) + textBytes(call.arguments) : 0
}

/** A call of a tool without a schema: its `input` is its arguments. */
function customBytes(call: unknown): number {
  return isObject(call) ? textBytes(call.name) + textBytes(call.input) : 0
}

/** A lone surrogate counts the three bytes of the U+FFFD it is sent as. */
function textBytes(value: unknown): number {
  return typeof value === "string" ? Buffer.byteLength(value) : 0
}

function objectsIn(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}
