import { pipeline, type Transform } from "node:stream"
import { constants, createGunzip, createZstdDecompress } from "node:zlib"
import type { MemoryPart } from "../admission/memory.ts"
import { COPIES, type Config } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { startTimeout } from "../timeouts.ts"

/** A longer body takes its memory as it arrives, a shorter one at once: a stream costs more than reading the bytes. */
const STREAMED_BYTES = 1_048_576

type Decoder = () => Transform

/** The size of a decoder's output chunks. */
const PART_BYTES = 65_536
/** The memory of a decoder. Measured: 92 KiB for gzip, with its stream. A body's byte counts as four (D77). */
const DECODER_BYTES = 131_072 / COPIES
/** The largest zstd window that decoders must support (RFC 8878 section 3.1.1.1.2): 8 MiB. */
const ZSTD_WINDOW_LOG = 23

/** Content codings of requests. They decode outside of the event loop. */
const decoders: Readonly<Record<string, Decoder>> = {
  gzip: () => createGunzip({ chunkSize: PART_BYTES }),
  zstd: () =>
    createZstdDecompress({
      chunkSize: PART_BYTES,
      params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG },
    }),
}

/**
 * The body of a request that must be UTF-8 JSON, decoded if it is compressed (D18). 415 for any other media type, 413 over
 * `limits.body`, 503 if there is no memory for it (D77), 408 if it does not arrive within `limits.body_timeout` (D15, D31).
 * `memory`: null for an operator.
 */
export function readBody(
  request: Request,
  limits: Pick<Config["limits"], "body_bytes" | "body_timeout_ms">,
  memory: MemoryPart | null,
): Promise<Uint8Array> {
  const decoder = checkedDecoder(request.headers)
  const announced = announcedBytes(request.headers)
  if (announced !== null && announced > limits.body_bytes) throw new GatewayError("request_too_large")
  const length = announced ?? Number.POSITIVE_INFINITY
  if (decoder !== null) memory?.take(DECODER_BYTES)
  if (decoder !== null || length > STREAMED_BYTES) {
    const parts = decoder === null ? request.body : decoded(request.body, decoder, limits.body_bytes)
    return arrived(readCounted(parts, limits.body_bytes, memory, decoder !== null), limits.body_timeout_ms)
  }
  memory?.take(length)
  return arrived(request.bytes(), limits.body_timeout_ms)
}

/** The content length; null for none, and for a list, which the server accepts if its numbers are equal (RFC 9110 section 8.6). */
function announcedBytes(headers: Headers): number | null {
  const bytes = Number(headers.get("content-length") ?? Number.NaN)
  return Number.isNaN(bytes) ? null : bytes
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
  body: AsyncIterable<Uint8Array> | null,
  limit_bytes: number,
  memory: MemoryPart | null,
  is_decoded: boolean,
): Promise<Uint8Array> {
  if (body === null) return new Uint8Array()
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of body) {
      size += chunk.byteLength
      if (size > limit_bytes) throw new GatewayError("request_too_large")
      memory?.take(chunk.byteLength)
      chunks.push(chunk)
      const turn = memory?.read(chunk.byteLength) ?? null
      if (turn !== null) await turn
    }
    return Buffer.concat(chunks)
  } catch (error) {
    if (is_decoded) throw error
    // Nothing else uses these buffers. A collection for each refused body would stop the event loop for 50 ms.
    for (const { buffer } of chunks) if (buffer instanceof ArrayBuffer) buffer.transfer(0)
    memory?.discard()
    throw error
  }
}

/** The parts of a compressed body. It is decoded as the reader takes it. */
async function* decoded(
  body: AsyncIterable<Uint8Array> | null,
  open: Decoder,
  limit_bytes: number,
): AsyncGenerator<Uint8Array> {
  const decoder = open()
  pipeline(
    () => encoded(body, limit_bytes),
    decoder,
    () => {},
  )
  try {
    yield* decoder
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause
    throw new GatewayError("invalid_request", {
      message: "The request body is not in the encoding that its content-encoding header names.",
      cause,
    })
  }
}

/** The compressed bytes. They are limited too, because many of them may decode to nothing. */
async function* encoded(
  body: AsyncIterable<Uint8Array> | null,
  limit_bytes: number,
): AsyncGenerator<Uint8Array> {
  let size = 0
  try {
    for await (const part of body ?? []) {
      size += part.byteLength
      if (size > limit_bytes) throw new GatewayError("request_too_large")
      yield part
    }
  } catch (error) {
    throw error instanceof GatewayError ? error : cutShort(error)
  }
}

/** The decoder for a body; null for a plain one. 415 if the headers do not say that it is UTF-8 JSON in a known coding. */
function checkedDecoder(headers: Headers): Decoder | null {
  const given = headers.get("content-encoding")
  if (given === null && headers.get("content-type") === "application/json") return null
  const coding = (given ?? "identity").trim().toLowerCase()
  const [type = "", ...parameters] = (headers.get("content-type") ?? "").toLowerCase().split(";")
  const charset = parameters
    .map((parameter) => parameter.trim())
    .find((parameter) => parameter.startsWith("charset="))
  const is_known = coding === "identity" || Object.hasOwn(decoders, coding)
  const utf8 = charset === undefined || /^charset="?utf-?8"?$/.test(charset)
  if (type.trim() !== "application/json" || !is_known || !utf8)
    throw new GatewayError("unsupported_media_type")
  return decoders[coding] ?? null
}
