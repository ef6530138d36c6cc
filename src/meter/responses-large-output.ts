import type { LargeOutput, Place } from "./large-answer.ts"
import { countedResponseBytes, isOutputName } from "./responses-output.ts"

/** `output`, the place in the list, the field: how deep a field of an item lies. */
const FIELD_DEPTH = 3

/** Counts the output of a response object: `output[…]` and below. */
export class ResponsesLargeOutput implements LargeOutput {
  bytes = 0

  readsKeys({ depth, keys }: Place): boolean {
    return depth >= FIELD_DEPTH && keys[0] === "output"
  }

  take({ depth, keys, lists, name }: Place, bytes: number): void {
    if (keys[0] !== "output" || lists[1] !== true || depth < FIELD_DEPTH) return
    for (let at = FIELD_DEPTH - 1; at < depth; at++) if (!isOutputName(keys[at] ?? "")) return
    this.bytes += countedResponseBytes(name, bytes)
  }
}
