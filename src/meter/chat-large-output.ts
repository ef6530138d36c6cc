import type { LargeOutput, Place } from "./large-answer.ts"
import { countedBytes, REASONING } from "./output.ts"

/** `choices`, the place in the list, `message`, the field: how deep a field of a message lies. */
const FIELD_DEPTH = 4

/** Counts the output of a chat completion: `choices[…].message` and below, or `choices[…].text`. */
export class ChatLargeOutput implements LargeOutput {
  #bytes = 0
  /** Bytes of reasoning by its name: of several names the first counts. */
  readonly #reasoning = new Map<string, number>()

  get bytes(): number {
    const reasoning = REASONING.map((name) => this.#reasoning.get(name) ?? 0)
    return this.#bytes + (reasoning.find((bytes) => bytes > 0) ?? 0)
  }

  /** Those of a choice, and within its message. */
  readsKeys({ depth, keys }: Place): boolean {
    if (depth < FIELD_DEPTH - 1 || keys[0] !== "choices") return false
    return depth === FIELD_DEPTH - 1 || keys[2] === "message" || keys[2] === "delta"
  }

  take({ depth, keys, lists, name }: Place, bytes: number): void {
    if (keys[0] !== "choices" || lists[1] !== true) return
    if (depth === FIELD_DEPTH - 1 && keys[2] === "text") this.#bytes += bytes
    if (depth < FIELD_DEPTH || (keys[2] !== "message" && keys[2] !== "delta")) return
    const counted = countedBytes(name, bytes)
    const field = keys[FIELD_DEPTH - 1] ?? ""
    if (REASONING.includes(field)) this.#reasoning.set(field, (this.#reasoning.get(field) ?? 0) + counted)
    else this.#bytes += counted
  }
}
