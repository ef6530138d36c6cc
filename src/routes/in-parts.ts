import { freeBuffer } from "../wire/buffers.ts"

const PART_BYTES = 262_144

/**
 * A stream of a large answer, because the server copies all that a client has not taken of a body that is written
 * whole. Frees the answer, and calls `onEnd`, once it is taken or the client has left.
 */
export function inParts(
  bytes: Uint8Array,
  signal: AbortSignal,
  onEnd: () => void,
): ReadableStream<Uint8Array> {
  return piecesInParts([bytes], signal, () => {
    freeBuffer(bytes)
    onEnd()
  })
}

/**
 * The same for an answer in pieces, which the caller makes or frees as they are taken. A reader in this process keeps
 * them until it has read all.
 */
export function piecesInParts(
  pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  onEnd: () => void,
): ReadableStream<Uint8Array> {
  let has_ended = false
  const end = () => {
    if (has_ended) return
    has_ended = true
    signal.removeEventListener("abort", end)
    onEnd()
  }
  signal.addEventListener("abort", end)
  if (signal.aborted) end()
  return new ReadableStream<Uint8Array>({
    type: "direct",
    async pull(controller) {
      for await (const bytes of pieces) {
        if (has_ended) return
        for (let at = 0; at < bytes.byteLength; at += PART_BYTES)
          await controller.write(bytes.subarray(at, at + PART_BYTES))
      }
      controller.close()
      end()
    },
    cancel: end,
  })
}
