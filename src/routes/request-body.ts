import type { MemoryPart } from "../admission/memory.ts"
import type { Config } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { startTimeout } from "../timeouts.ts"

/** A longer body takes its memory as it arrives, a shorter one at once: a stream costs more than reading the bytes. */
const STREAMED_BYTES = 1_048_576

/**
 * The body of a request that must be plain UTF-8 JSON. 415 for any other media type, 413 over `limits.body`, 503 if there is no
 * memory for it (D77), 408 if it does not arrive within `limits.body_timeout` (D15, D18, D31). `memory`: null for an operator.
 */
export function readBody(
  request: Request,
  limits: Config["limits"],
  memory: MemoryPart | null,
): Promise<Uint8Array> {
  checkMediaType(request.headers)
  const announced = request.headers.get("content-length")
  const length = announced === null ? Number.POSITIVE_INFINITY : Number(announced)
  if (announced !== null && length > limits.body_bytes) throw new GatewayError("request_too_large")
  if (length > STREAMED_BYTES)
    return arrived(readCounted(request.body, limits.body_bytes, memory), limits.body_timeout_ms)
  memory?.take(length)
  return arrived(request.bytes(), limits.body_timeout_ms)
}

/** Waits for the body. An error after the timeout is ignored. */
function arrived(body: Promise<Uint8Array>, within_ms: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const timeout = startTimeout(within_ms, () => reject(new GatewayError("request_timeout")))
    body.then(
      (bytes) => {
        timeout.clear()
        resolve(bytes)
      },
      (error) => {
        timeout.clear()
        reject(error instanceof GatewayError ? error : cutShort(error))
      },
    )
  })
}

function cutShort(cause: unknown): GatewayError {
  return new GatewayError("invalid_request", {
    message: "The connection closed before the whole request body arrived. Send the request again.",
    cause,
  })
}

async function readCounted(
  body: ReadableStream<Uint8Array> | null,
  limit_bytes: number,
  memory: MemoryPart | null,
): Promise<Uint8Array> {
  if (body === null) return new Uint8Array()
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.byteLength
    if (size > limit_bytes) throw new GatewayError("request_too_large")
    memory?.take(chunk.byteLength)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function checkMediaType(headers: Headers): void {
  if (headers.get("content-type") === "application/json" && !headers.has("content-encoding")) return
  const encoding = headers.get("content-encoding")
  const [type = "", ...parameters] = (headers.get("content-type") ?? "").toLowerCase().split(";")
  const charset = parameters
    .map((parameter) => parameter.trim())
    .find((parameter) => parameter.startsWith("charset="))
  const plain = encoding === null || encoding.trim().toLowerCase() === "identity"
  const utf8 = charset === undefined || /^charset="?utf-?8"?$/.test(charset)
  if (type.trim() !== "application/json" || !plain || !utf8) throw new GatewayError("unsupported_media_type")
}
