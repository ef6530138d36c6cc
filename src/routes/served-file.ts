import { promisify } from "node:util"
import { gzip } from "node:zlib"

/** Asynchronous, because the largest file takes longer than a stream should wait. */
const pack = promisify(gzip)

/** A file of a page, with its fingerprint. */
export interface ServedFile {
  readonly bytes: ArrayBuffer
  /** The file with gzip. */
  readonly packed_bytes: Uint8Array<ArrayBuffer>
  /** Its media type. */
  readonly type: string
  readonly etag: string
}

export async function fingerprinted(bytes: ArrayBuffer, type: string): Promise<ServedFile> {
  return { bytes, packed_bytes: await pack(bytes), type, etag: `W/"${Bun.hash(bytes).toString(36)}"` }
}

/** Loads the file at `url`, the result of the caller's `import.meta.resolve`. */
export async function loadFile(url: string, type: string): Promise<ServedFile> {
  return await fingerprinted(await Bun.file(new URL(url)).arrayBuffer(), type)
}

/**
 * The content security policy of a page: it loads only from this gateway, and no inline scripts or styles. `more` adds
 * directives.
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
