import { withoutObject } from "../meter/json-reading.ts"
import { choicesOf } from "../meter/output.ts"
import { parsePayload, parsePrintable } from "../meter/payload.ts"
import type { JsonEvidence } from "../meter/reading.ts"
import { EventTooLarge, Framer } from "../meter/sse.ts"
import { type UsageRules, usagesOf } from "../usage/reading.ts"
import { encoded } from "../wire/buffers.ts"
import { type NextTurn, nextTurn, SLICE_BYTES, slices } from "../wire/shape.ts"
import { isMissing, isObject, isWhole, type JsonObject, objectOf } from "../wire/usage.ts"
import type { Assembly, EventForm } from "./operation.ts"

/** An event stream in answer to a JSON call (D5): its evidence, and the JSON answer made from its events. */

/** The number of small events that are read before other calls get a turn. */
const EVENTS_PER_TURN = 1_000
/** The characters of an event that is parsed and read in turns of its own. */
const LARGE_EVENT = 65_536

/** Reads a whole body that is not a JSON object: its evidence, and the bytes for the client. It is malformed if none of its events is a JSON object. */
export async function assembled(
  form: EventForm,
  body: Uint8Array,
  choices: number,
  event_bytes: number,
  rules: UsageRules,
  turn: NextTurn = nextTurn,
): Promise<{ readonly evidence: JsonEvidence; readonly bytes: Uint8Array }> {
  const reading = form.open(choices, rules)
  const assembly = form.assembly()
  let charges_error = false
  let reports_error = false
  let is_printable = true
  let events = 0
  const take = (payload: JsonObject | null, data: string | null) => {
    const read = reading.read(data, payload ?? undefined)
    if (read.kind === "nothing") return
    reports_error ||= read.reports_error
    if (read.kind === "error" || read.kind === "done") charges_error = read.trusted_usage
    if (payload !== null) assembly.take(payload)
    else if (data?.trim() !== "[DONE]") is_printable = false
  }
  const framer = new Framer(event_bytes)
  try {
    for await (const slice of slices(body, turn)) {
      for (const { data } of framer.feed(slice)) {
        const is_large = data !== null && data.length > LARGE_EVENT
        const payload = parsePrintable(data ?? "")
        if (is_large) await turn()
        take(payload, data)
        if (is_large || ++events % EVENTS_PER_TURN === 0) await turn()
      }
    }
  } catch (error) {
    if (!(error instanceof EventTooLarge)) throw error
    reading.error = true
  }
  const last = framer.end()
  if (last !== null) take(parsePrintable(last.data ?? ""), last.data)

  const { error, usage, output_bytes, output_bytes_after_usage, service_tier } = reading.evidence("completed")
  const { answer } = assembly
  const is_whole = error || reading.done || reading.answered
  if ((answer === null && is_printable) || !is_whole)
    return { evidence: withoutObject("malformed", "completed"), bytes: body }
  // D10: an error without usage that counts the whole answer is a failure, whatever came before it.
  if (error && !charges_error && !reading.usage_final)
    return { evidence: withoutObject("error", "completed"), bytes: body }
  const text = is_printable ? JSON.stringify(answer) : null
  if (body.byteLength > SLICE_BYTES) await turn()
  return {
    evidence: {
      shape: "json",
      ending: "completed",
      body: "object",
      usage,
      output_bytes,
      output_bytes_after_usage,
      service_tier,
      too_large: !is_printable,
      ...((error || reports_error) && { reports_error: true }),
    },
    bytes: text === null ? body : encoded(text),
  }
}

/** Texts that an event repeats as a whole. All others continue the text before them. */
const REPEATED: ReadonlySet<string> = new Set(["id", "type", "role", "name", "format", "finish_reason"])
/** Deeper values are not merged: a later value replaces the earlier one. */
const MAX_DEPTH = 16
/** The number of elements of a list that are searched for the one that an event continues. */
const MAX_SEARCHED = 128

/** Merges an event's value. Null and a 0 after a number change nothing. `continues`: texts and lists grow. */
function add(to: JsonObject, delta: JsonObject, continues: boolean, depth = 0): void {
  for (const [name, value] of Object.entries(delta)) {
    const before = Object.hasOwn(to, name) ? to[name] : undefined
    if (!isMissing(value)) to[name] = joined(name, before, value, continues, depth)
    else if (value === null && before === undefined) to[name] = null
  }
}

function joined(name: string, before: unknown, value: unknown, continues: boolean, depth: number): unknown {
  if (isMissing(before) || depth >= MAX_DEPTH) return value
  if (isObject(before) && isObject(value)) {
    add(before, value, continues, depth + 1)
    return before
  }
  if (typeof value === "number") return value === 0 ? before : value
  if (!continues || REPEATED.has(name)) return value === "" ? before : value
  if (typeof before === "string" && typeof value === "string") return before + value
  if (!Array.isArray(before) && !Array.isArray(value)) return value
  const list = partsOf(before)
  for (const part of partsOf(value)) addPart(list, part, depth)
  return list
}

/** Some providers send the reasoning as a list of parts, and then the answer as a text. */
function partsOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : value === "" ? [] : [{ type: "text", text: value }]
}

/** A part continues the one with its index, unless that has another id. */
function addPart(list: unknown[], part: unknown, depth: number): void {
  if (isObject(part) && !isMissing(part.index)) {
    for (let at = list.length - 1; at >= Math.max(0, list.length - MAX_SEARCHED); at--) {
      const known = objectOf(list[at])
      if (known.index !== part.index || (known.id && part.id && known.id !== part.id)) continue
      add(known, part, true, depth + 1)
      return
    }
  }
  list.push(part)
}

export class ChatAssembly implements Assembly {
  #top: JsonObject | null = null
  readonly #choices = new Map<number, JsonObject>()

  take(payload: JsonObject): void {
    this.#top ??= {}
    const { choices: _, usage: __, ...top } = payload
    const usage = usagesOf(payload).find(isObject)
    add(this.#top, usage === undefined ? top : { ...top, usage }, false)
    for (const [place, choice] of choicesOf(payload).entries()) this.#takeChoice(choice, place)
  }

  #takeChoice({ index, delta, message, text, logprobs, usage: _, ...rest }: JsonObject, place: number): void {
    const at = isWhole(index) ? index : place
    const known = this.#choices.get(at) ?? { index: at, message: {}, finish_reason: null }
    this.#choices.set(at, known)
    add(known, rest, false)
    add(known, { text, logprobs, message: delta }, true)
    // After its deltas, it repeats them.
    if (isObject(message)) known.message = message
  }

  get answer(): JsonObject | null {
    if (this.#top === null) return null
    const { object, ...top } = this.#top
    const choices = [...this.#choices.entries()].sort(([one], [other]) => one - other)
    return {
      ...top,
      ...(object !== undefined && {
        object: object === "chat.completion.chunk" ? "chat.completion" : object,
      }),
      choices: choices.map(([, choice]) => withoutIndexes(choice)),
    }
  }
}

/** Tool calls have an index only in a stream. */
function withoutIndexes({ message, ...choice }: JsonObject): JsonObject {
  const { tool_calls, ...other_fields } = objectOf(message)
  if (!Array.isArray(tool_calls)) return { ...choice, message }
  const calls = tool_calls.map((call: unknown) => {
    const { index: _, ...rest } = objectOf(call)
    return rest
  })
  return { ...choice, message: { ...other_fields, tool_calls: calls } }
}

/** A message from its events (D64). */
export class MessageAssembly implements Assembly {
  #message: JsonObject | null = null
  readonly #blocks = new Map<unknown, JsonObject>()
  /** The JSON text of the input of a tool, by the index of its block. */
  readonly #inputs = new Map<unknown, string>()

  take({ type, message, index, content_block, delta, ...rest }: JsonObject): void {
    if (type === "message_start" && isObject(message)) this.#message = message
    if (this.#message === null) return
    if (type === "content_block_start" && isObject(content_block)) this.#blocks.set(index, content_block)
    else if (type === "content_block_delta") this.#takeDelta(index, objectOf(delta))
    else if (type === "message_delta") add(this.#message, { ...objectOf(delta), ...rest }, false)
    else if (!isMissing(rest.error)) this.#message.error = rest.error
  }

  #takeDelta(index: unknown, { type, partial_json, citation, ...delta }: JsonObject): void {
    const block = this.#blocks.get(index) ?? { type: String(type).replace("_delta", "") }
    this.#blocks.set(index, block)
    if (typeof partial_json === "string")
      this.#inputs.set(index, (this.#inputs.get(index) ?? "") + partial_json)
    else if (!isMissing(citation)) add(block, { citations: [citation] }, true)
    else add(block, delta, true)
  }

  get answer(): JsonObject | null {
    if (this.#message === null) return null
    const blocks = [...this.#blocks].map(([index, block]) => {
      const input = this.#inputs.get(index) ?? ""
      // An answer that its limit cut may end within it.
      return input === "" ? block : { ...block, input: parsePayload(input) ?? input }
    })
    return blocks.length === 0 ? this.#message : { ...this.#message, content: blocks }
  }
}

/** A response from its last event (D66), with the items of earlier events if that has none. */
export class ResponseAssembly implements Assembly {
  #response: JsonObject | null = null
  readonly #items = new Map<unknown, JsonObject>()

  take({ type, response, output_index, item }: JsonObject): void {
    if (isObject(response)) this.#response = response
    if (type === "response.output_item.done" && isObject(item))
      this.#items.set(output_index ?? this.#items.size, item)
  }

  get answer(): JsonObject | null {
    if (this.#response === null) return null
    const { output } = this.#response
    const has_items = (Array.isArray(output) && output.length > 0) || this.#items.size === 0
    return has_items ? this.#response : { ...this.#response, output: [...this.#items.values()] }
  }
}
