import { csvOf, ndjsonOf, rowsOf } from "../wire/csv.ts"
import { invalidField } from "../wire/fault.ts"

/** Lists as CSV or NDJSON instead of JSON (D105): one hook for all routes. */

export const LIST_FORMATS = ["json", "csv", "ndjson"] as const
type ListFormat = (typeof LIST_FORMATS)[number]

export const MEDIA_TYPES = { csv: "text/csv", ndjson: "application/x-ndjson" } as const

const EXPECTED = `one of ${LIST_FORMATS.join(", ")}`

/** A hook after the handler: the rows of a list in the format of `?format=` or `Accept`. Other answers stay JSON. */
export function inFormat({ request, responseValue: body }: { request: Request; responseValue: unknown }) {
  if (request.method !== "GET") return
  const url = new URL(request.url)
  const asked = url.searchParams.get("format")
  const format =
    asked === null ? accepted(request.headers.get("accept") ?? "") : LIST_FORMATS.find((one) => one === asked)
  if (format === undefined) throw invalidField("format", EXPECTED)
  if (format === "json") return
  const rows = rowsOf(body)
  if (rows === null) {
    if (asked === null) return
    throw invalidField("format", "json, because this answer is no list")
  }
  return new Response(format === "csv" ? csvOf(rows) : ndjsonOf(rows), {
    headers: {
      "content-type": format === "csv" ? `${MEDIA_TYPES.csv}; charset=utf-8` : MEDIA_TYPES.ndjson,
      "cache-control": "no-store",
      ...besideRows(url, Object(body)),
    },
  })
}

/** The first of the media types that a client names; JSON for any other. */
function accepted(header: string): ListFormat {
  const types = header.split(",").map((type) => type.split(";")[0]?.trim().toLowerCase())
  const first = types.find(
    (type) => type === "application/json" || type === MEDIA_TYPES.csv || type === MEDIA_TYPES.ndjson,
  )
  return first === MEDIA_TYPES.csv ? "csv" : first === MEDIA_TYPES.ndjson ? "ndjson" : "json"
}

/** Headers for the parts of a list that are no rows: its next page, and how many groups are left out. */
function besideRows(url: URL, { next, left_out }: { readonly next?: unknown; readonly left_out?: unknown }) {
  const more = new URL(url)
  if (typeof next === "string") more.searchParams.set("after", next)
  return {
    ...(typeof next === "string" && { link: `<${more.pathname}${more.search}>; rel="next"` }),
    ...(typeof left_out === "number" && left_out > 0 && { "x-left-out": String(left_out) }),
  }
}
