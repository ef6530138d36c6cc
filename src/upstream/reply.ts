import type { Route, Upstream } from "../config/config.ts"
import type { ProviderIds } from "../wire/call.ts"

/** The body of an answer, read either part by part or as a whole. */
export interface Body {
  readonly arrived: boolean
  /** The next part, without waiting if it has come already; null at the end. Rejects when the body does not arrive whole. */
  read(): Uint8Array | null | Promise<Uint8Array | null>
  /** The whole body, without waiting if it has come already; rejects when it does not arrive whole. */
  bytes(): Uint8Array | Promise<Uint8Array>
  /** Closes the provider's connection, unless the body has ended. Idempotent; never throws. */
  cancel(): void
}

/** A provider's 2xx with valid headers, whose body is not read yet. */
export interface Reply {
  readonly kind: "reply"
  readonly route: Route
  readonly provider_ids: ProviderIds
  readonly status: number
  /** The `content-length`; null if there is none. */
  readonly length: number | null
  readonly body: Body
  /** `performance.now()` when the first attempt began: the total timeout (D31) runs from here. */
  readonly began_ms: number
}

/** The rest of an upstream's total timeout (D31) for a call whose first attempt began at `began_ms`, in milliseconds; 0 if it is over. */
export function leftMs({ timeouts }: Upstream, began_ms: number): number {
  return Math.max(0, timeouts.total_ms - (performance.now() - began_ms))
}

/** The rest of a reply's total timeout (D31), in milliseconds. */
export function remainingMs({ route, began_ms }: Reply): number {
  return leftMs(route.upstream, began_ms)
}

/** Limits for reading the rest of a body after `[DONE]`, which is a few bytes of framing. */
const DRAIN = { bytes: 16_384, ms: 250 }

/** Reads the rest of a body after its `[DONE]`, so that the connection can be used again, or cuts it. Never rejects. */
export async function drainBody(body: Body): Promise<void> {
  if (!body.arrived) await readWithin(body, DRAIN, () => {})
}

/** Limits for reading the body of a refusal. */
const REFUSAL = { bytes: 65_536, ms: 2_000 }

/** A refusal's text, as JSON (D17), or `""` if it did not arrive whole and in time. Never rejects. */
export async function refusalText(body: Body, content_type: string | null): Promise<string> {
  const chunks: Uint8Array[] = []
  const whole = await readWithin(body, REFUSAL, (chunk) => chunks.push(chunk))
  const text = whole ? Buffer.concat(chunks).toString() : ""
  const is_plain = content_type !== null && /^text\/plain\b/i.test(content_type) && !/^\s*[[{<]/.test(text)
  return is_plain ? JSON.stringify({ message: text.trim() }) : text
}

/** Reads a body to its end, within bounds. Returns whether it reached the end; otherwise the body is cancelled. */
async function readWithin(
  body: Body,
  bounds: typeof DRAIN,
  take: (chunk: Uint8Array) => void,
): Promise<boolean> {
  let given_up = false
  const giveUp = () => {
    given_up = true
    body.cancel()
  }
  const timer = setTimeout(giveUp, bounds.ms)
  try {
    for (let bytes = 0; bytes <= bounds.bytes; ) {
      const part = await body.read()
      if (part === null) return !given_up
      bytes += part.byteLength
      take(part)
    }
    giveUp()
  } catch {
    given_up = true
  } finally {
    clearTimeout(timer)
  }
  return false
}
