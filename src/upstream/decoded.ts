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

/** Decoders that accept a body that was cut, and decode what came of it. */
const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: () => createGunzip({ finishFlush: constants.Z_SYNC_FLUSH }),
  "x-gzip": () => createGunzip({ finishFlush: constants.Z_SYNC_FLUSH }),
  deflate: () => createInflate({ finishFlush: constants.Z_SYNC_FLUSH }),
  br: () => createBrotliDecompress({ finishFlush: constants.BROTLI_OPERATION_FLUSH }),
  zstd: () => createZstdDecompress({ finishFlush: constants.ZSTD_e_flush }),
}

/**
 * The decoded body of an answer (D25): some providers compress although the gateway asks them not to. Null for an
 * unknown coding. It is decoded while it is read, so the limits on reading also bound decoding.
 */
export function decoded(exchange: Exchange, fields: HeaderLookup): Body | null {
  const coding = (fields.get("content-encoding") ?? "").trim().toLowerCase()
  if (coding === "" || coding === "identity") return exchange
  const decoder = Object.hasOwn(decoders, coding) ? decoders[coding]?.() : undefined
  return decoder === undefined ? null : decodedBody(exchange, decoder)
}

function decodedBody(source: Exchange, decoder: Transform): Body {
  /** The reason why the body did not come whole. Reported after the part that came. */
  let lost: { readonly error: unknown } | null = null
  let ended = false
  const coded = async function* () {
    try {
      for (let part = await source.read(); part !== null; part = await source.read()) yield part
    } catch (error) {
      lost = { error }
    }
  }
  const parts: AsyncIterator<Uint8Array> = decoder[Symbol.asyncIterator]()
  pipeline(coded, decoder, () => {})
  const read = async () => {
    try {
      const { done, value } = await parts.next()
      if (done !== true) return value
    } catch (error) {
      source.cancel()
      throw error
    }
    if (lost !== null) throw lost.error
    ended = true
    return null
  }
  return {
    get arrived() {
      return ended
    },
    read,
    async bytes() {
      const all: Uint8Array[] = []
      for (let part = await read(); part !== null; part = await read()) all.push(part)
      return Buffer.concat(all)
    },
    cancel() {
      source.cancel()
      decoder.destroy()
    },
  }
}
