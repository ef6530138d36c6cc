import { connect } from "node:net"
import { CHAT } from "../support/gateway.ts"

/** An answer as far as it came, read from the bytes of its socket. */
export interface Answer {
  readonly status: number
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>
  /** Without framing, whatever the framing was. */
  readonly body: string
  readonly bytes: Buffer
  /** Whether the framing's own end came: the last chunk, or all of the declared length. */
  readonly whole: boolean
}

/** A client made of one raw socket, which sees when the head is complete, every byte of the body, and how it ended. */
export interface Client {
  /** `performance.now()` when the request was handed over. */
  readonly sent_ms: number
  /** Resolves when the head is complete; its body is what had come with it. */
  readonly head: Promise<Answer>
  /** Resolves when the answer is whole or its connection is over. */
  readonly ended: Promise<Answer>
  /** Resolves with the answer so far as soon as its body holds `text`; rejects when it ends without. */
  received(text: string): Promise<Answer>
  /** Reads no more: the gateway's writes soon find the way blocked. */
  stopReading(): void
  /** Cuts the connection with a RST, as a client does that is killed. */
  leave(): void
}

/** A chat request as a client writes it, with what most tests leave alone. */
export function chatBody(fields: object = {}): object {
  return { model: CHAT, messages: [{ role: "user", content: "hello" }], ...fields }
}

export interface Sending {
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends one chat request on a connection of its own; a string is sent as it is. */
export function send(url: string, key: string, body: object | string, sending: Sending = {}): Client {
  const { host, hostname, port } = new URL(url)
  const text = typeof body === "string" ? body : JSON.stringify(body)
  const headers = {
    host,
    authorization: `Bearer ${key}`,
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(text)),
    ...sending.headers,
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = Promise.withResolvers<Answer>()
  const ended = Promise.withResolvers<Answer>()
  const waiting: { readonly text: string; readonly wait: PromiseWithResolvers<Answer> }[] = []
  const pieces: Buffer[] = []
  let answer: Answer | null = null

  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  socket.write(`POST ${sending.path ?? "/v1/chat/completions"} HTTP/1.1\r\n${lines.join("")}\r\n${text}`)
  socket.on("data", (piece) => {
    pieces.push(piece)
    answer = parseAnswer(Buffer.concat(pieces))
    if (answer === null) return
    head.resolve(answer)
    for (const { text, wait } of waiting) if (answer.body.includes(text)) wait.resolve(answer)
    if (answer.whole) socket.end()
    if (answer.whole) over()
  })
  socket.on("error", () => {})
  socket.on("close", over)

  function over(): void {
    const fault = new Error(`the connection ended with ${JSON.stringify(Buffer.concat(pieces).toString())}`)
    for (const { wait } of waiting) wait.reject(fault)
    if (answer !== null) {
      ended.resolve(answer)
      return
    }
    head.reject(fault)
    ended.reject(fault)
  }
  for (const { promise } of [head, ended]) promise.catch(() => {})

  return {
    sent_ms: performance.now(),
    head: head.promise,
    ended: ended.promise,
    received(text) {
      if (answer?.body.includes(text)) return Promise.resolve(answer)
      const wait = Promise.withResolvers<Answer>()
      waiting.push({ text, wait })
      return wait.promise
    },
    stopReading: () => void socket.pause(),
    leave: () => void socket.resetAndDestroy(),
  }
}

/** What `received` says of an answer; null while its head is not complete. */
function parseAnswer(received: Buffer): Answer | null {
  const head_end = received.indexOf("\r\n\r\n")
  if (head_end < 0) return null
  const [start = "", ...lines] = received.toString("latin1", 0, head_end).split("\r\n")
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(":")
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const rest = received.subarray(head_end + 4)
  const { bytes, whole } =
    headers["transfer-encoding"] === "chunked"
      ? dechunked(rest)
      : { bytes: rest, whole: rest.length >= Number(headers["content-length"] ?? Number.POSITIVE_INFINITY) }
  return { status: Number(start.split(" ")[1]), headers, bytes, body: bytes.toString(), whole }
}

/** The body of a chunked answer as far as it came, an unfinished chunk included. */
function dechunked(rest: Buffer): { bytes: Buffer; whole: boolean } {
  const pieces: Buffer[] = []
  for (let at = 0; ; ) {
    const line_end = rest.indexOf("\r\n", at)
    if (line_end < 0) return { bytes: Buffer.concat(pieces), whole: false }
    const size = Number.parseInt(rest.toString("latin1", at, line_end), 16)
    if (size === 0) return { bytes: Buffer.concat(pieces), whole: rest.indexOf("\r\n", line_end + 2) >= 0 }
    pieces.push(rest.subarray(line_end + 2, line_end + 2 + size))
    at = line_end + 2 + size + 2
  }
}
