import { parseJson } from "../../src/wire/usage.ts"

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

/**
 * What `received` begins with, as far as it came, and how many bytes a whole answer took; null while its head is not
 * complete. An answer without framing has no body.
 */
export function parseAnswer(
  received: Buffer,
  method = "GET",
): { readonly answer: Answer; readonly consumed: number } | null {
  const message = parseMessage(received)
  if (message === null) return null
  const { start, headers } = message
  const status = Number(start.split(" ")[1])
  const is_bare = method === "HEAD" || status === 204
  const { bytes, end } = is_bare ? { bytes: Buffer.alloc(0), end: message.body_start } : message
  const body = bytes.toString()
  const whole = end !== null
  const json = whole ? parseJson(body) : undefined
  return { answer: { status, headers, body, bytes, json, whole }, consumed: end ?? message.body_start }
}

/** A message of RFC 9112 at the start of `received`, its body as far as it came; null while its head is not complete. */
export function parseMessage(received: Buffer) {
  const head_end = received.indexOf("\r\n\r\n")
  if (head_end < 0) return null
  const [start = "", ...lines] = received.toString("latin1", 0, head_end).split("\r\n")
  const raw_headers = lines.map((line): [string, string] => {
    const colon = line.indexOf(":")
    return [line.slice(0, colon), line.slice(colon + 1).trim()]
  })
  const headers: Record<string, string> = {}
  for (const [name, value] of raw_headers) {
    const key = name.toLowerCase()
    headers[key] = key in headers ? `${headers[key]}, ${value}` : value
  }
  const body_start = head_end + 4
  const body = /chunked/i.test(headers["transfer-encoding"] ?? "")
    ? dechunked(received, body_start)
    : sized(received, body_start, Number(headers["content-length"] ?? 0))
  return { start, raw_headers, headers, body_start, ...body }
}

interface Body {
  readonly bytes: Buffer
  /** Where it ends; null while it has not come whole. */
  readonly end: number | null
  /** The number of bytes before which it is not worth looking again. */
  readonly needed: number
}

function sized(received: Buffer, start: number, length: number): Body {
  const needed = start + length
  return { bytes: received.subarray(start, needed), end: received.length < needed ? null : needed, needed }
}

/** The body of a chunked message as far as it came, an unfinished chunk included. */
function dechunked(received: Buffer, start: number): Body {
  const pieces: Buffer[] = []
  for (let at = start; ; ) {
    const line_end = received.indexOf("\r\n", at)
    if (line_end < 0) return { bytes: Buffer.concat(pieces), end: null, needed: received.length + 1 }
    const size = Number.parseInt(received.toString("latin1", at, line_end), 16)
    const data = line_end + 2
    const needed = data + size + 2
    pieces.push(received.subarray(data, data + size))
    if (received.length < needed) return { bytes: Buffer.concat(pieces), end: null, needed }
    if (size === 0) return { bytes: Buffer.concat(pieces), end: needed, needed }
    at = needed
  }
}
