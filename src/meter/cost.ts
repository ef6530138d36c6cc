import { printUsd } from "../money.ts"
import { memberText, withMember } from "./json-text.ts"

/** What a call was charged, told in the `usage` of its answer to a client that asked for it (D49). */

const encoder = new TextEncoder()
/** A BOM stays where it is: all but the cost is the provider's own. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** A JSON answer that carries a usage object, with its cost in it. */
export function bodyWithCost(body: Uint8Array, charge_nano: bigint): Uint8Array {
  return encoder.encode(withCost(decoder.decode(body), charge_nano))
}

/**
 * The final usage of a stream. It waits for the end of the stream, because only then the charge is known, and leaves in
 * a chunk of its own, whatever came with it.
 */
export class FinalUsage {
  #chunk: string | null = null

  /**
   * Takes the usage out of a chunk that carries one; of several the last is kept. Returns what else was in the chunk,
   * to be forwarded; null if nothing.
   */
  take(data: string, usage_only: boolean): Uint8Array | null {
    this.#chunk = usage_only ? data : withMember(data, "choices", "[]")
    return usage_only ? null : eventOf(withMember(data, "usage", "null"))
  }

  /** The chunk with the cost in it, or without one when `charge_nano` is null; nothing when there was no final usage. */
  event(charge_nano: bigint | null): Uint8Array | null {
    if (this.#chunk === null) return null
    return eventOf(charge_nano === null ? this.#chunk : withCost(this.#chunk, charge_nano))
  }
}

/** USD as a JSON number, exact in its text. */
function withCost(payload: string, charge_nano: bigint): string {
  const usage = memberText(payload, "usage")
  if (usage === null) throw new Error("there is no usage to tell the cost in")
  return withMember(payload, "usage", withMember(usage, "cost", printUsd(charge_nano)))
}

/** A payload of several lines is several `data:` lines. */
function eventOf(payload: string): Uint8Array {
  return encoder.encode(`data: ${payload.replaceAll("\n", "\ndata: ")}\n\n`)
}
