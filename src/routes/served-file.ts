import { promisify } from "node:util"
import { gzip } from "node:zlib"

/** Beside the event loop: the largest file takes longer than a stream should wait. */
const pack = promisify(gzip)

/** A file of a page that the gateway serves itself: with a fingerprint, and a policy that lets nothing else in. */
export interface ServedFile {
  readonly bytes: ArrayBuffer
  /** The same for browsers that unpack it. */
  readonly packed_bytes: Uint8Array<ArrayBuffer>
  /** Its media type. */
  readonly type: string
  readonly etag: string
}

export async function fingerprinted(bytes: ArrayBuffer, type: string): Promise<ServedFile> {
  return { bytes, packed_bytes: await pack(bytes), type, etag: `W/"${Bun.hash(bytes).toString(36)}"` }
}

/** The file at `url`, which may be that of a package: `import.meta.resolve` of whoever asks. */
export async function loadFile(url: string, type: string): Promise<ServedFile> {
  return await fingerprinted(await Bun.file(new URL(url)).arrayBuffer(), type)
}

/**
 * What a page and everything it loads may come from: this gateway. A script or style of any other origin, or inline, is refused.
 * `more` is what a page needs beyond that, or renounces.
 */
export function pagePolicy(...more: readonly string[]): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    ...more,
  ].join("; ")
}

/** A browser may keep the file, but must revalidate it, so an upgraded gateway never gets an old page. */
export async function serveFile(
  request: Request,
  file: ServedFile | Promise<ServedFile>,
  policy: string,
): Promise<Response> {
  const { bytes, packed_bytes, type, etag } = await file
  const is_packed = /\bgzip\b/.test(request.headers.get("accept-encoding") ?? "")
  const headers = {
    "content-type": type,
    "cache-control": "no-cache",
    "content-security-policy": policy,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    vary: "accept-encoding",
    etag,
  }
  if (request.headers.get("if-none-match") === etag) return new Response(null, { status: 304, headers })
  if (!is_packed) return new Response(bytes, { headers })
  return new Response(packed_bytes, { headers: { ...headers, "content-encoding": "gzip" } })
}
