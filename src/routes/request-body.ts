import type { Config } from "../config/config.ts"
import { GatewayError } from "../errors.ts"

/**
 * The body of a request that must be plain UTF-8 JSON: 415 for anything else it says of itself, 413 over
 * `limits.body`, 408 when it does not arrive within `limits.body_timeout` (D15, D18, D31).
 */
export async function readBody(request: Request, limits: Config["limits"]): Promise<Uint8Array> {
  checkMediaType(request.headers)
  const length = request.headers.get("content-length")
  if (length !== null && Number(length) > limits.body_bytes) throw new GatewayError("request_too_large")
  if (request.body === null) return new Uint8Array()
  const timeout = Promise.withResolvers<never>()
  const timer = setTimeout(() => timeout.reject(new GatewayError("request_timeout")), limits.body_timeout_ms)
  const body = length === null ? readCounted(request.body, limits.body_bytes) : request.bytes()
  try {
    return await Promise.race([body, timeout.promise])
  } catch (error) {
    body.catch(() => {})
    throw error instanceof GatewayError
      ? error
      : new GatewayError("invalid_request", {
          message: "The request's body did not arrive whole.",
          cause: error,
        })
  } finally {
    clearTimeout(timer)
  }
}

async function readCounted(body: ReadableStream<Uint8Array>, limit_bytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.byteLength
    if (size > limit_bytes) throw new GatewayError("request_too_large")
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function checkMediaType(headers: Headers): void {
  const encoding = headers.get("content-encoding")
  const [type = "", ...parameters] = (headers.get("content-type") ?? "").toLowerCase().split(";")
  const charset = parameters
    .map((parameter) => parameter.trim())
    .find((parameter) => parameter.startsWith("charset="))
  const plain = encoding === null || encoding.trim().toLowerCase() === "identity"
  const utf8 = charset === undefined || /^charset="?utf-?8"?$/.test(charset)
  if (type.trim() !== "application/json" || !plain || !utf8) throw new GatewayError("unsupported_media_type")
}
