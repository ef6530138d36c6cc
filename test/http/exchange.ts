import { connect } from "node:net"

/** An answer, read from the bytes of its socket. */
export interface Answer {
  readonly status: number
  /** By lower-case name; repeated ones joined by `, `. */
  readonly headers: Readonly<Record<string, string>>
  /** Without framing, whatever the framing was. */
  readonly body: string
  /** The body parsed, or undefined when it is no JSON. */
  readonly json: unknown
}

/** A connection on which anything at all can be sent. */
export interface Line {
  send(data: string | Uint8Array): void
  /** The next answer, once its framing has come to its own end; rejects when the connection is over before. */
  answer(method?: string): Promise<Answer>
  /** Says that nothing more will be sent, and still reads. */
  finish(): void
  hangUp(): void
  /** Resolves with what was received and not yet taken as an answer, when the connection is over. */
  readonly over: Promise<string>
}

/** Opens a connection to a gateway; what is sent before it stands is sent when it does. */
export function dial({ url }: { readonly url: string }): Line {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true, noDelay: true })
  const over = Promise.withResolvers<string>()
  let received = Buffer.alloc(0)
  let ended = false
  let look = () => {}
  const end = () => {
    ended = true
    look()
    over.resolve(received.toString("latin1"))
  }
  socket.on("data", (bytes) => {
    received = Buffer.concat([received, bytes])
    look()
  })
  socket.on("end", () => {
    socket.end()
    end()
  })
  socket.on("error", () => {})
  socket.on("close", end)

  return {
    send: (data) => void socket.write(data),
    answer(method = "GET") {
      return new Promise((resolve, reject) => {
        look = () => {
          const parsed = parseAnswer(received, method)
          if (parsed === null && !ended) return
          look = () => {}
          if (parsed === null) {
            return reject(new Error(`the connection ended with ${JSON.stringify(received.toString())}`))
          }
          received = received.subarray(parsed.consumed)
          resolve(parsed.answer)
        }
        look()
      })
    },
    finish: () => void socket.end(),
    hangUp: () => void socket.destroy(),
    over: over.promise,
  }
}

/** What a test says of a request; the rest is as any client writes it. */
export interface Draft {
  readonly method?: string
  /** The request target, as it stands in the first line. */
  readonly target?: string
  /** Header lines as they are written: `accept: text/plain`. */
  readonly headers?: readonly string[]
  /** An object is sent as JSON; its media type is only said where `headers` says it. */
  readonly body?: object | string | Uint8Array
}

/** The bytes of a request: with a Host, and with a length where there is a body. */
export function requestBytes({ method = "GET", target = "/", headers = [], body }: Draft): Buffer {
  const bytes = bodyBytes(body)
  const length = body === undefined ? [] : [`content-length: ${bytes.byteLength}`]
  const head = [`${method} ${target} HTTP/1.1`, "host: gateway.test", ...length, ...headers, "", ""]
  return Buffer.concat([Buffer.from(head.join("\r\n"), "latin1"), bytes])
}

function bodyBytes(body: Draft["body"]): Uint8Array {
  if (body instanceof Uint8Array) return body
  if (body === undefined) return new Uint8Array()
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body))
}

/** What `received` begins with, if that is a whole answer to `method`. */
function parseAnswer(received: Buffer, method: string): { answer: Answer; consumed: number } | null {
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
  const framed =
    method === "HEAD" || status === 204 ? { body: Buffer.alloc(0), end: 0 } : bodyOf(rest, headers)
  if (framed === null) return null
  const body = framed.body.toString()
  return { answer: { status, headers, body, json: parseJson(body) }, consumed: head_end + 4 + framed.end }
}

function bodyOf(rest: Buffer, headers: Record<string, string>): { body: Buffer; end: number } | null {
  if (headers["transfer-encoding"] === "chunked") return dechunked(rest)
  const end = Number(headers["content-length"] ?? 0)
  return rest.length < end ? null : { body: rest.subarray(0, end), end }
}

function dechunked(rest: Buffer): { body: Buffer; end: number } | null {
  const pieces: Buffer[] = []
  for (let at = 0; ; ) {
    const line_end = rest.indexOf("\r\n", at)
    if (line_end < 0) return null
    const size = Number.parseInt(rest.toString("latin1", at, line_end), 16)
    const end = line_end + 2 + size + 2
    if (rest.length < end) return null
    if (size === 0) return { body: Buffer.concat(pieces), end }
    pieces.push(rest.subarray(line_end + 2, line_end + 2 + size))
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
