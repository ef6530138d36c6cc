/** From this size on, a buffer is large: to copy it or to get new memory for it costs more than a call of the kernel. */
export const LARGE_BYTES = 65_536

const encoder = new TextEncoder()

/** A text as UTF-8, which the encoder takes four times as long for if the text is large and not ASCII. */
export function encoded(text: string): Uint8Array {
  return text.length < LARGE_BYTES ? encoder.encode(text) : Buffer.from(text)
}

/** Frees the memory of bytes that have their buffer for themselves. It would wait for a garbage collection. */
export function freeBuffer({ buffer }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
}

/** The bytes of all parts. By index, because it is asked for each event of a stream and an iterator takes longer. */
export function bytesIn(parts: readonly Uint8Array[]): number {
  let bytes = 0
  for (let at = 0; at < parts.length; at++) bytes += parts[at]?.byteLength ?? 0
  return bytes
}

/** The parts of a body as one. A large part must have its buffer for itself, and is freed as soon as it is copied. */
export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const [only] = parts
  if (parts.length === 1 && only !== undefined) return only
  const size = bytesIn(parts)
  if (size < LARGE_BYTES) return Buffer.concat(parts)
  const whole = Buffer.allocUnsafeSlow(size)
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.byteLength
    if (part.byteLength >= LARGE_BYTES) freeBuffer(part)
  }
  return whole
}
