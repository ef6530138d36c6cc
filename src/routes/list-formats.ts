import { csvParts, ndjsonParts, rowsOf } from "../wire/csv.ts"
import { invalidField } from "../wire/fault.ts"
import { nextTurn } from "../wire/shape.ts"

/** Lists as CSV or NDJSON instead of JSON (D105), and other answers that have forms of their own: one hook for all routes. */

export const LIST_FORMATS = ["json", "csv", "ndjson"] as const
const FORMATS = [...LIST_FORMATS, "html"] as const

export const MEDIA_TYPES = { csv: "text/csv", ndjson: "application/x-ndjson" } as const
const TYPES = { ...MEDIA_TYPES, json: "application/json", html: "text/html" } as const

/** Rows and a page for an answer that is no list. The page has no scripts, and its style in it. */
interface Forms {
  rows(): readonly object[]
  html(): string
}

const forms = new WeakMap<object, Forms>()

export function alsoAs<Body extends object>(body: Body, its: Forms): Body {
  forms.set(body, its)
  return body
}

/** Headers of a page that loads and runs nothing. */
const PAGE = {
  "content-type": `${TYPES.html}; charset=utf-8`,
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
} as const
const NO_STORE = { "cache-control": "no-store" } as const

/** A hook after the handler: an answer in the format of `?format=` or `Accept`. An answer without other forms stays JSON. */
export function inFormat({ request, responseValue: body }: { request: Request; responseValue: unknown }) {
  if (request.method !== "GET") return
  const url = new URL(request.url)
  const requested = url.searchParams.get("format")
  const its = typeof body === "object" && body !== null ? forms.get(body) : undefined
  const formats = its === undefined ? LIST_FORMATS : FORMATS
  const format = formatOf(request, requested, formats)
  if (format === undefined) throw invalidField("format", `one of ${formats.join(", ")}`)
  if (format === "json") return
  if (format === "html" && its !== undefined)
    return new Response(its.html(), { headers: { ...PAGE, ...NO_STORE } })
  const rows = its?.rows() ?? rowsOf(body)
  if (rows === null) {
    if (requested === null) return
    throw invalidField("format", "json, because this answer is no list")
  }
  return new Response(inParts(format === "csv" ? csvParts(rows) : ndjsonParts(rows)), {
    headers: {
      "content-type": format === "csv" ? `${MEDIA_TYPES.csv}; charset=utf-8` : MEDIA_TYPES.ndjson,
      ...NO_STORE,
      ...besideRows(url, Object(body)),
    },
  })
}

/** Other requests get their turn between the parts of a long list. */
function inParts(parts: Iterator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  return new ReadableStream({
    async pull(controller) {
      for (;;) {
        const { done, value } = parts.next()
        if (done) return controller.close()
        await nextTurn()
        if (value === "") continue
        return controller.enqueue(encoder.encode(value))
      }
    },
  })
}

/** True if the answer is to be rows alone, which have no place for a total. */
export function asksRows(request: Request): boolean {
  const requested = new URL(request.url).searchParams.get("format")
  const format = formatOf(request, requested, LIST_FORMATS)
  return format === "csv" || format === "ndjson"
}

function formatOf<Format extends keyof typeof TYPES>(
  { headers }: Request,
  requested: string | null,
  formats: readonly Format[],
): Format | "json" | undefined {
  return requested === null
    ? accepted(headers.get("accept") ?? "", formats)
    : formats.find((one) => one === requested)
}

/** The format of the first media type that a client names and that there is; JSON for any other. */
function accepted<Format extends keyof typeof TYPES>(
  header: string,
  formats: readonly Format[],
): Format | "json" {
  const types = header.split(",").map((type) => type.split(";")[0]?.trim().toLowerCase())
  const named = types.flatMap((type) => formats.filter((format) => TYPES[format] === type))
  return named[0] ?? "json"
}

/** The header with the next page of a list, which is no row. */
function besideRows(url: URL, { next }: { readonly next?: unknown }) {
  if (typeof next !== "string") return
  const more = new URL(url)
  more.searchParams.set("after", next)
  return { link: `<${more.pathname}${more.search}>; rel="next"` }
}
