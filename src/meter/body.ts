import type { Signal } from "../call/cutoff.ts"
import { joined } from "../wire/buffers.ts"
import type { Ending } from "../wire/call.ts"
import { nextTurn, SLICE_BYTES } from "../wire/shape.ts"
import type { AnswerBody, JsonForm } from "./json-reading.ts"
import type { LargeAnswer } from "./large-answer.ts"
import type { AnswerRoom, RelaySource } from "./relay-options.ts"

/** A provider's body, to be read once, either part by part or as a whole. */
interface BodySource extends RelaySource {
  bytes(): Uint8Array | Promise<Uint8Array>
}

interface CollectOptions {
  readonly source: BodySource
  /** The announced length in bytes; null if unknown. */
  readonly length: number | null
  readonly limit_bytes: number
  /** Bytes of a body over the limit that are read for its usage (D5). */
  readonly read_bytes: number
  readonly form: Pick<JsonForm, "openLarge">
  /** The total timeout (D31), and since when it runs by the clock of `performance.now`. */
  readonly total_ms: number
  readonly began_ms: number
  /** Aborted when nobody waits for the answer. */
  readonly unwanted: Signal
  /** Null for a small body. */
  readonly memory: Pick<AnswerRoom, "hold" | "stop"> | null
}

/** The received part of a provider's JSON body. */
interface Collected extends AnswerBody {
  /** `client_left` if `unwanted` was aborted; the caller knows why. */
  readonly ending: Extract<Ending, "completed" | "upstream_lost" | "deadline" | "client_left">
}

/**
 * Reads a body until its end, a limit, the deadline, or until nobody waits. Returns it without a promise if all has
 * arrived. Never rejects.
 */
export function collect(options: CollectOptions): Collected | Promise<Collected> {
  const { source, length, limit_bytes, unwanted, memory } = options
  const is_short = length !== null && length <= limit_bytes
  const room = is_short ? (memory?.hold(length) ?? null) : null
  const whole = is_short && room === null ? source.bytes() : null
  if (!(whole instanceof Uint8Array) || unwanted.aborted) return collectComing(options, whole, room)
  memory?.stop()
  return { bytes: whole, ending: "completed", cut: false, large: null }
}

/** `whole`: a short body whose memory was free. `room` resolves with true if a short body that waits gets its memory. */
async function collectComing(
  options: CollectOptions,
  whole: Uint8Array | Promise<Uint8Array> | null,
  room: Promise<boolean> | null,
): Promise<Collected> {
  const { source, total_ms, began_ms, unwanted, memory } = options
  let ending: Collected["ending"] | null = null
  const end = (word: Collected["ending"]) => {
    if (ending !== null) return
    ending = word
    memory?.stop()
    source.cancel()
  }
  const leave = () => end("client_left")
  // The runtime warns about a negative time.
  const left_ms = Math.max(0, began_ms + total_ms - performance.now())
  const deadline = setTimeout(() => end("deadline"), Math.ceil(left_ms))
  unwanted.addEventListener("abort", leave)
  if (unwanted.aborted) leave()
  let bytes: Uint8Array = NOTHING
  let large: LargeAnswer | null = null
  let is_truncated = false
  try {
    const has_room = room === null || (await room)
    if (room !== null && has_room) bytes = await source.bytes()
    else if (whole !== null) bytes = await whole
    else {
      // Without memory, the body is read like one over the limit.
      const read = await readTo(has_room ? options : { ...options, limit_bytes: 0 }, () => ending !== null)
      if (read === "truncated") is_truncated = true
      else if (read instanceof Uint8Array) bytes = read
      else large = read
    }
    // A body that is cut at the second limit was read as far as it was wanted.
    ending ??= "completed"
    if (large !== null && !large.whole) source.cancel()
  } catch {
    end("upstream_lost")
  } finally {
    clearTimeout(deadline)
    unwanted.removeEventListener("abort", leave)
    memory?.stop()
  }
  return { bytes, ending: ending ?? "upstream_lost", cut: is_truncated || ending !== "completed", large }
}

const NOTHING = new Uint8Array()

/**
 * Reads a body of unknown length or over the limit. Beyond the limit, or without memory for more, it is read up to the
 * second limit, but not kept.
 */
async function readTo(
  { source, limit_bytes, read_bytes, form, memory }: CollectOptions,
  ended: () => boolean,
): Promise<Uint8Array | LargeAnswer | "truncated"> {
  let parts: Uint8Array[] = []
  let large: LargeAnswer | null = null
  let size = 0
  let is_over = false
  while (!ended() && (large === null || size <= read_bytes)) {
    const part = await source.read()
    is_over = part === null
    if (part === null) break
    size += part.byteLength
    if (large !== null) large.take(part)
    else {
      parts.push(part)
      if (size <= limit_bytes) {
        const room = memory?.hold(size) ?? null
        if (room === null || (await room)) continue
      }
      large = await readInto(form.openLarge(), parts)
      parts = []
      memory?.hold(0)
    }
  }
  large?.stop()
  // As in a smaller object, a clean end within it is malformed (D5).
  if (is_over && large?.whole === false) return "truncated"
  return large ?? joined(parts)
}

/** Reads chunks in several turns of the event loop. */
export async function readInto(large: LargeAnswer, chunks: readonly Uint8Array[]): Promise<LargeAnswer> {
  let bytes = 0
  for (const chunk of chunks) {
    large.take(chunk)
    bytes += chunk.byteLength
    if (bytes < SLICE_BYTES) continue
    bytes = 0
    await nextTurn()
  }
  return large
}
