/** Ways to cut the same bytes into chunks: none of them may change what a stream means. */

const encoder = new TextEncoder()

export function bytesOf(text: string): Uint8Array {
  return encoder.encode(text)
}

/** Whole, at every two-way cut, byte by byte, and at seeded random cuts. */
export function* everyCut(bytes: Uint8Array): Generator<Uint8Array[]> {
  yield [bytes]
  for (let at = 1; at < bytes.byteLength; at++) yield [bytes.subarray(0, at), bytes.subarray(at)]
  yield cutAt(bytes, [...bytes.keys()])
  for (let seed = 1; seed <= 20; seed++) yield randomCut(bytes, seed)
}

/** `bytes` cut at the given places, in rising order. A place named twice makes an empty chunk. */
export function cutAt(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  return [...places, bytes.byteLength].map((end, n) => bytes.subarray(places[n - 1] ?? 0, end))
}

/** Chunks of 0 to 15 bytes, or of the sizes that `sizeOf` draws; the same for the same seed. */
export function randomCut(
  bytes: Uint8Array,
  seed: number,
  sizeOf = (random: () => number) => random() % 16,
): Uint8Array[] {
  const random = generator(seed)
  const places: number[] = []
  for (let at = 0; at < bytes.byteLength; at += sizeOf(random)) places.push(at)
  return cutAt(bytes, places)
}

/** xorshift32. */
export function generator(seed: number): () => number {
  let state = seed
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
}
