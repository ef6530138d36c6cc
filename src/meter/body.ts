import type { Signal } from "../cutoff.ts"
import type { Ending } from "../wire/call.ts"

/** How one JSON answer is collected. */
export interface CollectOptions {
  readonly source: ReadableStream<Uint8Array> | null
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
  if (options.source === null) return { bytes: new Uint8Array(), ending: "completed", cut: false }
  const chunks: Uint8Array[] = []
  let size = 0
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
  try {
    const reader = options.source.getReader()
    while (ending === null) {
      const { done, value } = await reader.read()
      if (done) {
        ending ??= "completed"
        break
      }
      chunks.push(value)
      size += value.byteLength
      if (size > options.limit_bytes) end("upstream_lost")
    }
  } catch {
    end("upstream_lost")
  } finally {
    clearTimeout(deadline)
    options.unwanted.removeEventListener("abort", leave)
  }
  const [only] = chunks
  const bytes = chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks)
  return { bytes, ending: ending ?? "upstream_lost", cut: ending !== "completed" }
}
