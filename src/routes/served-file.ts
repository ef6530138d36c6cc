import { promisify } from "node:util"
import { gzip } from "node:zlib"
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { GatewayError } from "../errors.ts"
import { answer, described, text } from "./reference/operation.ts"

/** Asynchronous, because the largest file would delay streams. */
const pack = promisify(gzip)

/** A file as blobs, because the runtime copies any other body for each answer, and keeps a copy for a client that left. */
export interface ServedFile {
  readonly whole: Blob
  readonly packed: Blob
  readonly type: string
  readonly etag: string
}

export async function fingerprinted(bytes: ArrayBuffer, type: string): Promise<ServedFile> {
  const packed = new Blob([await pack(bytes)])
  return { whole: new Blob([bytes]), packed, type, etag: `W/"${Bun.hash(bytes).toString(36)}"` }
}

/** Loads the file at `url`, the result of the caller's `import.meta.resolve`. */
export async function loadFile(url: string, type: string): Promise<ServedFile> {
  return await fingerprinted(await Bun.file(new URL(url)).arrayBuffer(), type)
}

/** The policy of a page: only this gateway, no inline scripts or styles. `more` adds directives. */
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
export async function serveFile(request: Request, file: ServedFile | Promise<ServedFile>, policy: string) {
  const { whole, packed, type, etag } = await file
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
  if (!is_packed) return new Response(whole, { headers })
  return new Response(packed, { headers: { ...headers, "content-encoding": "gzip" } })
}

/** A page and what it loads. Nothing else is served. */
interface ServedPage {
  readonly name: string
  readonly path: string
  /** Another path of the page, which the reference does not show. */
  readonly other_path?: string
  readonly policy: string
  readonly html: () => Promise<ServedFile>
  /** By name below `assets/` of the path. */
  readonly assets: Readonly<Record<string, () => Promise<ServedFile>>>
  readonly operationId: string
  readonly summary: string
  readonly description: string
}

/** Serves a page. Each file is read when it is first asked for. */
export function pageRoutes({ name, path, other_path, policy, html, assets, ...page }: ServedPage) {
  const files = new Map<string, Promise<ServedFile>>()
  const once = (file: string, read: () => Promise<ServedFile>): Promise<ServedFile> => {
    const known = files.get(file) ?? read()
    files.set(file, known)
    known.catch(() => files.delete(file))
    return known
  }
  const whole = ({ request }: { readonly request: Request }) => serveFile(request, once("", html), policy)
  const routes = new Elysia({ name })
  if (other_path !== undefined) routes.get(other_path, whole, { detail: { hide: true } })
  return routes
    .get(
      path,
      whole,
      described({
        ...page,
        tag: "Service",
        response: { 200: answer("The page.", text("text/html")), 304: UNCHANGED },
        errors: [],
      }),
    )
    .get(
      `${path}/assets/:file`,
      ({ request, params: { file } }) => {
        const read = Object.hasOwn(assets, file) ? assets[file] : undefined
        if (read === undefined) throw new GatewayError("not_found")
        return serveFile(request, once(file, read), policy)
      },
      described({
        operationId: `${page.operationId}Asset`,
        tag: "Service",
        summary: `Asset of the ${name} page`,
        description: "The scripts, styles and icon that the page loads.",
        params: Type.Object({ file: Type.String({ examples: ["page.css"] }) }),
        response: { 200: answer("The file.", text("text/css")), 304: UNCHANGED },
        errors: ["not_found"],
      }),
    )
}

/** The answer to a browser that has the file already. */
export const UNCHANGED = answer("The file has not changed since it was last fetched.", Type.Void())
