import type { Socket } from "bun"
import { AnswerParser, type AnswerSink, NotHttp } from "../src/upstream/http/answer-parser.ts"
import type { AnswerHead } from "../src/upstream/http/transport.ts"
import { EventCounter } from "./event-counter.ts"
import type { StreamEvents } from "./job.ts"
import type { Outcome } from "./tally.ts"

/** Where every target listens. */
export const HOST = "127.0.0.1"

/** What is sent for each call, as bytes: request line, headers and body. */
export interface Request {
  readonly bytes: Buffer
  /** Null when the answer is no stream. */
  readonly stream: StreamEvents | null
}

/** Who is told what happens on a connection: callbacks, because a promise for each call would cost more than its bytes. */
export interface ClientListener {
  /** Events came: the first of them `gap_ms` after the one before, the others with it. */
  onEvents(count: number, gap_ms: number | null, now_ms: number): void
  /** The call has ended; `client` is free for the next one. */
  onEnd(client: Client, outcome: Outcome): void
}

/** One keep-alive connection, one call at a time. It is opened by the first call, and again when it was closed. */
export class Client implements AnswerSink {
  readonly #port: number
  readonly #listener: ClientListener
  #socket: Socket<undefined> | null = null
  #parser = new AnswerParser(this)
  #call: Call | null = null
  #unsent: Buffer | null = null

  constructor(port: number, listener: ClientListener) {
    this.#port = port
    this.#listener = listener
  }

  /** Makes a call; the listener is told its end, whatever it is. */
  call(request: Request, start_ms: number): void {
    this.#call = new Call(request, start_ms)
    if (this.#socket !== null) this.#send(this.#socket, request.bytes)
    else void this.#connect(request)
  }

  close(): void {
    const socket = this.#socket
    // Cleared first: the end of this socket must not fail a call.
    this.#socket = null
    socket?.terminate()
  }

  head({ status }: AnswerHead): void {
    if (this.#call !== null) this.#call.status = status
  }

  body(bytes: Uint8Array): void {
    const call = this.#call
    if (call === null) return
    const now_ms = performance.now()
    const { stream } = call.request
    if (stream === null) {
      call.first_ms ??= now_ms
      return
    }
    const events = call.counter.feed(bytes)
    if (events === 0) return
    call.events += events
    if (call.events >= stream.first_output) call.first_ms ??= now_ms
    this.#listener.onEvents(events, call.pass(now_ms), now_ms)
  }

  end(reusable: boolean): void {
    const call = this.#call
    if (!reusable) this.close()
    if (call === null) return
    if (call.status !== 200) this.#finish(`status ${call.status}`)
    else if (call.events < (call.request.stream?.events ?? 0)) this.#finish("stream without an end")
    else this.#finish(null)
  }

  async #connect(request: Request): Promise<void> {
    this.#parser = new AnswerParser(this)
    this.#unsent = null
    try {
      this.#socket = await Bun.connect({
        hostname: HOST,
        port: this.#port,
        socket: {
          data: (socket, bytes) => {
            if (socket === this.#socket) this.#read(bytes)
          },
          drain: (socket) => {
            if (this.#unsent !== null) this.#send(socket, this.#unsent)
          },
          close: (socket) => this.#lost(socket),
          error: (socket) => this.#lost(socket),
        },
      })
    } catch {
      this.#finish("no connection")
      return
    }
    this.#send(this.#socket, request.bytes)
  }

  #read(bytes: Uint8Array): void {
    try {
      this.#parser.feed(bytes)
    } catch (error) {
      if (!(error instanceof NotHttp)) throw error
      this.close()
      this.#finish(error.message)
    }
  }

  #send(socket: Socket<undefined>, bytes: Buffer): void {
    this.#parser.expect()
    const sent = socket.write(bytes)
    if (sent < 0) {
      this.#lost(socket)
      return
    }
    this.#unsent = sent < bytes.length ? bytes.subarray(sent) : null
  }

  #lost(socket: Socket<undefined>): void {
    if (socket !== this.#socket) return
    this.#socket = null
    if (!this.#parser.close()) this.#finish("connection closed")
  }

  #finish(failure: string | null): void {
    const call = this.#call
    if (call === null) return
    this.#call = null
    call.failure = failure
    call.end_ms = performance.now()
    this.#listener.onEnd(this, call)
  }
}

class Call implements Outcome {
  readonly request: Request
  readonly counter = new EventCounter()
  readonly start_ms: number
  end_ms = 0
  first_ms: number | null = null
  events = 0
  failure: string | null = null
  status = 0
  #last_event_ms: number | null = null

  constructor(request: Request, start_ms: number) {
    this.request = request
    this.start_ms = start_ms
  }

  /** Events came now: how long after those before, or null for the first. */
  pass(now_ms: number): number | null {
    const gap_ms = this.#last_event_ms === null ? null : now_ms - this.#last_event_ms
    this.#last_event_ms = now_ms
    return gap_ms
  }
}
