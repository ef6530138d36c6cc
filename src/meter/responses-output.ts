import { isObject, type JsonObject, objectsIn } from "../wire/usage.ts"
import type { JsonPosition, LargeOutput } from "./large-answer.ts"
import { countedBytes, itemsIn, jsonBytes } from "./output.ts"

/** Ids, types, states and padding, which are not output (D7). */
const NOT_SAID: ReadonlySet<string> = new Set([
  "id",
  "type",
  "object",
  "format",
  "role",
  "status",
  "phase",
  "model",
  "created_by",
  "obfuscation",
])
/** Results of the provider's tools, and data about the text such as citations, which are not output. */
const NOT_OUTPUT: ReadonlySet<string> = new Set([
  "error",
  "logprobs",
  "output",
  "outputs",
  "results",
  "sources",
  "tools",
])
const DATA: ReadonlySet<string> = new Set([
  "url",
  "data",
  "b64_json",
  "signature",
  "encrypted_content",
  "fingerprint",
  "partial_image_b64",
  "result",
])

/** True if nothing under this name is output, however deep (D66). */
function isOutputName(name: string): boolean {
  return !NOT_OUTPUT.has(name)
}

/** UTF-8 bytes of the strings in a value. Without recursion, because a provider may nest values to any depth. */
function fieldBytes(value: JsonObject, left_out: string | null = null): number {
  let bytes = 0
  const open: [name: string, value: object][] = [["", value]]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [name, parent] = next
    const { keys, items } = itemsIn(parent)
    for (let at = 0; at < items.length; at++) {
      const item = items[at]
      const key = keys?.[at]
      const item_name = key ?? name
      if (parent === value && key === left_out) continue
      if (typeof item === "string") {
        if (isOutputName(item_name)) bytes += countedBytes(item_name, Buffer.byteLength(item), NOT_SAID, DATA)
      } else if (typeof item !== "object" || item === null || !isOutputName(item_name)) continue
      else if (key === "arguments") bytes += jsonBytes(item)
      else open.push([item_name, item])
    }
  }
  return bytes
}

/** Items that contain results of the provider's tools, and no output of the model. */
const RESULT_ITEM = /_output$|^mcp_list_tools$|^additional_tools$/

function itemBytes(item: JsonObject): number {
  return typeof item.type === "string" && RESULT_ITEM.test(item.type) ? 0 : fieldBytes(item)
}

/** The output items of a response object that are objects. */
export function itemsOf({ output }: JsonObject): JsonObject[] {
  return objectsIn(output)
}

/** UTF-8 bytes of output in a response (D7, D66). Some providers repeat the whole text in `output_text`. */
export function responseBytes(response: JsonObject): number {
  const bytes = itemsOf(response).reduce((sum, item) => sum + itemBytes(item), 0)
  const { output_text } = response
  return typeof output_text === "string" ? Math.max(bytes, Buffer.byteLength(output_text)) : bytes
}

/** The runs of each of the provider's tools that can have a price, by the tool's name. */
export type ToolRuns = Readonly<Record<string, number>>

/** The items of tools that are billed by the run (D60). */
const RUN = /^(web_search|file_search|code_interpreter|image_generation)_call$/

/** The tool that an item is a run of; null for any other item. Only web searches that searched count. */
function toolOf({ type, status, action }: JsonObject): string | null {
  const tool = typeof type === "string" && status !== "failed" ? RUN.exec(type)?.[1] : undefined
  const is_search = !isObject(action) || (action.type ?? "search") === "search"
  return tool === undefined || (tool === "web_search" && !is_search) ? null : tool
}

export function runsOf(response: JsonObject): ToolRuns {
  const runs: Record<string, number> = {}
  for (const item of itemsOf(response)) {
    const tool = toolOf(item)
    if (tool !== null) runs[tool] = (runs[tool] ?? 0) + 1
  }
  return runs
}

interface CountedItem {
  bytes: number
  /** By the part of the item. */
  readonly parts: Map<string, number>
  open: boolean
}

/** Maximum number of tracked items, and of parts of an item. Snapshots and runs of others are not counted. */
const MAX_ITEMS = 1_024
const MAX_PARTS = 256

/** Items after which the model continues. */
const BETWEEN =
  /^reasoning$|^compaction$|^(?:web_search|file_search|code_interpreter|image_generation|mcp)_call$|^mcp_/

/** The output of response events. Snapshots repeat earlier text, and count only what they add (D66). */
export class ResponsesOutput {
  /** UTF-8 bytes of output so far. */
  bytes = 0
  /** Runs of the provider's tools so far. */
  readonly runs: Record<string, number> = {}
  /** By index in the output, and by id, because an event may have only one of them. */
  readonly #items = new Map<number | string, CountedItem>()
  #open_items = 0
  #ends_with_answer = false
  #last: { readonly item: CountedItem; readonly part: string } | null = null

  /** True if every item that began is done, and the last one may be the last of the answer (D9). */
  get paused(): boolean {
    return this.#open_items === 0 && this.#ends_with_answer
  }

  /** Counts further events like the last one. */
  get last(): ((bytes: number) => void) | null {
    const last = this.#last
    return last === null ? null : (bytes) => this.#add(last.item, last.part, bytes)
  }

  /** Reads an event. Returns how many bytes of output it adds. */
  take(event: JsonObject): number {
    const before = this.bytes
    const { type, item, part, response } = event
    this.#last = null
    if (isObject(response)) this.#takeResponse(response)
    else if (isObject(item)) this.#takeItem(event, item)
    else if (typeof type === "string") this.#takePart(event, type, isObject(part) || type.endsWith(".done"))
    else this.bytes += fieldBytes(event)
    return this.bytes - before
  }

  /** A whole response: only its items are output. The rest repeats the request. */
  #takeResponse(response: JsonObject): void {
    this.bytes = Math.max(this.bytes, responseBytes(response))
    for (const [tool, runs = 0] of Object.entries(runsOf(response)))
      this.runs[tool] = Math.max(this.runs[tool] ?? 0, runs)
  }

  #takeItem(event: JsonObject, item: JsonObject): void {
    const counted = this.#itemOf(event, item.id)
    const is_done = event.type === "response.output_item.done"
    const tool = is_done && (counted === null || counted.open) ? toolOf(item) : null
    if (tool !== null) this.runs[tool] = (this.runs[tool] ?? 0) + 1
    if (counted === null) return
    const further = Math.max(0, itemBytes(item) - counted.bytes)
    counted.bytes += further
    this.bytes += further
    if (!is_done || !counted.open) return
    counted.open = false
    // A further item without a name is another one.
    if (this.#items.get("") === counted) this.#items.delete("")
    this.#open_items -= 1
    this.#ends_with_answer = typeof item.type !== "string" || !BETWEEN.test(item.type)
  }

  #takePart(event: JsonObject, type: string, is_snapshot: boolean): void {
    if (type.includes("_output_content")) return
    // An audio delta is data. The name of a tool was counted with its item.
    const fields = type.endsWith("audio.delta") ? { data: event.delta } : event
    const bytes = fieldBytes(fields, is_snapshot ? "name" : null)
    if (bytes === 0) return
    const item = this.#itemOf(event, event.item_id)
    const name = partOf(event, type)
    if (!is_snapshot) this.#add(item, name, bytes)
    else if (item !== null) this.#add(item, name, Math.max(0, bytes - (item.parts.get(name) ?? 0)))
    if (item !== null) this.#last = { item, part: name }
  }

  #add(item: CountedItem | null, part: string, bytes: number): void {
    this.bytes += bytes
    if (item === null) return
    item.bytes += bytes
    const counted = item.parts.get(part)
    if (counted !== undefined || item.parts.size < MAX_PARTS) item.parts.set(part, (counted ?? 0) + bytes)
  }

  /** The item of an event; null if there are too many. Without index and id it is an item without a name. */
  #itemOf({ output_index }: JsonObject, id: unknown): CountedItem | null {
    const place = typeof output_index === "number" ? output_index : null
    const name = typeof id === "string" ? id : null
    const known =
      (place === null ? undefined : this.#items.get(place)) ??
      (name === null ? undefined : this.#items.get(name)) ??
      (place === null && name === null ? this.#items.get("") : undefined)
    if (known !== undefined) return known
    if (this.#items.size >= MAX_ITEMS) return null
    const item: CountedItem = { bytes: 0, parts: new Map(), open: true }
    if (place !== null) this.#items.set(place, item)
    if (name !== null || place === null) this.#items.set(name ?? "", item)
    this.#open_items += 1
    return item
  }
}

/** The part of an item that an event belongs to: a content part, a summary part, a command, or the part in its type. */
function partOf({ content_index, summary_index, command_index }: JsonObject, type: string): string {
  if (typeof content_index === "number") return `content ${content_index}`
  if (typeof summary_index === "number") return `summary ${summary_index}`
  if (typeof command_index === "number") return `command ${command_index}`
  return type.slice(0, type.lastIndexOf("."))
}

/** The depth of a field of an item: `output`, the index, the field. */
const FIELD_DEPTH = 3

/**
 * Counts the output of a response object: `output[…]` and below. Keeps enough of items to count the runs of each tool
 * up to the charged maximum (D60).
 */
export class ResponsesLargeOutput implements LargeOutput {
  bytes = 0
  readonly #runs: JsonObject[] = []
  readonly #runs_of_tool = new Map<string, number>()
  #item: JsonObject = {}

  get members(): JsonObject {
    return { output: this.#runs }
  }

  readsKeys({ depth, keys }: JsonPosition): boolean {
    return depth >= FIELD_DEPTH && keys[0] === "output"
  }

  readsText({ depth, keys }: JsonPosition): boolean {
    if (keys[0] !== "output") return false
    if (depth === FIELD_DEPTH) return keys[2] === "type" || keys[2] === "status"
    return depth === FIELD_DEPTH + 1 && keys[2] === "action" && keys[3] === "type"
  }

  endValue({ depth, keys }: JsonPosition): void {
    if (depth !== FIELD_DEPTH - 1 || keys[0] !== "output") return
    const tool = toolOf(this.#item)
    const runs = this.#runs_of_tool.get(tool ?? "") ?? 0
    if (tool !== null && runs < MAX_ITEMS) {
      this.#runs_of_tool.set(tool, runs + 1)
      this.#runs.push(this.#item)
    }
    this.#item = {}
  }

  take(place: JsonPosition, bytes: number, text: string): void {
    const { depth, keys, lists, name } = place
    if (keys[0] !== "output" || lists[1] !== true || depth < FIELD_DEPTH) return
    if (this.readsText(place))
      Object.assign(this.#item, keys[2] === "action" ? { action: { type: text } } : { [name]: text })
    for (let at = FIELD_DEPTH - 1; at < depth; at++) if (!isOutputName(keys[at] ?? "")) return
    this.bytes += countedBytes(name, bytes, NOT_SAID, DATA)
  }
}
