import type { Signal } from "../cutoff.ts"
import type { Ending } from "../wire/call.ts"

/** A provider's body, of which either way to read it is taken once. */
export interface BodySource {
  /** Null when it is not known. */
  readonly length: number | null
  readonly body: ReadableStream<Uint8Array> | null
  bytes(): Promise<Uint8Array>
}

/** How one JSON answer is collected. */
export interface CollectOptions {
  readonly source: BodySource
  readonly limit_bytes: number
  /** What is left of the total timeout, in milliseconds (D31). */
  readonly total_ms: number
  /** Aborted when nobody wants the answer any more. */
  readonly unwanted: Signal
  /** Closes the provider's connection. Idempotent. */
  cancelSource(): void
}

/** A provider's JSON body as far as it came. */
export interface Collected {
  readonly bytes: Uint8Array
  /** `client_left` stands for every reason not to want it; the caller knows which. */
  readonly ending: Extract<Ending, "completed" | "upstream_lost" | "deadline" | "client_left">
  /** The body did not arrive whole, or is over the limit (D5). */
  readonly cut: boolean
}

/** Reads a provider's JSON body to its end, its limit, its deadline, or until it is unwanted. Never rejects. */
export async function collect(options: CollectOptions): Promise<Collected> {
  const { source, limit_bytes } = options
  let ending: Collected["ending"] | null = null
  const end = (word: Collected["ending"]) => {
    if (ending !== null) return
    ending = word
    options.cancelSource()
  }
  const leave = () => end("client_left")
  const deadline = setTimeout(() => end("deadline"), Math.max(0, options.total_ms))
  options.unwanted.addEventListener("abort", leave)
  if (options.unwanted.aborted) leave()
  let bytes: Uint8Array = NOTHING
  try {
    const is_short = source.length !== null && source.length <= limit_bytes
    bytes = is_short ? await source.bytes() : await readTo(source.body, limit_bytes, () => ending !== null)
    ending ??= "completed"
  } catch {
    end("upstream_lost")
  } finally {
    clearTimeout(deadline)
    options.unwanted.removeEventListener("abort", leave)
  }
  return { bytes, ending: ending ?? "upstream_lost", cut: ending !== "completed" }
}

const NOTHING = new Uint8Array()

/** Reads a body whose length is not known; rejects beyond the limit. */
async function readTo(
  body: ReadableStream<Uint8Array> | null,
  limit_bytes: number,
  ended: () => boolean,
): Promise<Uint8Array> {
  if (body === null) return NOTHING
  const chunks: Uint8Array[] = []
  let size = 0
  const reader = body.getReader()
  while (!ended()) {
    const { done, value } = await reader.read()
    if (done) break
    chunks.push(value)
    size += value.byteLength
    if (size > limit_bytes) throw new Error("the body is over its limit")
  }
  const [only] = chunks
  return chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks)
}
