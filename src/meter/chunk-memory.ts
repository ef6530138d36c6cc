/** From this size on, a chunk is large: to copy it or to get new memory for it costs more than a call of the kernel. */
export const LARGE_BYTES = 65_536

/**
 * Frees the memory of a large chunk, which nothing reads any more: afterwards it has no bytes. Otherwise it would wait for a
 * garbage collection, and each chunk would come in fresh memory that the kernel must clear. An event of 6 MiB takes 0.78 to
 * 0.87 of the time and 0.81 of the gateway's CPU.
 */
export function freeMemory({ byteLength, buffer }: Uint8Array): void {
  if (byteLength >= LARGE_BYTES && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
