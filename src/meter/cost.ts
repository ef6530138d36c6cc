import { printUsd } from "../money.ts"
import { encoded } from "../wire/buffers.ts"
import { EACH, edited, memberText, withMember } from "./json-text.ts"
import type { UsageSpan } from "./large-answer.ts"
import type { SseEvent } from "./sse.ts"

/** The usage that clients see: only if they asked for it (D24), with the charge (D49), without the provider's own cost. */

const encoder = new TextEncoder()
/** Keeps a BOM, because all other bytes stay as the provider sent them. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
/** For events: invalid UTF-8 is read as U+FFFD. */
const lenient = new TextDecoder("utf-8", { ignoreBOM: true })

const USAGES: readonly (readonly string[])[] = [
  ["usage"],
  ["choices", EACH, "usage"],
  ["x_groq", "usage"],
  ["message", "usage"],
  ["response", "usage"],
]

/** Members of a usage that have the provider's own charge. */
const COSTS: ReadonlySet<string> = new Set([
  "cost",
  "cost_details",
  "cost_in_usd_ticks",
  "estimated_cost",
  "is_byok",
])

/** Every text with such a member contains one of these. */
const COST_MARKS = ['cost"', '"cost_in_usd_ticks"']
/** The same for bytes. Searched without making a Buffer, which would take longer than the search. */
const COST_WORD = "cost"

/**
 * A JSON answer as its client sees it: with the charge in its usage unless `charge_nano` is null, and without the
 * provider's own cost unless the operator passes it on. `usages`: the positions of usage objects in an answer that is
 * too large to parse.
 */
export function shownBody(
  body: Uint8Array,
  pass_cost: boolean,
  charge_nano: bigint | null,
  usages?: readonly UsageSpan[],
): Uint8Array {
  const hides = !pass_cost && Buffer.prototype.indexOf.call(body, COST_WORD, 0, "latin1") !== -1
  if (!hides && charge_nano === null) return body
  if (usages !== undefined) return shownLarge(body, hides, charge_nano, usages)
  const text = decoder.decode(body)
  const shown = hides ? withoutCosts(text) : text
  if (charge_nano === null && shown === text) return body
  return encoder.encode(charge_nano === null ? shown : withCost(shown, charge_nano))
}

function shownLarge(
  body: Uint8Array,
  hides: boolean,
  charge_nano: bigint | null,
  usages: readonly UsageSpan[],
): Uint8Array {
  const top_usage = usages.findLast(({ is_top }) => is_top)
  const parts: Uint8Array[] = []
  let done = 0
  for (const span of usages) {
    const text = decoder.decode(body.subarray(span.start, span.end))
    const shown = shownUsage(text, hides, span === top_usage ? charge_nano : null)
    parts.push(body.subarray(done, span.start), encoder.encode(shown))
    done = span.end
  }
  return Buffer.concat([...parts, body.subarray(done)])
}

/**
 * The changed usage of a large answer. It was not parsed (D41), so its usage may be invalid JSON; then nothing is
 * changed.
 */
function shownUsage(usage: string, hides: boolean, charge_nano: bigint | null): string {
  try {
    const shown = hides ? withoutCost(usage) : usage
    return charge_nano === null ? shown : withMember(shown, "cost", printUsd(charge_nano))
  } catch {
    return usage
  }
}

export interface UsageWishes {
  /** True if the client asked for usage; otherwise it is stripped (D24). */
  readonly wants_usage: boolean
  /** True if the client asked for the cost. The final usage then waits for the charge and includes it (D49). */
  readonly wants_cost: boolean
  /** True if the operator passes the provider's own cost on. */
  readonly pass_cost: boolean
}

/** The usage of a stream, as its client sees it. */
export class ShownUsage {
  readonly #wishes: UsageWishes
  /** A chunk with the final usage. It waits until the charge is known. */
  #final: string | null = null

  constructor(wishes: UsageWishes) {
    this.#wishes = wishes
  }

  /** The bytes that are sent of an event with a usage; null for none. `usage_only`: the event has nothing else. */
  of(event: SseEvent, usage_only: boolean, final_usage: boolean): readonly Uint8Array[] | null {
    const { data } = event
    if (data === null) return event.parts
    const { wants_usage, wants_cost, pass_cost } = this.#wishes
    const waits = wants_cost && final_usage
    if (waits || wants_usage) {
      const shown = pass_cost ? data : withoutCosts(data)
      if (waits) this.#final = finalChunk(shown)
      else return shown === data ? event.parts : changed(event, shown)
    }
    if (usage_only) return null
    return changed(event, withoutUsage(waits ? withMember(data, "usage", "null") : data))
  }

  /** The last event of a stream, without the provider's own cost unless that is passed on. */
  last(event: SseEvent): readonly Uint8Array[] {
    return this.#wishes.wants_usage ? (this.of(event, false, false) ?? event.parts) : event.parts
  }

  /** The chunk of the final usage with the charge, or without it if `charge_nano` is null. Null if there was none. */
  final(charge_nano: bigint | null): Uint8Array | null {
    if (this.#final === null) return null
    return eventOf(charge_nano === null ? this.#final : withCost(this.#final, charge_nano))
  }
}

function finalChunk(data: string): string {
  const usage = usageText(data)
  const rest = edited(withMember(data, "choices", "[]"), ["x_groq", "usage"], unlessObject)
  return usage === null ? rest : withMember(rest, "usage", usage)
}

/** Adds the cost in USD, as an exact JSON number, to the usage at the top level, where SDKs read it. */
function withCost(payload: string, charge_nano: bigint): string {
  const usage = usageText(payload)
  if (usage === null) throw new Error("there is no usage for the cost")
  return withMember(payload, "usage", withMember(usage, "cost", printUsd(charge_nano)))
}

/** The text of the usage that counts: the first in the order of its places (D87). */
function usageText(payload: string): string | null {
  const top = memberText(payload, "usage")
  if (top !== null && isObjectText(top)) return top
  for (const path of USAGES) {
    const found: string[] = []
    edited(payload, path, (value) => {
      if (isObjectText(value)) found.push(value)
      return value
    })
    const last = found.at(-1)
    if (last !== undefined) return last
  }
  return null
}

function withoutUsage(payload: string): string {
  return eachUsage(payload, ['"usage"'], unlessObject)
}

function withoutCosts(payload: string): string {
  return eachUsage(payload, COST_MARKS, withoutCost)
}

/**
 * Edits the usages in a payload while it contains one of these marks, because each place is another search of the whole
 * text.
 */
function eachUsage(
  payload: string,
  marks: readonly string[],
  edit: (usage: string) => string | null,
): string {
  let text = payload
  for (const path of USAGES) {
    if (!marks.some((mark) => text.includes(mark))) return text
    if (text.includes(`"${path[0]}"`)) text = edited(text, path, edit)
  }
  return text
}

function withoutCost(usage: string): string {
  return edited(usage, [COSTS], () => null)
}

function unlessObject(value: string): string | null {
  return isObjectText(value) ? null : value
}

function isObjectText(value: string): boolean {
  return value.startsWith("{")
}

/** The bytes of an event with another payload; its other lines stay. */
function changed({ parts, data }: SseEvent, payload: string): readonly Uint8Array[] {
  const text = lenient.decode(Buffer.concat(parts))
  const at = data === null ? -1 : text.lastIndexOf(data)
  if (at !== -1 && data !== null) return [encoded(text.slice(0, at) + payload + text.slice(at + data.length))]
  const others = text.split(/\r\n|\r|\n/).filter((line) => line !== "" && !/^data(?::|$)/.test(line))
  return [...others.map((line) => encoder.encode(`${line}\n`)), eventOf(payload)]
}

function eventOf(payload: string): Uint8Array {
  return encoder.encode(`data: ${payload.replaceAll("\n", "\ndata: ")}\n\n`)
}
