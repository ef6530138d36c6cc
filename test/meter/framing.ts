import { Framer, type SseEvent } from "../../src/meter/sse.ts"

/** What a framer made of chunks: its events but for the tails, which depend on the cut, and all bytes that came out. */
export interface Framed {
  readonly data: readonly (string | null)[]
  readonly tails: number
  /** Bytes of every event, the completed last one apart. */
  readonly bytes: Uint8Array
  readonly pending_bytes: number
  readonly last: SseEvent | null
}

export function frame(chunks: readonly Uint8Array[], limit_bytes = 1_000_000): Framed {
  const framer = new Framer(limit_bytes)
  const events = chunks.flatMap((chunk) => [...framer.feed(chunk)])
  const { pending_bytes } = framer
  return {
    data: events.filter((event) => !event.tail).map((event) => event.data),
    tails: events.filter((event) => event.tail).length,
    bytes: Buffer.concat(events.flatMap((event) => event.parts)),
    pending_bytes,
    last: framer.end(),
  }
}
