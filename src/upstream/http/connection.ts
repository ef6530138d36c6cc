import type { Socket } from "bun"
import { AnswerParser, type AnswerSink, NotHttp } from "./answer-parser.ts"
import type { Exchange, ExchangeConnection } from "./exchange.ts"
import { ConnectionClosed, type SocketOwner } from "./socket.ts"
import type { AnswerHead } from "./transport.ts"

/** A connection to a provider, with one exchange at a time. */
export class Connection implements ExchangeConnection, AnswerSink, SocketOwner {
  readonly #socket: Socket<SocketOwner>
  readonly #parser = new AnswerParser(this)
  /** Gets the connection back when it is idle, and is told when it is closed. */
  readonly #pool: ConnectionPool
  #exchange: Exchange | null = null
  /** The part of the request that the socket has not taken yet. */
  #unsent: Uint8Array | null = null
  /** Seconds for which the server keeps it idle; null if unknown. */
  keep_s: number | null = null
  closed = false
  /** The end of its last answer, by the clock of `performance.now`. */
  freed_ms = Number.NEGATIVE_INFINITY
  /** Called when it closes while a request waits for it. */
  onLost: (() => void) | null = null

  constructor(socket: Socket<SocketOwner>, pool: ConnectionPool) {
    this.#socket = socket
    this.#pool = pool
    socket.unref()
    socket.setNoDelay(true)
    socket.data = this
  }

  /** Sends a request: its head and its body, in parts of together `bytes` bytes. */
  send(exchange: Exchange, { parts, bytes }: HttpMessage): void {
    this.onLost = null
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
      if (written === (parts.length === 1 ? bytes : Buffer.byteLength(part))) continue
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
    if (this.closed) return
    this.closed = true
    this.#exchange = null
    this.#socket.terminate()
  }

  onStart(): void {}
  onOpen(): void {}

  onData(bytes: Uint8Array): void {
    try {
      this.#parser.feed(bytes)
    } catch (error) {
      if (!(error instanceof NotHttp)) throw error
      this.#exchange?.fail(error)
      this.#close()
    }
  }

  onDrain(): void {
    const unsent = this.#unsent
    if (unsent === null) return
    const written = Math.max(0, this.#socket.write(unsent))
    this.#unsent = written < unsent.byteLength ? unsent.subarray(written) : null
  }

  onEnd(): void {
    if (this.#exchange !== null && !this.#parser.close())
      this.#exchange?.fail(new ConnectionClosed("the connection was closed before the answer ended"))
    this.#close()
  }

  onClose(error: Error = new ConnectionClosed("the connection was reset")): void {
    this.#exchange?.fail(error)
    this.#close()
  }

  head(head: AnswerHead): void {
    this.#exchange?.receiveHead(head)
  }

  body(bytes: Uint8Array): void {
    this.#exchange?.push(bytes)
  }

  end(reusable: boolean, keep_s: number | null): void {
    this.keep_s = keep_s
    const exchange = this.#exchange
    this.#exchange = null
    this.#release(reusable && this.#unsent === null)
    exchange?.end()
  }

  #release(reusable: boolean): void {
    if (!reusable) this.#close()
    else if (!this.closed) this.#pool.free(this)
  }

  #close(): void {
    const is_theirs = !this.closed
    this.destroy()
    this.#pool.remove(this, is_theirs)
    this.onLost?.()
  }
}

function bytesOf(part: string | Uint8Array): Uint8Array {
  return typeof part === "string" ? Buffer.from(part) : part
}

export interface HttpMessage {
  readonly parts: readonly (string | Uint8Array)[]
  readonly bytes: number
}

export interface ConnectionPool {
  free(connection: Connection): void
  /** Called when it is closed; `is_theirs`: by the server. */
  remove(connection: Connection, is_theirs: boolean): void
}
