import { pipeline, type Transform } from "node:stream"
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from "node:zlib"
import type { Exchange } from "./http/exchange.ts"
import type { HeaderLookup } from "./http/transport.ts"
import type { Body } from "./reply.ts"

/** A body that was cut is decoded as far as it came: these constants make a decoder accept that. */
const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: () => createGunzip({ finishFlush: constants.Z_SYNC_FLUSH }),
  "x-gzip": () => createGunzip({ finishFlush: constants.Z_SYNC_FLUSH }),
  deflate: () => createInflate({ finishFlush: constants.Z_SYNC_FLUSH }),
  br: () => createBrotliDecompress({ finishFlush: constants.BROTLI_OPERATION_FLUSH }),
  zstd: () => createZstdDecompress({ finishFlush: constants.ZSTD_e_flush }),
}

/**
 * The body of an answer without its content coding (D25), which some providers use although the gateway asks for none. Null for
 * a coding that is not known. It is decoded as it is read, so that the limits on what is read bound what is decoded.
 */
export function decoded(exchange: Exchange, fields: HeaderLookup): Body | null {
  const coding = (fields.get("content-encoding") ?? "").trim().toLowerCase()
  if (coding === "" || coding === "identity") return exchange
  const decoder = Object.hasOwn(decoders, coding) ? decoders[coding]?.() : undefined
  return decoder === undefined ? null : new DecodedBody(exchange, decoder)
}

class DecodedBody implements Body {
  readonly #source: Exchange
  readonly #decoder: Transform
  readonly #parts: AsyncIterator<Uint8Array>
  /** Why the body did not come whole. Told after what came of it. */
  #lost: { readonly error: unknown } | null = null
  #ended = false

  constructor(source: Exchange, decoder: Transform) {
    this.#source = source
    this.#decoder = decoder
    this.#parts = decoder[Symbol.asyncIterator]()
    pipeline(
      () => this.#coded(),
      decoder,
      () => {},
    )
  }

  get arrived(): boolean {
    return this.#ended
  }

  async read(): Promise<Uint8Array | null> {
    try {
      const { done, value } = await this.#parts.next()
      if (done !== true) return value
    } catch (error) {
      this.#source.cancel()
      throw error
    }
    if (this.#lost !== null) throw this.#lost.error
    this.#ended = true
    return null
  }

  async bytes(): Promise<Uint8Array> {
    const parts: Uint8Array[] = []
    for (let part = await this.read(); part !== null; part = await this.read()) parts.push(part)
    return Buffer.concat(parts)
  }

  cancel(): void {
    this.#source.cancel()
    this.#decoder.destroy()
  }

  async *#coded(): AsyncGenerator<Uint8Array> {
    try {
      for (let part = await this.#source.read(); part !== null; part = await this.#source.read()) yield part
    } catch (error) {
      this.#lost = { error }
    }
  }
}
