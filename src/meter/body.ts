import type { Signal } from "../cutoff.ts"
import type { Ending } from "../wire/call.ts"

/** A provider's body, of which either way to read it is taken once. */
export interface BodySource {
  /** The next part; null at the end. Rejects when the body does not arrive whole. */
  read(): Promise<Uint8Array | null>
  bytes(): Promise<Uint8Array>
  /** Closes the provider's connection. Idempotent. */
  cancel(): void
}

/** How one JSON answer is collected. */
export interface CollectOptions {
  readonly source: BodySource
  /** Of the body in bytes, as announced; null when it is not known. */
  readonly length: number | null
  readonly limit_bytes: number
  /** What is left of the total timeout, in milliseconds (D31). */
  readonly total_ms: number
  /** Aborted when nobody wants the answer any more. */
  readonly unwanted: Signal
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
  const { source, length, limit_bytes } = options
  let ending: Collected["ending"] | null = null
  const end = (word: Collected["ending"]) => {
    if (ending !== null) return
    ending = word
    source.cancel()
  }
  const leave = () => end("client_left")
  const deadline = setTimeout(() => end("deadline"), Math.max(0, options.total_ms))
  options.unwanted.addEventListener("abort", leave)
  if (options.unwanted.aborted) leave()
  let bytes: Uint8Array = new Uint8Array()
  try {
    const is_short = length !== null && length <= limit_bytes
    bytes = is_short ? await source.bytes() : await readTo(source, limit_bytes, () => ending !== null)
    ending ??= "completed"
  } catch {
    end("upstream_lost")
  } finally {
    clearTimeout(deadline)
    options.unwanted.removeEventListener("abort", leave)
  }
  return { bytes, ending: ending ?? "upstream_lost", cut: ending !== "completed" }
}

/** Reads a body whose length is not known; rejects beyond the limit. */
async function readTo(source: BodySource, limit_bytes: number, ended: () => boolean): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  let size = 0
  while (!ended()) {
    const part = await source.read()
    if (part === null) break
    parts.push(part)
    size += part.byteLength
    if (size > limit_bytes) throw new Error("the body is over its limit")
  }
  const [only] = parts
  return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts)
}
