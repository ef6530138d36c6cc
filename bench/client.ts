import type { Socket } from "bun"
import { NotHttp } from "../src/upstream/http/answer-head.ts"
import { AnswerParser, type AnswerSink } from "../src/upstream/http/answer-parser.ts"
import type { AnswerHead } from "../src/upstream/http/transport.ts"
import { EventScanner } from "./event-scanner.ts"
import type { Origin } from "./job.ts"

/** What is sent for each call, as bytes: request line, headers and body. */
export interface Request {
  readonly bytes: Buffer
  readonly stream: boolean
  /** Leaves the stream after so many events; null stays to the end. */
  readonly leave_after: number | null
}

/** What became of one call; times as `performance.now()` has them. */
export interface Outcome {
  readonly start_ms: number
  readonly end_ms: number
  /** The first event with output; of a JSON answer its first byte. Null when nothing came. */
  readonly first_ms: number | null
  readonly events: number
  /** What went wrong, in a few words; null when nothing did, a stream that was left as asked included. */
  readonly failure: string | null
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
  readonly #origin: Origin
  readonly #listener: ClientListener
  readonly #scanner = new EventScanner()
  #socket: Socket<undefined> | null = null
  #parser = new AnswerParser(this)
  #call: Call | null = null
  #unsent: Buffer | null = null

  constructor(origin: Origin, listener: ClientListener) {
    this.#origin = origin
    this.#listener = listener
  }

  /** Makes a call; the listener is told its end, whatever it is. */
  call(request: Request, start_ms: number): void {
    if (request.stream) this.#scanner.reset()
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
    if (!call.request.stream) {
      call.first_ms ??= now_ms
      return
    }
    const events = this.#scanner.feed(bytes)
    if (this.#scanner.content_seen) call.first_ms ??= now_ms
    if (events === 0) return
    call.events += events
    this.#listener.onEvents(events, call.pass(now_ms), now_ms)
    const { leave_after } = call.request
    if (leave_after !== null && call.events >= leave_after) {
      this.close()
      this.#finish(null)
    }
  }

  end(reusable: boolean): void {
    const call = this.#call
    if (!reusable) this.close()
    if (call === null) return
    if (call.status !== 200) this.#finish(`status ${call.status}`)
    else if (call.request.stream && !this.#scanner.done) this.#finish("stream without an end")
    else this.#finish(null)
  }

  async #connect(request: Request): Promise<void> {
    const { host, port } = this.#origin
    this.#parser = new AnswerParser(this)
    this.#unsent = null
    try {
      this.#socket = await Bun.connect({
        hostname: host,
        port,
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
