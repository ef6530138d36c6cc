import { isObject, type JsonObject, objectsIn } from "../wire/usage.ts"
import type { JsonPosition, LargeOutput } from "./large-answer.ts"

/** The choices of a chat chunk or a chat completion that are objects. */
export function choicesOf(payload: JsonObject): JsonObject[] {
  return objectsIn(payload.choices)
}

/** UTF-8 bytes of output (D7): every text of any choice. Ids, types, roles, reasons and usage do not count. */
export function outputBytes(payload: JsonObject): number {
  let bytes = 0
  for (const choice of choicesOf(payload)) bytes += choiceBytes(choice)
  return bytes
}

/** A choice has a `delta` or a `message`. Legacy completions have `text`, which some providers send beside `content`. */
function choiceBytes({ delta, message, text }: JsonObject): number {
  const content = delta ?? message
  const bytes = isObject(content) ? messageBytes(content) : valueBytes("message", content)
  const repeats = isObject(content) && content.content === text
  return typeof text === "string" && !repeats ? bytes + Buffer.byteLength(text) : bytes
}

/** Field names for the same reasoning. The first one with text counts. */
const REASONING: readonly string[] = ["reasoning_content", "reasoning", "reasoning_details"]

function messageBytes(message: JsonObject): number {
  let bytes = 0
  let has_reasoning = false
  for (const name in message) {
    const value = message[name]
    if (value === null || value === "") continue
    if (REASONING.includes(name)) has_reasoning = true
    else bytes += valueBytes(name, value)
  }
  return has_reasoning ? bytes + reasoningBytes(message) : bytes
}

function reasoningBytes(message: JsonObject): number {
  for (const name of REASONING) {
    const bytes = valueBytes(name, message[name])
    if (bytes > 0) return bytes
  }
  return 0
}

const NOT_SAID: ReadonlySet<string> = new Set(["id", "type", "object", "format", "role", "obfuscation"])
const DATA: ReadonlySet<string> = new Set(["url", "data", "b64_json", "signature", "encrypted_content"])
/** Bytes of data that count as one byte of text. */
const DATA_BYTES = 64

/** UTF-8 bytes of the strings in a value. Without recursion, because a provider may nest values to any depth. */
export function valueBytes(name: string, value: unknown): number {
  if (typeof value === "string") return stringBytes(name, value)
  if (typeof value !== "object" || value === null) return 0
  let bytes = 0
  const open: [name: string, value: object][] = [[name, value]]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [name, parent] = next
    const { keys, items } = itemsIn(parent)
    for (let at = 0; at < items.length; at++) {
      const item = items[at]
      const key = keys?.[at]
      const item_name = key ?? name
      if (typeof item === "string") bytes += stringBytes(item_name, item)
      else if (typeof item !== "object" || item === null) continue
      else if (key === "arguments" || key === "input") bytes += argumentBytes(item)
      else open.push([item_name, item])
    }
  }
  return bytes
}

/**
 * The members of an object, or the elements of a list, which have no keys. Faster than `Object.entries` for a long
 * list.
 */
export function itemsIn(parent: object): { readonly keys: string[] | null; readonly items: unknown[] } {
  if (Array.isArray(parent)) return { keys: null, items: parent }
  return { keys: Object.keys(parent), items: Object.values(parent) }
}

/** The bytes of arguments as an object. An empty one, with which streamed arguments begin, counts 0. */
function argumentBytes(value: object): number {
  return Object.keys(value).length === 0 ? 0 : jsonBytes(value)
}

/** The bytes of a string. A lone surrogate counts three, because it is sent as U+FFFD. */
function stringBytes(name: string, text: string): number {
  return countedBytes(name, Buffer.byteLength(text))
}

/** The output bytes for a string of `bytes` bytes in a field of this name (D7). */
export function countedBytes(name: string, bytes: number, not_said = NOT_SAID, data = DATA): number {
  if (not_said.has(name) || name.endsWith("_id") || name.endsWith("_type")) return 0
  return data.has(name) ? Math.ceil(bytes / DATA_BYTES) : bytes
}

/** Bytes of the JSON text without escapes. Not by `JSON.stringify`, which takes seconds to refuse deep nesting. */
export function jsonBytes(value: object): number {
  let bytes = 0
  const open = [value]
  for (let parent = open.pop(); parent !== undefined; parent = open.pop()) {
    const { keys, items } = itemsIn(parent)
    bytes += "{}".length + Math.max(0, items.length - 1)
    for (const key of keys ?? []) bytes += Buffer.byteLength(key) + '"":'.length
    for (const item of items) {
      if (typeof item === "string") bytes += Buffer.byteLength(item) + '""'.length
      else if (typeof item === "object" && item !== null) open.push(item)
      else bytes += String(item).length
    }
  }
  return bytes
}

/** Tokens estimated from UTF-8 bytes of output: rounded down, at least one (rule 2, D6). */
export function estimateTokens(bytes: number, bytes_per_token: number): number {
  return Math.max(1, Math.floor(bytes / bytes_per_token))
}

/** The depth of a field of a message: `choices`, the index, `message`, the field. */
const FIELD_DEPTH = 4

/** Counts the output of a chat completion: `choices[…].message` and below, or `choices[…].text`. */
export class ChatLargeOutput implements LargeOutput {
  #bytes = 0
  /** Bytes of reasoning by field name. The first name with any counts. */
  readonly #reasoning = new Map<string, number>()

  get bytes(): number {
    const reasoning = REASONING.map((name) => this.#reasoning.get(name) ?? 0)
    return this.#bytes + (reasoning.find((bytes) => bytes > 0) ?? 0)
  }

  /** The keys of a choice and within its message. */
  readsKeys({ depth, keys }: JsonPosition): boolean {
    if (depth < FIELD_DEPTH - 1 || keys[0] !== "choices") return false
    return depth === FIELD_DEPTH - 1 || keys[2] === "message" || keys[2] === "delta"
  }

  take({ depth, keys, lists, name }: JsonPosition, bytes: number): void {
    if (keys[0] !== "choices" || lists[1] !== true) return
    if (depth === FIELD_DEPTH - 1 && keys[2] === "text") this.#bytes += bytes
    if (depth < FIELD_DEPTH || (keys[2] !== "message" && keys[2] !== "delta")) return
    const counted = countedBytes(name, bytes)
    const field = keys[FIELD_DEPTH - 1] ?? ""
    if (REASONING.includes(field)) this.#reasoning.set(field, (this.#reasoning.get(field) ?? 0) + counted)
    else this.#bytes += counted
  }
}
