import { joined } from "../../wire/buffers.ts"
import type { AnswerHead } from "./transport.ts"

export interface ExchangeConnection {
  pause(): void
  resume(): void
  destroy(): void
}

/** Bytes of a body that may be queued before the sender is slowed down. */
const QUEUE_BYTES = 65_536

interface ReadWaiter<Value> {
  resolve(value: Value): void
  reject(error: Error): void
}

export class Cancelled extends Error {
  override readonly name = "Cancelled"
  readonly code = "CANCELLED"
}

/** A request and its answer: await the head, then read the body, one reader at a time. An early end rejects. */
export class Exchange {
  readonly #head = Promise.withResolvers<AnswerHead>()
  #connection: ExchangeConnection | null = null
  #reader: ReadWaiter<Uint8Array | null> | null = null
  #collector: ReadWaiter<void> | null = null
  #queue: Uint8Array[] = []
  #queued_bytes = 0
  #paused = false
  #ended = false
  #error: Error | null = null

  get head(): Promise<AnswerHead> {
    return this.#head.promise
  }

  /** True if the body has ended or broken off. */
  get over(): boolean {
    return this.#ended || this.#error !== null
  }

  get arrived(): boolean {
    return this.#ended
  }

  /** The next part, without waiting if it has come; null at the end. Rejects if the body does not arrive whole. */
  read(): Uint8Array | null | Promise<Uint8Array | null> {
    const next = this.#queue.shift()
    if (next !== undefined) {
      this.#queued_bytes -= next.byteLength
      if (this.#paused && this.#queued_bytes === 0) this.#resume()
      return next
    }
    if (this.#error !== null) return Promise.reject(this.#error)
    if (this.#ended) return null
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject }
    })
  }

  /** The whole body, without waiting if it has come already. Rejects when it does not arrive whole. */
  bytes(): Uint8Array | Promise<Uint8Array> {
    if (this.#paused) this.#resume()
    if (this.#error !== null) return Promise.reject(this.#error)
    if (this.#ended) return this.#whole()
    // Joined only afterwards, because the parser still reads the last part.
    return new Promise<void>((resolve, reject) => {
      this.#collector = { resolve, reject }
    }).then(() => this.#whole())
  }

  /** Closes the connection, unless the body has ended. Idempotent. */
  cancel(): void {
    if (!this.over) this.fail(new Cancelled("the request was cancelled"))
  }

  /** Gives the exchange its connection. Returns false if the exchange was cancelled. */
  begin(connection: ExchangeConnection): boolean {
    if (this.over) return false
    this.#connection = connection
    return true
  }

  receiveHead(head: AnswerHead): void {
    this.#head.resolve(head)
  }

  push(bytes: Uint8Array): void {
    const reader = this.#reader
    if (reader !== null) {
      this.#reader = null
      reader.resolve(bytes)
      return
    }
    this.#queue.push(bytes)
    this.#queued_bytes += bytes.byteLength
    if (this.#queued_bytes <= QUEUE_BYTES || this.#paused || this.#collector !== null) return
    this.#paused = true
    this.#connection?.pause()
  }

  /** Ends the exchange after its body. It gives up its connection. */
  end(): void {
    this.#ended = true
    if (this.#paused) this.#resume()
    this.#connection = null
    this.#reader?.resolve(null)
    this.#collector?.resolve()
    this.#reader = this.#collector = null
  }

  /** Ends the exchange before the end of its body, and closes its connection. */
  fail(error: Error): void {
    if (this.over) return
    this.#error = error
    const connection = this.#connection
    this.#connection = null
    this.#head.reject(error)
    this.#reader?.reject(error)
    this.#collector?.reject(error)
    this.#reader = this.#collector = null
    connection?.destroy()
  }

  #resume(): void {
    this.#paused = false
    this.#connection?.resume()
  }

  #whole(): Uint8Array {
    const parts = this.#queue
    this.#queue = []
    return joined(parts)
  }
}
