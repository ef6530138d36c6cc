import type { MadeAnswerMemory } from "../admission/memory.ts"
import { mapInTurns, turns } from "../turns.ts"
import { LARGE_BYTES } from "../wire/buffers.ts"
import { csvColumns, csvHeader, csvLines, ndjsonOf, rowsOf } from "../wire/csv.ts"
import { invalidField } from "../wire/fault.ts"
import { piecesInParts } from "./in-parts.ts"

/** Lists as CSV or NDJSON (D105), and other answers with further formats: one hook for all routes. */

export const LIST_FORMATS = ["json", "csv", "ndjson"] as const
const FORMATS = [...LIST_FORMATS, "html"] as const

export const MEDIA_TYPES = { csv: "text/csv", ndjson: "application/x-ndjson" } as const
const TYPES = { ...MEDIA_TYPES, json: "application/json", html: "text/html" } as const
/** Media types of answers that are made whole. */
const MADE = { ...TYPES, csv: `${TYPES.csv}; charset=utf-8` } as const

/** Rows and a page for an answer that is no list. The page has no scripts, and an inline style. */
interface Forms {
  rows(): readonly object[]
  html(): string
}

const forms = new WeakMap<object, Forms>()

export function alsoAs<Body extends object>(body: Body, its: Forms): Body {
  forms.set(body, its)
  return body
}

const made = new WeakMap<object, MadeAnswer>()

/** Replaces a body by an answer that is already made. */
export function asMade<Body extends object>(body: Body, its: MadeAnswer): Body {
  made.set(body, its)
  return body
}

/** Headers of a page that loads and runs nothing. */
const PAGE = {
  "content-type": `${TYPES.html}; charset=utf-8`,
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
} as const
const NO_STORE = { "cache-control": "no-store" } as const

/** The answer in the format of `?format=` or `Accept`. An answer without other formats stays JSON. */
export async function inFormat(
  request: Request,
  body: unknown,
  memory: () => MadeAnswerMemory,
): Promise<Response | undefined> {
  // The comparison with a provider's report and a part of a dump are large.
  if (request.method !== "GET") return isLong(body) ? largeJson(request, body, memory) : undefined
  const url = new URL(request.url)
  const requested = url.searchParams.get("format")
  const object = typeof body === "object" && body !== null ? body : {}
  const answer = made.get(object)
  if (answer !== undefined) return answer.end()
  const its = forms.get(object)
  const formats = its === undefined ? LIST_FORMATS : FORMATS
  const format = formatOf(request, requested, formats)
  if (format === undefined) throw invalidField("format", `one of ${formats.join(", ")}`)
  if (body instanceof Response) {
    if (requested === null || body.headers.get("content-type")?.startsWith(TYPES[format]) === true) return
    throw NO_LIST
  }
  if (format === "html" && its !== undefined)
    return new Response(its.html(), { headers: { ...PAGE, ...NO_STORE } })
  if (format === "json" || format === "html") return largeJson(request, body, memory)
  const rows = its?.rows() ?? rowsOf(body)
  if (rows === null) {
    if (requested === null) return largeJson(request, body, memory)
    throw NO_LIST
  }
  const lines = makeAnswer(format, request, memory())
  await lines.add(rows)
  return lines.end(besideRows(url, object))
}

const NO_LIST = invalidField("format", "json, because this answer is no list")

/** Entries of a list that is never printed without a turn of the event loop. */
const MANY = 1_000

const isLong = (body: unknown) =>
  Object.values(Object(body)).some((value) => Array.isArray(value) && value.length > MANY)

/** A large answer as JSON. The framework sends a small one. */
async function largeJson(request: Request, body: unknown, memory: () => MadeAnswerMemory) {
  const text = isLong(body) ? null : (JSON.stringify(body) ?? "")
  if (text !== null && text.length < LARGE_BYTES) return
  const answer = makeAnswer("json", request, memory())
  if (text === null) await answer.addJson(Object(body))
  else answer.write(text)
  return answer.end()
}

const ROWS_AT_ONCE = 100
const encoder = new TextEncoder()

/** An answer whose text is made whole, in parts of some milliseconds, and then sent as its client takes it (D113). */
export type MadeAnswer = ReturnType<typeof makeAnswer>

export function makeAnswer(format: keyof typeof MADE, { signal }: Request, memory: MadeAnswerMemory) {
  const pieces: Uint8Array[] = []
  /** The columns of CSV, set by the first rows. */
  let columns: readonly string[] | null = null

  /** Frees the memory. */
  function drop(): void {
    pieces.length = 0
    memory.free()
  }

  function write(text: string): void {
    const bytes = encoder.encode(text)
    try {
      memory.take(bytes.byteLength)
    } catch (error) {
      drop()
      throw error
    }
    pieces.push(bytes)
  }

  async function addList(list: readonly unknown[]): Promise<void> {
    const turn = turns()
    for (let at = 0; at < list.length; at += ROWS_AT_ONCE) {
      const text = JSON.stringify(list.slice(at, at + ROWS_AT_ONCE)).slice(1, -1)
      write(`${at === 0 ? "[" : ","}${text}`)
      await turn()
    }
    write(list.length === 0 ? "[]" : "]")
  }

  return {
    write,
    drop,
    /** Adds rows. The first ones must have all columns, whose names are the first line of CSV. */
    async add(rows: readonly object[]): Promise<void> {
      if (format === "csv" && columns === null) {
        const names = csvColumns()
        await mapInTurns(rows, names.add)
        columns = names.found()
        write(csvHeader(columns))
      }
      const turn = turns()
      for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) {
        const some = rows.slice(at, at + ROWS_AT_ONCE)
        write(columns === null ? ndjsonOf(some) : csvLines(columns, some))
        await turn()
      }
    },
    /** Adds an object whose lists may be long. */
    async addJson(body: object): Promise<void> {
      let before = "{"
      for (const [name, value] of Object.entries(body)) {
        if (value === undefined) continue
        write(`${before}${JSON.stringify(name)}:`)
        if (Array.isArray(value)) await addList(value)
        else write(JSON.stringify(value))
        before = ","
      }
      write("}")
    },
    end(headers: Readonly<Record<string, string>> = {}): Response {
      const parts = piecesInParts(pieces, signal, drop)
      return new Response(parts, { headers: { "content-type": MADE[format], ...NO_STORE, ...headers } })
    },
  }
}

/** The answer for rows without a total; null for any other format. */
export function rowsFor(request: Request, memory: () => MadeAnswerMemory): MadeAnswer | null {
  const requested = new URL(request.url).searchParams.get("format")
  const format = formatOf(request, requested, LIST_FORMATS)
  return format === "csv" || format === "ndjson" ? makeAnswer(format, request, memory()) : null
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

/** The format of the first known media type that the client accepts; otherwise JSON. */
function accepted<Format extends keyof typeof TYPES>(
  header: string,
  formats: readonly Format[],
): Format | "json" {
  const types = header.split(",").map((type) => type.split(";")[0]?.trim().toLowerCase())
  const named = types.flatMap((type) => formats.filter((format) => TYPES[format] === type))
  return named[0] ?? "json"
}

/** The header with the next page of a list. */
function besideRows(url: URL, { next }: { readonly next?: unknown }): Record<string, string> {
  if (typeof next !== "string") return {}
  const more = new URL(url)
  more.searchParams.set("after", next)
  return { link: `<${more.pathname}${more.search}>; rel="next"` }
}
