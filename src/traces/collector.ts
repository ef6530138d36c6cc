import { promisify } from "node:util"
import { gzip } from "node:zlib"
import type { OtlpTarget } from "../config/otlp.ts"

export interface CollectorTrouble {
  /** Called once when exports start to fail, with a reason without secrets. */
  failing(reason: string): void
  /** Called when exports work again. */
  recovered(): void
}

/** The time for the last export when the process ends. */
export const FLUSH_MS = 2_000
/** Statuses after which OTLP allows a retry. */
const TRY_AGAIN: ReadonlySet<number> = new Set([429, 502, 503, 504])
/** The most that is read of a collector's response. */
const MAX_ANSWER_BYTES = 65_536

const compress = promisify(gzip)

type OtlpBody = string | Uint8Array<ArrayBuffer>

type Export =
  | { readonly took: true; readonly answer: string }
  /** `retry_after_ms` is null if a retry would fail too. */
  | { readonly took: false; readonly retry_after_ms: number | null }

/** A collector of OTLP over HTTP, in JSON (D54, D108). */
export function collectorAt({ endpoint, headers, gzip, timeout_ms }: OtlpTarget, trouble: CollectorTrouble) {
  let is_failing = false

  /** Reports the change, not each failure. */
  function note(reason: string | null): void {
    if (reason !== null && !is_failing) trouble.failing(reason)
    if (reason === null && is_failing) trouble.recovered()
    is_failing = reason !== null
  }

  return {
    encode: async (request: string): Promise<OtlpBody> => (gzip ? await compress(request) : request),
    /** Makes one attempt, until `over`. Never rejects. */
    async post(body: OtlpBody, over: AbortSignal): Promise<Export> {
      try {
        const response = await fetch(endpoint, {
          method: "POST",
          headers: {
            ...headers,
            "content-type": "application/json",
            "user-agent": "tollgate",
            ...(gzip ? { "content-encoding": "gzip" } : {}),
          },
          body,
          redirect: "manual",
          signal: AbortSignal.any([over, AbortSignal.timeout(timeout_ms)]),
        })
        // The spans or metrics were accepted, even if the response then breaks off.
        const answer = await readAnswer(response).catch(() => "")
        note(response.ok ? null : `it answers ${response.status}`)
        if (response.ok) return { took: true, answer }
        if (!TRY_AGAIN.has(response.status)) return { took: false, retry_after_ms: null }
        return { took: false, retry_after_ms: 1_000 * Number(response.headers.get("retry-after")) || 0 }
      } catch (error) {
        note(wordOf(error))
        return { took: false, retry_after_ms: 0 }
      }
    },
  }
}

/** The text of a short response; empty if it is longer. */
async function readAnswer({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength
    if (bytes > MAX_ANSWER_BYTES) return ""
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** The error code only, because an error message can contain a header value. */
function wordOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown"
  return "code" in error && typeof error.code === "string" ? error.code : error.name
}
