import { LARGE_BYTES } from "../wire/buffers.ts"

/** From this many parts on, a part below this size is copied, because a view costs about 200 bytes. */
const MANY_PARTS = 16
const SMALL_BYTES = 512
const BLOCK_BYTES = 1024

/** Bytes that wait for the rest of their event, or for evidence. Many small ones are copied together. */
export class Parts {
  bytes = 0
  #parts: Uint8Array[] = []
  /** Collects small parts; doubles when full. */
  #block: Uint8Array | null = null
  #block_used = 0

  add(part: Uint8Array): void {
    this.bytes += part.byteLength
    if (this.#parts.length >= MANY_PARTS && part.byteLength < SMALL_BYTES) this.#gather(part)
    else this.parts.push(part)
  }

  get parts(): Uint8Array[] {
    if (this.#block !== null) this.#parts.push(this.#block.subarray(0, this.#block_used))
    this.#block = null
    return this.#parts
  }

  keeps(chunk: Uint8Array): boolean {
    return hasViewOf(this.#parts, chunk)
  }

  take(): Uint8Array[] {
    const parts = this.parts
    this.#parts = []
    this.bytes = 0
    return parts
  }

  #gather(part: Uint8Array): void {
    const used = this.#block === null ? 0 : this.#block_used
    if (this.#block === null || used + part.byteLength > this.#block.byteLength) {
      const block = new Uint8Array(Math.max(BLOCK_BYTES, 2 * used))
      if (this.#block !== null) block.set(this.#block.subarray(0, used))
      this.#block = block
    }
    this.#block.set(part, used)
    this.#block_used = used + part.byteLength
  }
}

export function hasViewOf(parts: readonly Uint8Array[], chunk: Uint8Array): boolean {
  return parts.some(({ buffer }) => buffer === chunk.buffer)
}

/** A copy of a small part of a large buffer, so that the buffer can be freed; otherwise the part. */
export function copyIfSmall(part: Uint8Array): Uint8Array {
  return part.byteLength < SMALL_BYTES && part.buffer.byteLength >= LARGE_BYTES ? new Uint8Array(part) : part
}
