import type { Socket } from "bun"
import { AnswerParser, type AnswerSink, NotHttp } from "./answer-parser.ts"
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

/** One connection to a provider: one exchange at a time, and as many after each other as the provider allows. */
export class Connection implements Line {
  readonly #socket: Socket<Connection>
  readonly #parser: AnswerParser
  /** Gets the connection back when it is idle, and is told when it is closed. */
  readonly #pool: ConnectionPool
  #exchange: Exchange | null = null
  /** The part of the request that the socket has not taken yet. */
  #unsent: Uint8Array | null = null
  #closed = false

  constructor(socket: Socket<Connection>, pool: ConnectionPool) {
    this.#socket = socket
    this.#pool = pool
    this.#parser = new AnswerParser(this.#sink)
  }

  /** Opens a connection. Rejects with an error whose `code` says why: refused, no such name, a certificate that is not trusted. */
  static open({ hostname, port, tls }: Origin, pool: ConnectionPool): Promise<Connection> {
    const opened = Promise.withResolvers<Connection>()
    const ready = (socket: Socket<Connection>): void => {
      socket.unref()
      socket.setNoDelay(true)
      socket.data = new Connection(socket, pool)
      opened.resolve(socket.data)
    }
    const socket = {
      ...events,
      open: tls ? () => {} : ready,
      handshake: (socket: Socket<Connection>, success: boolean, error: Error | null) => {
        if (success && !error) return ready(socket)
        opened.reject(error ?? new ConnectionClosed("the TLS handshake failed"))
        socket.terminate()
      },
      close: (socket: Socket<Connection>, error?: Error) => {
        opened.reject(error ?? new ConnectionClosed("the connection was closed before it was open"))
        socket.data?.onClose()
      },
      connectError: (_socket: Socket<Connection>, error: Error) => opened.reject(error),
    }
    const secured = tls ? { tls: { rejectUnauthorized: true, serverName: hostname } } : {}
    Bun.connect<Connection>({ hostname, port, socket, ...secured }).catch(opened.reject)
    return opened.promise
  }

  /** Sends a request. `text` is its head and its body, `length` how many bytes that is. */
  send(exchange: Exchange, text: string | Uint8Array, length: number): void {
    if (!exchange.begin(this)) {
      this.#release(true)
      return
    }
    this.#exchange = exchange
    this.#parser.expect()
    const written = this.#socket.write(text)
    if (written === length) return
    if (written < 0) {
      exchange.fail(new ConnectionClosed("the connection was closed"))
      return
    }
    this.#unsent = (typeof text === "string" ? Buffer.from(text) : text).subarray(written)
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

  readonly #sink: AnswerSink = {
    head: (head) => this.#exchange?.answered(head),
    body: (bytes) => this.#exchange?.push(bytes),
    end: (reusable) => {
      const exchange = this.#exchange
      this.#exchange = null
      this.#release(reusable && this.#unsent === null)
      exchange?.end()
    },
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

/** The idle connections. */
export interface ConnectionPool {
  free(connection: Connection): void
  forget(connection: Connection): void
}

const events = {
  binaryType: "uint8array" as const,
  data: (socket: Socket<Connection>, bytes: Uint8Array) => socket.data.onData(bytes),
  drain: (socket: Socket<Connection>) => socket.data?.onDrain(),
  end: (socket: Socket<Connection>) => socket.data?.onEnd(),
  timeout: (socket: Socket<Connection>) => socket.data?.onEnd(),
  error: (socket: Socket<Connection>, error: Error) => socket.data?.onClose(error),
}
