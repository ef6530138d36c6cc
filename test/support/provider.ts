import { createServer, type Server, type Socket } from "node:net"
import { parseJson } from "../../src/wire/usage.ts"
import { parseMessage } from "./answer.ts"

/**
 * A provider made of raw sockets: a test says byte by byte what it answers, and it keeps its own record of what it was asked and
 * what it generated. It takes nothing from the code under test, so it can be the oracle of the whole suite.
 */
export interface Provider {
  /** `http://127.0.0.1:PORT`, without a trailing slash. */
  readonly url: string
  readonly port: number
  /** Every request so far, in the order of arrival. */
  readonly exchanges: readonly Exchange[]
  readonly requests: readonly RecordedRequest[]
  /** Connections accepted so far, and how many of them are still open. */
  readonly connections: { readonly opened: number; readonly open: number }
  /** What answers every request that no `replyOnce` is queued for. */
  reply(script: Script): void
  /** Answers the next request only; several queue up. */
  replyOnce(...scripts: Script[]): void
  /** The exchange of the n-th request (from 1), as soon as that request has arrived. */
  exchange(number: number): Promise<Exchange>
  /** Closes everything. Rejects when a script threw or a request met no script, so no test misses it. */
  stop(): Promise<void>
}

export type Script = (exchange: Exchange) => Promise<void> | void

/** `script`, which waits until it is released. */
export function heldBack(script: Script) {
  const gate = Promise.withResolvers<void>()
  const held: Script = async (exchange) => {
    await gate.promise
    await script(exchange)
  }
  return { held, release: gate.resolve }
}

export interface RecordedRequest {
  readonly method: string
  /** The request target as it was sent, the query included. */
  readonly path: string
  /** Names and values exactly as sent, in order. */
  readonly raw_headers: readonly (readonly [name: string, value: string])[]
  /** By lower-case name; repeated ones joined by `, `. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** The body parsed, or undefined when it is no JSON. */
  readonly json: unknown
  /** `performance.now()` when the request was complete. */
  readonly arrived_ms: number
  /** Number of the connection it came on, from 1: equal numbers mean a reused connection. */
  readonly connection: number
}

export type Headers = Record<string, string> | readonly (readonly [name: string, value: string])[]

/** How a body says where it ends: chunked, a declared length (right or wrong), or with the connection. */
export type Framing = "chunked" | "close" | { readonly length: number }

/** One request and its answer. Every write resolves to whether the connection still stood when the bytes were handed over. */
export interface Exchange {
  readonly request: RecordedRequest
  /** Status line and headers; the framing's header is added. Any number will do as a status. */
  head(status: number | string, headers?: Headers, framing?: Framing): Promise<boolean>
  /** Headers and all of a body in one write, with the length of the body; then only `end` is left. */
  whole(status: number, headers: Headers, body: string): Promise<boolean>
  /** A piece of the body, framed as `head` said. */
  chunk(data: string | Uint8Array): Promise<boolean>
  /** The right end of the body: the last chunk, or the close. The connection is then free for the next request. */
  end(): Promise<boolean>
  /** Any bytes at all, unframed, and not counted as generated. */
  raw(data: string | Uint8Array): Promise<boolean>
  /** Cuts the connection with a RST, at once: what the gateway has not read yet is lost, as in real life (see `READ_MS`). */
  reset(): void
  /** Closes the connection with a FIN, whatever the framing still promised. Bun's fetch drops what was not read yet here too. */
  close(): void
  /** Resolves when `end` has been called: the provider is done with this answer. */
  readonly ended: Promise<void>
  /** `performance.now()` when the connection was over. */
  readonly closed: Promise<number>
  /** Who ended the connection, or null while it stands. */
  readonly closed_by: "gateway" | "provider" | null
  /** The body generated so far, without framing: what a real provider would bill for. */
  readonly generated: string
  readonly generated_bytes: number
}

/** Starts a provider on an ephemeral port of the loopback. */
export async function startProvider(): Promise<Provider> {
  const exchanges: Exchange[] = []
  const waiting = new Map<number, PromiseWithResolvers<Exchange>>()
  const queue: Script[] = []
  const sockets = new Set<Socket>()
  const faults: unknown[] = []
  let opened = 0
  let fallback: Script = (exchange) => {
    throw new Error(`no script for ${exchange.request.method} ${exchange.request.path}`)
  }

  function run(exchange: Exchange): void {
    exchanges.push(exchange)
    waiting.get(exchanges.length)?.resolve(exchange)
    const script = queue.shift() ?? fallback
    Promise.resolve(exchange)
      .then(script)
      .catch((fault) => {
        faults.push(fault)
        exchange.reset()
      })
  }

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.on("close", () => sockets.delete(socket))
    serve(socket, ++opened, run)
  })
  const port = await listen(server)

  return {
    url: `http://127.0.0.1:${port}`,
    port,
    exchanges,
    get requests() {
      return exchanges.map((exchange) => exchange.request)
    },
    get connections() {
      return { opened, open: sockets.size }
    },
    reply(script) {
      fallback = script
    },
    replyOnce(...scripts) {
      queue.push(...scripts)
    },
    async exchange(number) {
      const arrived = exchanges[number - 1]
      if (arrived !== undefined) return arrived
      const wait = waiting.get(number) ?? Promise.withResolvers<Exchange>()
      waiting.set(number, wait)
      return await wait.promise
    },
    async stop() {
      const stopped = new Promise((resolve) => server.close(resolve))
      for (const socket of sockets) socket.destroy()
      await stopped
      if (faults.length > 0)
        throw new AggregateError(faults, `${faults.length} script(s) of the provider failed`)
    },
  }
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject)
    server.listen(0, "127.0.0.1", resolve)
  })
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("the provider has no port")
  return address.port
}

/** Reads request after request from one connection; the next one is looked at when the answer before it has ended. */
function serve(socket: Socket, connection: number, run: (exchange: Exchange) => void): void {
  let pieces: Buffer[] = []
  let bytes = 0
  let needed_bytes = 1
  let busy = false
  const line: Line = { socket, closed: Promise.withResolvers(), closed_by: null }

  function over(by: "gateway" | "provider"): void {
    if (line.closed_by !== null) return
    line.closed_by = by
    line.closed.resolve(performance.now())
  }
  function next(): void {
    if (busy || line.closed_by !== null || bytes < needed_bytes) return
    const received = Buffer.concat(pieces)
    const parsed = parseRequest(received, connection)
    const rest = typeof parsed === "number" ? received : received.subarray(parsed.consumed)
    pieces = [rest]
    bytes = rest.length
    needed_bytes = typeof parsed === "number" ? parsed : 1
    if (typeof parsed === "number") return
    busy = true
    run(
      openExchange(line, parsed.request, () => {
        busy = false
        next()
      }),
    )
  }

  socket.on("data", (data) => {
    pieces.push(data)
    bytes += data.length
    next()
  })
  socket.on("end", () => {
    over(socket.writableEnded ? "provider" : "gateway")
    socket.destroy()
  })
  socket.on("error", () => over("gateway"))
  socket.on("close", () => over(socket.writableEnded || socket.destroyed ? "provider" : "gateway"))
}

interface Line {
  readonly socket: Socket
  readonly closed: PromiseWithResolvers<number>
  closed_by: "gateway" | "provider" | null
}

function openExchange(line: Line, request: RecordedRequest, done: () => void): Exchange {
  const { socket } = line
  const generated: Uint8Array[] = []
  const ended = Promise.withResolvers<void>()
  let framing: Framing = "chunked"

  async function raw(data: string | Uint8Array): Promise<boolean> {
    if (line.closed_by !== null || socket.destroyed || socket.writableEnded) return false
    if (!socket.write(data)) await Promise.race([drained(socket), line.closed.promise])
    return line.closed_by === null
  }
  function close(): void {
    socket.end()
  }

  function headOf(status: number | string, headers: Headers, how: Framing): string {
    framing = how
    const fields = Array.isArray(headers) ? [...headers] : Object.entries(headers)
    if (how === "chunked") fields.push(["transfer-encoding", "chunked"])
    else if (how === "close") fields.push(["connection", "close"])
    else fields.push(["content-length", String(how.length)])
    const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`)
    return `HTTP/1.1 ${status} Scripted\r\n${lines.join("")}\r\n`
  }

  return {
    request,
    raw,
    close,
    head: (status, headers = {}, how = "chunked") => raw(headOf(status, headers, how)),
    whole(status, headers, body) {
      generated.push(Buffer.from(body))
      return raw(headOf(status, headers, { length: Buffer.byteLength(body) }) + body)
    },
    chunk(data) {
      const bytes = typeof data === "string" ? Buffer.from(data) : data
      generated.push(bytes)
      if (framing !== "chunked") return raw(bytes)
      return raw(Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]))
    },
    async end() {
      const stands = framing === "chunked" ? await raw("0\r\n\r\n") : line.closed_by === null
      if (framing === "close" || request.headers.connection === "close") close()
      else done()
      ended.resolve()
      return stands
    },
    reset() {
      line.closed_by ??= "provider"
      line.closed.resolve(performance.now())
      socket.resetAndDestroy()
    },
    ended: ended.promise,
    closed: line.closed.promise,
    get closed_by() {
      return line.closed_by
    },
    get generated() {
      return Buffer.concat(generated).toString()
    },
    get generated_bytes() {
      return generated.reduce((sum, bytes) => sum + bytes.length, 0)
    },
  }
}

function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once("drain", resolve))
}

/** One request from the start of `received`, or how many bytes there must be before it is worth looking again. */
function parseRequest(received: Buffer, connection: number) {
  const message = parseMessage(received)
  if (message === null) return received.length + 1
  if (message.end === null) return message.needed
  const { start, raw_headers, headers } = message
  const [method = "", path = ""] = start.split(" ")
  const body = message.bytes.toString()
  return {
    consumed: message.end,
    request: {
      method,
      path,
      raw_headers,
      headers,
      body,
      json: parseJson(body),
      arrived_ms: performance.now(),
      connection,
    },
  }
}

/** Answers with one JSON body; a string is sent as it is. */
export function json(status: number, body: unknown, headers: Record<string, string> = {}): Script {
  const text = typeof body === "string" ? body : JSON.stringify(body)
  return async (exchange) => {
    const length = Buffer.byteLength(text)
    await exchange.head(status, { "content-type": "application/json", ...headers }, { length })
    await exchange.chunk(text)
    await exchange.end()
  }
}

export interface SseOptions {
  /** Sent as the usage-only chunk before `[DONE]`. */
  readonly usage?: unknown
  /** Whether `data: [DONE]` is sent; it is unless this says otherwise. */
  readonly done?: boolean
  readonly headers?: Record<string, string>
  /** What follows the last event: the right end of the body, a RST, or a FIN without the last chunk. */
  readonly ending?: "end" | "reset" | "close"
}

/** Answers with an event stream. An object is sent as one `data:` event, a string as it is. */
export function sse(events: readonly unknown[], options: SseOptions = {}): Script {
  return async (exchange) => {
    await exchange.head(200, { "content-type": "text/event-stream", ...options.headers })
    for (const event of events) await exchange.chunk(typeof event === "string" ? event : sseEvent(event))
    if (options.usage !== undefined) await exchange.chunk(sseEvent(usageChunk(options.usage)))
    if (options.done ?? true) await exchange.chunk("data: [DONE]\n\n")
    const { ending = "end" } = options
    if (ending !== "end") await Bun.sleep(READ_MS)
    await exchange[ending]()
  }
}

/**
 * Ample time for the gateway to read what was sent before its connection is cut. Without it Bun's fetch reports the cut and drops the
 * bytes that came before it; no event tells this side that they were read.
 */
export const READ_MS = 50

/** One `data:` event. */
export function sseEvent(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`
}

/** Takes the request and never answers. */
export function silent(): Script {
  return () => {}
}

/** A chat `usage` object. */
export function usage(prompt_tokens: number, completion_tokens: number, cached_tokens = 0) {
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
  }
}

const COMMON = { id: "chatcmpl-9f2c", created: 1_760_000_000, model: "provider-model-2025" }

/** A whole chat completion as a provider sends it; `overrides` replaces top-level fields (undefined leaves one out). */
export function chatCompletion(content: string, overrides: Record<string, unknown> = {}) {
  return {
    ...COMMON,
    object: "chat.completion",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content, refusal: null },
        logprobs: null,
        finish_reason: "stop",
      },
    ],
    usage: usage(9, 12),
    ...overrides,
  }
}

/** A short answer that is billed for 10 tokens of input and 5 of output. */
export const HELLO = json(200, chatCompletion("hello", { usage: usage(10, 5) }))

/** A list of embeddings as a provider sends it, one for each input; `overrides` replaces top-level fields. */
export function embeddingList(inputs: number, overrides: Record<string, unknown> = {}) {
  return {
    object: "list",
    data: Array.from({ length: inputs }, (_, index) => ({
      object: "embedding",
      index,
      embedding: [0.25, -0.5, index],
    })),
    model: "provider-model-2025",
    usage: { prompt_tokens: 9, total_tokens: 9 },
    ...overrides,
  }
}

/** One chunk of a chat stream: what `delta` holds, and why the choice finished if it did. */
export function chatChunk(
  delta: Record<string, unknown>,
  finish_reason: string | null = null,
  overrides: Record<string, unknown> = {},
) {
  return {
    ...COMMON,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, logprobs: null, finish_reason }],
    ...overrides,
  }
}

export function usageChunk(usage: unknown) {
  return { ...COMMON, object: "chat.completion.chunk", choices: [], usage }
}

/** The events of an ordinary stream: the role, one chunk per word, the finish reason. */
export function chatWords(...words: readonly string[]) {
  return [
    chatChunk({ role: "assistant", content: "" }),
    ...words.map((content) => chatChunk({ content })),
    chatChunk({}, "stop"),
  ]
}
