/** A file of a page that the gateway serves itself: with a fingerprint, and a policy that lets nothing else in. */
export interface ServedFile {
  readonly bytes: ArrayBuffer
  /** Its media type. */
  readonly type: string
  readonly etag: string
}

export function fingerprinted(bytes: ArrayBuffer, type: string): ServedFile {
  return { bytes, type, etag: `"${Bun.hash(bytes).toString(36)}"` }
}

/** The file at `url`, which may be that of a package: `import.meta.resolve` of whoever asks. */
export async function loadFile(url: string, type: string): Promise<ServedFile> {
  return fingerprinted(await Bun.file(new URL(url)).arrayBuffer(), type)
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

/** A browser may keep the file, but asks each time whether it is still the one: so an upgraded gateway never meets an old page. */
export async function serveFile(
  request: Request,
  file: ServedFile | Promise<ServedFile>,
  policy: string,
): Promise<Response> {
  const { bytes, type, etag } = await file
  const headers = {
    "content-type": type,
    "cache-control": "no-cache",
    "content-security-policy": policy,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    etag,
  }
  if (request.headers.get("if-none-match") === etag) return new Response(null, { status: 304, headers })
  return new Response(bytes, { headers })
}
