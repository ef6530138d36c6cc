import { freeBuffer, LARGE_BYTES } from "../wire/buffers.ts"
import type { Outlet } from "./outlet.ts"
import { hasViewOf } from "./parts.ts"
import type { Framer } from "./sse.ts"

/** The large chunks of a stream. They are freed once sent, because a garbage collection would come later. */
export class LargeChunks {
  #chunks: Uint8Array[] = []

  /** Adds the next chunk, which must not share its buffer. */
  add(chunk: Uint8Array): void {
    if (chunk.byteLength >= LARGE_BYTES) this.#chunks.push(chunk)
  }

  /**
   * Frees the chunks that are no longer read; `last` is the event that waits for the settlement. Views of a freed chunk
   * are empty.
   */
  release(outlet: Outlet, framer: Framer, last: readonly Uint8Array[] | null): void {
    if (this.#chunks.length === 0 || !(outlet.forwarded || outlet.silent)) return
    // An unfinished event, and `last`, may be in the newest chunks.
    const first_read = this.#chunks.findIndex((chunk) => framer.keeps(chunk) || hasViewOf(last ?? [], chunk))
    const done = this.#chunks.splice(0, first_read === -1 ? this.#chunks.length : first_read)
    // Held-back events and a collected JSON answer still use the chunks, so these are left to the garbage collection.
    if (outlet.silent) return
    for (const chunk of done) freeBuffer(chunk)
  }
}
