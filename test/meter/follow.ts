import { ChatReading } from "../../src/meter/chat-reading.ts"
import type { EventKind, StreamEvidence } from "../../src/meter/reading.ts"
import { Framer } from "../../src/meter/sse.ts"
import type { Ending } from "../../src/wire/call.ts"

/**
 * Reads a provider's stream as its relay does, to `[DONE]`, to an error event, or to the end of the chunks. `ending` is
 * what ends it there; without one it is a clean end of the body (D8). `n` choices were requested.
 */
export function follow(chunks: readonly Uint8Array[], ending?: Ending, n = 1): StreamEvidence {
  const reading = new ChatReading(n)
  const framer = new Framer(1_000_000, reading.recurring)
  for (const chunk of chunks) {
    for (const event of framer.feed(chunk)) {
      const stopped = endingOf(reading.take(event))
      if (stopped !== null) return reading.evidence(stopped)
    }
  }
  const last = framer.end()
  const stopped = last === null ? null : endingOf(reading.take(last))
  return reading.evidence(ending ?? stopped ?? (reading.answered ? "completed" : "upstream_lost"))
}

function endingOf({ kind }: EventKind): Ending | null {
  if (kind === "done") return "completed"
  return kind === "error" ? "upstream_lost" : null
}
