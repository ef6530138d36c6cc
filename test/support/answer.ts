/** An answer, read from the bytes of its socket. */
export interface Answer {
  readonly status: number
  /** By lower-case name; repeated ones joined by `, `. */
  readonly headers: Readonly<Record<string, string>>
  /** Without framing, whatever the framing was. */
  readonly body: string
  readonly bytes: Buffer
  /** The body parsed, once it is whole; undefined when it is no JSON. */
  readonly json: unknown
  /** Whether the framing's own end came: the last chunk, or all of the declared length. */
  readonly whole: boolean
}

interface Body {
  readonly bytes: Buffer
  /** Where it ends, or null while it has not come whole. */
  readonly end: number | null
}

/**
 * What `received` begins with, as far as it came, and how many bytes a whole answer took; null while its head is not
 * complete. An answer without framing has no body.
 */
export function parseAnswer(
  received: Buffer,
  method = "GET",
): { readonly answer: Answer; readonly consumed: number } | null {
  const head_end = received.indexOf("\r\n\r\n")
  if (head_end < 0) return null
  const [start = "", ...lines] = received.toString("latin1", 0, head_end).split("\r\n")
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const colon = line.indexOf(":")
    const name = line.slice(0, colon).toLowerCase()
    const value = line.slice(colon + 1).trim()
    headers[name] = name in headers ? `${headers[name]}, ${value}` : value
  }
  const status = Number(start.split(" ")[1])
  const rest = received.subarray(head_end + 4)
  const { bytes, end } =
    method === "HEAD" || status === 204 ? { bytes: Buffer.alloc(0), end: 0 } : bodyOf(rest, headers)
  const body = bytes.toString()
  const whole = end !== null
  const json = whole ? parseJson(body) : undefined
  return { answer: { status, headers, body, bytes, json, whole }, consumed: head_end + 4 + (end ?? 0) }
}

function bodyOf(rest: Buffer, headers: Readonly<Record<string, string>>): Body {
  if (headers["transfer-encoding"] === "chunked") return dechunked(rest)
  const length = Number(headers["content-length"] ?? 0)
  return { bytes: rest.subarray(0, length), end: rest.length < length ? null : length }
}

/** The body of a chunked answer as far as it came, an unfinished chunk included. */
function dechunked(rest: Buffer): Body {
  const pieces: Buffer[] = []
  const unfinished = (): Body => ({ bytes: Buffer.concat(pieces), end: null })
  for (let at = 0; ; ) {
    const line_end = rest.indexOf("\r\n", at)
    if (line_end < 0) return unfinished()
    const size = Number.parseInt(rest.toString("latin1", at, line_end), 16)
    const end = line_end + 2 + size + 2
    pieces.push(rest.subarray(line_end + 2, line_end + 2 + size))
    if (rest.length < end) return unfinished()
    if (size === 0) return { bytes: Buffer.concat(pieces), end }
    at = end
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
