import type { Socket } from "bun"
import { type AnswerHead, AnswerParser, type AnswerSink, NotHttp } from "./answer-parser.ts"
import type { Exchange, Line } from "./exchange.ts"

/** Where requests go. Requests to the same origin may share a connection. */
export interface Origin {
  readonly hostname: string
  readonly port: number
  readonly tls: boolean
}

/** How long a connection without a request is kept. Servers close theirs after 60 s and more, a few after 5 s. */
const IDLE_S = 30

/** The connection was closed in the middle of an answer. */
class ConnectionClosed extends Error {
  override readonly name = "ConnectionClosed"
  readonly code = "ECONNRESET"
}

/**
 * Gets the events of a socket: first an `Opening`, then its `Connection`. Handlers are shared by all sockets: with
 * handlers of its own and an object for the parser, an open stream took 2.5 KiB more.
 */
interface SocketOwner {
  onData(bytes: Uint8Array): void
  onDrain(): void
  onEnd(): void
  onClose(error?: Error): void
}

/** A connection that is not open yet. */
class Opening implements SocketOwner {
  readonly #pool: ConnectionPool
  readonly #opened = Promise.withResolvers<Connection>()

  constructor({ hostname, port, tls }: Origin, pool: ConnectionPool) {
    this.#pool = pool
    const secured = tls ? { tls: { rejectUnauthorized: true, serverName: hostname } } : {}
    const socket = tls ? secured_events : events
    Bun.connect<SocketOwner>({ hostname, port, socket, data: this, ...secured }).catch(this.#opened.reject)
  }

  get connection(): Promise<Connection> {
    return this.#opened.promise
  }

  onOpen(socket: Socket<SocketOwner>): void {
    socket.unref()
    socket.setNoDelay(true)
    const connection = new Connection(socket, this.#pool)
    socket.data = connection
    this.#opened.resolve(connection)
  }

  onClose(error: Error = new ConnectionClosed("the connection was closed before it was open")): void {
    this.#opened.reject(error)
  }

  onData(): void {}
  onDrain(): void {}
  onEnd(): void {}
}

/** One connection to a provider: one exchange at a time, and as many after each other as the provider allows. */
export class Connection implements Line, AnswerSink, SocketOwner {
  readonly #socket: Socket<SocketOwner>
  readonly #parser = new AnswerParser(this)
  /** Gets the connection back when it is idle, and is told when it is closed. */
  readonly #pool: ConnectionPool
  #exchange: Exchange | null = null
  /** The part of the request that the socket has not taken yet. */
  #unsent: Uint8Array | null = null
  #closed = false

  constructor(socket: Socket<SocketOwner>, pool: ConnectionPool) {
    this.#socket = socket
    this.#pool = pool
  }

  /** Opens a connection. Rejects with an error whose `code` says why: refused, no such name, a certificate that is not trusted. */
  static open(origin: Origin, pool: ConnectionPool): Promise<Connection> {
    return new Opening(origin, pool).connection
  }

  /** Sends a request: its head and its body, in parts. */
  send(exchange: Exchange, parts: readonly (string | Uint8Array)[]): void {
    if (!exchange.begin(this)) {
      this.#release(true)
      return
    }
    this.#exchange = exchange
    this.#parser.expect()
    for (let at = 0; at < parts.length; at++) {
      const part = parts[at] ?? ""
      const written = this.#socket.write(part)
      if (written < 0) {
        exchange.fail(new ConnectionClosed("the connection was closed"))
        return
      }
      if (written === Buffer.byteLength(part)) continue
      this.#unsent = Buffer.concat(parts.slice(at).map(bytesOf)).subarray(written)
      return
    }
  }

  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  destroy(): void {
    if (this.#closed) return
    this.#closed = true
    this.#exchange = null
    this.#socket.terminate()
  }

  /** Starts the idle timeout between two exchanges, or stops it. */
  setIdle(idle: boolean): void {
    this.#socket.timeout(idle ? IDLE_S : 0)
  }

  onData(bytes: Uint8Array): void {
    try {
      this.#parser.feed(bytes)
    } catch (error) {
      if (!(error instanceof NotHttp)) throw error
      this.#exchange?.fail(error)
      this.#lose()
    }
  }

  onDrain(): void {
    const unsent = this.#unsent
    if (unsent === null) return
    const written = Math.max(0, this.#socket.write(unsent))
    this.#unsent = written < unsent.byteLength ? unsent.subarray(written) : null
  }

  /** The provider sends no more. */
  onEnd(): void {
    if (this.#exchange !== null && !this.#parser.close())
      this.#exchange?.fail(new ConnectionClosed("the connection was closed before the answer ended"))
    this.#lose()
  }

  onClose(error: Error = new ConnectionClosed("the connection was reset")): void {
    this.#exchange?.fail(error)
    this.#lose()
  }

  head(head: AnswerHead): void {
    this.#exchange?.answered(head)
  }

  body(bytes: Uint8Array): void {
    this.#exchange?.push(bytes)
  }

  end(reusable: boolean): void {
    const exchange = this.#exchange
    this.#exchange = null
    this.#release(reusable && this.#unsent === null)
    exchange?.end()
  }

  #release(reusable: boolean): void {
    if (!reusable) this.#lose()
    else if (!this.#closed) this.#pool.free(this)
  }

  #lose(): void {
    this.destroy()
    this.#pool.forget(this)
  }
}

function bytesOf(part: string | Uint8Array): Uint8Array {
  return typeof part === "string" ? Buffer.from(part) : part
}

/** The idle connections. */
export interface ConnectionPool {
  free(connection: Connection): void
  forget(connection: Connection): void
}

const common_events = {
  binaryType: "uint8array" as const,
  data: ({ data }: Socket<SocketOwner>, bytes: Uint8Array) => data.onData(bytes),
  drain: ({ data }: Socket<SocketOwner>) => data.onDrain(),
  end: ({ data }: Socket<SocketOwner>) => data.onEnd(),
  timeout: ({ data }: Socket<SocketOwner>) => data.onEnd(),
  error: ({ data }: Socket<SocketOwner>, error: Error) => data.onClose(error),
  close: ({ data }: Socket<SocketOwner>, error?: Error) => data.onClose(error),
}

const events = { ...common_events, open: opened }

const secured_events = {
  ...common_events,
  open: () => {},
  handshake: (socket: Socket<SocketOwner>, success: boolean, error: Error | null) => {
    if (success && !error) return opened(socket)
    socket.data.onClose(error ?? new ConnectionClosed("the TLS handshake failed"))
    socket.terminate()
  },
}

function opened(socket: Socket<SocketOwner>): void {
  if (socket.data instanceof Opening) socket.data.onOpen(socket)
}
