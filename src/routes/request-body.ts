import { pipeline, type Transform } from "node:stream"
import { constants, createGunzip, createZstdDecompress } from "node:zlib"
import type { Memory, MemoryPart } from "../admission/memory.ts"
import { announcedBytes, DROPPED_BYTES, unfinished, unreadBytes } from "../admission/unread-bodies.ts"
import { COPIES, type Config } from "../config/config.ts"
import { errorResponse, GatewayError, printError } from "../errors.ts"
import { parseId, requestId } from "../id.ts"
import type { Gateway } from "../service/gateway.ts"
import { freeBuffer, joined } from "../wire/buffers.ts"
import { readJsonBody } from "../wire/json.ts"

/** A longer body is read in parts, as a stream. That costs more than reading it whole. */
const STREAMED_BYTES = 1_048_576
/** Time for a client that still sends its body to read the answer, before its connection is closed. */
const LINGER_MS = 1_000
/** Time for a refused body without a length to come whole. */
const SHORT_MS = 100
/** Maximum number of its parts, because a chunk of one byte costs as much as one of 64 KiB. */
const SHORT_PARTS = 256
/** Least bytes of a part, because each takes memory as a separate value. */
const LEAST_PART_BYTES = 512

type Decoder = () => Transform

const PART_BYTES = 65_536
/** The memory of a decoder with its stream. A body's byte counts as four (D77). */
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
  const { body_bytes, body_timeout_ms } = limits
  const length = announcedBytes(request.headers)
  if (length < Number.POSITIVE_INFINITY && length > body_bytes) throw new GatewayError("request_too_large")
  if (decoder === null && length <= body_bytes) {
    const room = memory?.take(length) ?? null
    const read = () =>
      length > STREAMED_BYTES
        ? readParts(request, body_bytes, memory, sizedBodyParts(length))
        : request.bytes()
    return arrived(request, room === null ? read() : room.then(read), body_timeout_ms)
  }
  const unread = unreadBytes(request.headers) / COPIES
  const room = memory?.take(decoder === null ? unread : unread + DECODER_BYTES) ?? null
  const read = () => readParts(request, body_bytes, memory, bodyParts(), decoder)
  const bytes = (room === null ? read() : room.then(read)).finally(() => memory?.discard(unread))
  return arrived(request, bytes, body_timeout_ms)
}

/** The JSON body for Elysia. Not read if the id in the path is invalid (D30) or the method takes none. */
export async function jsonBody(
  request: Request,
  id: string | null | undefined,
  limits: Parameters<typeof readBody>[1],
  memory: MemoryPart | null,
): Promise<object> {
  const is_unread = request.method === "DELETE" || (id !== undefined && (id === null || parseId(id) === null))
  return is_unread ? {} : readJsonBody(await readInTurn(request, limits, memory))
}

/** Least cost of a request in a turn of the event loop, in bytes of a body (D78). */
export const REQUEST_BYTES = 2_048

/** The body, once its account has a turn in which it can be parsed (D78). */
export async function readInTurn(
  ...[request, limits, memory]: Parameters<typeof readBody>
): Promise<Uint8Array> {
  const bytes = await readBody(request, limits, memory)
  const turn = memory?.read(Math.max(bytes.byteLength, REQUEST_BYTES)) ?? null
  if (turn !== null) await turn
  return bytes
}

/** Waits for the body. An error after the timeout is ignored. */
function arrived(request: Request, body: Promise<Uint8Array>, within_ms: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const timeout = setTimeout(() => {
      unfinished.add(request)
      reject(new GatewayError("request_timeout"))
    }, within_ms)
    body.then(
      (bytes) => {
        clearTimeout(timeout)
        resolve(bytes)
      },
      (error) => {
        clearTimeout(timeout)
        unfinished.add(request)
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

/** The parts of a body, to be joined. */
interface BodyParts {
  /** True if the memory of the whole body is taken before it arrives. */
  readonly is_sized: boolean
  add(part: Uint8Array): void
  whole(): Uint8Array
  free(): void
}

function bodyParts(): BodyParts {
  const parts: Uint8Array[] = []
  return {
    is_sized: false,
    add: (part) => void parts.push(part),
    whole: () => joined(parts),
    free: () => parts.forEach(freeBuffer),
  }
}

/**
 * The same for a body of known length. Each part is copied when it arrives, because joining 20 MiB at the end would
 * block one turn.
 */
function sizedBodyParts(length: number): BodyParts {
  const whole = Buffer.allocUnsafeSlow(length)
  let size = 0
  return {
    is_sized: true,
    add(part) {
      whole.set(part, size)
      size += part.byteLength
      freeBuffer(part)
    },
    whole: () => whole.subarray(0, size),
    free: () => freeBuffer(whole),
  }
}

/**
 * Reads a body in parts, with turns of the accounts (D78). Each part of a body of unknown length takes memory as it
 * arrives.
 */
async function readParts(
  request: Request,
  limit_bytes: number,
  memory: MemoryPart | null,
  parts: BodyParts,
  decoder: Decoder | null = null,
): Promise<Uint8Array> {
  const sent = request.body?.values({ preventCancel: true }) ?? []
  let size = 0
  try {
    for await (const chunk of decoder === null ? sent : decoded(sent, decoder, limit_bytes, memory)) {
      size += chunk.byteLength
      if (size > limit_bytes) throw new GatewayError("request_too_large")
      if (unfinished.has(request)) throw new GatewayError("request_timeout")
      const counted_bytes = Math.max(chunk.byteLength, LEAST_PART_BYTES)
      const room = parts.is_sized ? null : (memory?.take(counted_bytes) ?? null)
      if (room !== null) await room
      parts.add(decoder === null ? chunk : ownedPart(chunk))
      const turn = memory?.read(counted_bytes) ?? null
      if (turn !== null) await turn
    }
    return parts.whole()
  } catch (error) {
    parts.free()
    memory?.discard()
    throw error
  }
}

/**
 * The answer to a request with a fault. If a large body was not read to its end, the connection is closed a second
 * later, because the runtime would read the rest to drop it. Until then the client can read the answer, and the rest of
 * the body waits in its socket. Without memory for the received part (D77), the connection is closed immediately.
 */
export async function refusal(request: Request, fault: GatewayError, { memory }: Pick<Gateway, "memory">) {
  const { headers } = request
  const is_read = request.bodyUsed && !unfinished.has(request)
  const id = requestId(request)
  if (is_read) return errorResponse(fault, id)
  if (unreadBytes(headers) <= DROPPED_BYTES) {
    drop(request)
    return errorResponse(fault, id)
  }
  if (await isShort(request, memory)) return errorResponse(fault, id)
  const { body, ...init } = printError(fault, id)
  init.headers.set("connection", "close")
  const remove = memory.unread.linger(headers)
  if (remove === null) {
    drop(request)
    return new Response(body, init)
  }
  let timer: Timer | undefined
  const lingering = new ReadableStream({
    start(controller) {
      controller.enqueue(Buffer.from(body))
      timer = setTimeout(() => {
        remove()
        controller.close()
      }, LINGER_MS)
    },
    cancel() {
      clearTimeout(timer)
      remove()
    },
  })
  return new Response(lingering, init)
}

/**
 * Drops the received parts of a body until its answer is sent, because the runtime would keep them. The answer may wait
 * for the end of the turn (D111).
 */
function drop({ body }: Request): void {
  if (body !== null && !body.locked) void body.cancel()
}

/** True if a body without a length arrives soon, in few parts, with at most 1 MiB, and there is memory for it. */
async function isShort(request: Request, { unread }: Memory): Promise<boolean> {
  const { headers } = request
  if (headers.has("content-length")) return false
  const { body } = request
  if (body === null || body.locked) return false
  const done = unread.end(headers)
  if (done === null) return false
  try {
    return await comesSoon(body)
  } finally {
    done()
  }
}

async function comesSoon(body: ReadableStream<Uint8Array>): Promise<boolean> {
  const reader = body.getReader()
  const { promise: late, resolve } = Promise.withResolvers<null>()
  const timeout = setTimeout(() => resolve(null), SHORT_MS)
  try {
    let bytes = 0
    for (let parts = 0; parts < SHORT_PARTS && bytes <= DROPPED_BYTES; parts++) {
      const part = await Promise.race([reader.read(), late])
      if (part === null || part.done) return part !== null
      bytes += part.value.byteLength
    }
    return false
  } catch {
    return false
  } finally {
    clearTimeout(timeout)
    reader.releaseLock()
  }
}

/** The decoded parts of a compressed body, decoded as the reader takes them. */
async function* decoded(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  open: Decoder,
  limit_bytes: number,
  memory: MemoryPart | null,
): AsyncGenerator<Uint8Array> {
  const decoder = open()
  pipeline(
    () => encoded(body, limit_bytes, memory),
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

/** A decoder's part in a buffer of its own, because the decoder writes on into a buffer that is not full. */
function ownedPart(part: Uint8Array): Uint8Array {
  return part.byteLength === part.buffer.byteLength ? part : new Uint8Array(part)
}

/**
 * The compressed bytes. They are limited too, because many may decode to nothing. Short parts wait for a turn, in which
 * the runtime joins the following ones, because each part costs the decoder the same.
 */
async function* encoded(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  limit_bytes: number,
  memory: MemoryPart | null,
): AsyncGenerator<Uint8Array> {
  let size = 0
  try {
    for await (const part of body) {
      size += part.byteLength
      if (size > limit_bytes) throw new GatewayError("request_too_large")
      yield part
      if (part.byteLength < LEAST_PART_BYTES) await memory?.read(LEAST_PART_BYTES)
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
