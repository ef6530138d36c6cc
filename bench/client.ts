import type { Socket } from "bun"
import { AnswerParser, type AnswerSink } from "./answer-parser.ts"
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
  /** When it was meant to start: what its times are measured from. */
  readonly start_ms: number
  readonly sent_ms: number
  readonly end_ms: number
  /** The first event with output; of a JSON answer its first byte. Null when nothing came. */
  readonly first_ms: number | null
  /** The longest wait between two events. */
  readonly longest_gap_ms: number
  readonly events: number
  readonly received_bytes: number
  readonly output_tokens: number
  /** What went wrong, in a few words; null when nothing did, a stream that was left as asked included. */
  readonly failure: string | null
}

/** Told while a call runs. */
export interface Progress {
  /** Events came: the first of them `gap_ms` after the one before, the others with it. */
  onEvents(count: number, gap_ms: number | null, now_ms: number): void
}

const COMPLETION_TOKENS = /"completion_tokens" ?: ?(\d+)/

/** One keep-alive connection, one call at a time. It is opened by the first call, and again when it was closed. */
export class Client implements AnswerSink {
  readonly #origin: Origin
  readonly #progress: Progress
  #socket: Socket<undefined> | null = null
  #parser = new AnswerParser(this)
  #running: Running | null = null
  #unsent: Buffer | null = null

  constructor(origin: Origin, progress: Progress) {
    this.#origin = origin
    this.#progress = progress
  }

  /** Makes a call that was meant to start at `start_ms`. Never rejects. */
  async call(request: Request, start_ms: number): Promise<Outcome> {
    const running = new Running(request, start_ms)
    this.#running = running
    const socket = this.#socket ?? (await this.#connect())
    if (socket === null) this.#finish("no connection")
    else this.#send(socket, request.bytes)
    return running.outcome
  }

  close(): void {
    const socket = this.#socket
    // First forgotten: its end is none of a call's any more.
    this.#socket = null
    socket?.terminate()
  }

  head(status: number): void {
    if (this.#running !== null) this.#running.status = status
  }

  body(bytes: Uint8Array): void {
    const running = this.#running
    if (running === null) return
    const now = performance.now()
    const part = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const events = running.take(part, now)
    if (events === 0) return
    this.#progress.onEvents(events, running.pass(now), now)
    const { leave_after } = running.request
    if (leave_after !== null && running.events >= leave_after) {
      this.close()
      this.#finish(null)
    }
  }

  end(reusable: boolean): void {
    const running = this.#running
    if (!reusable) this.close()
    if (running === null) return
    if (running.status !== 200) this.#finish(`status ${running.status}`)
    else if (running.request.stream && !running.scanner.done) this.#finish("stream without an end")
    else this.#finish(null)
  }

  async #connect(): Promise<Socket<undefined> | null> {
    const { host, port, tls } = this.#origin
    this.#parser = new AnswerParser(this)
    this.#unsent = null
    try {
      this.#socket = await Bun.connect({
        hostname: host,
        port,
        tls: tls ? { serverName: host } : false,
        socket: {
          data: (socket, bytes) => {
            if (socket === this.#socket) this.#parser.feed(bytes)
          },
          drain: (socket) => {
            if (this.#unsent !== null) this.#send(socket, this.#unsent)
          },
          close: (socket) => this.#lost(socket),
          error: (socket) => this.#lost(socket),
        },
      })
    } catch {
      return null
    }
    return this.#socket
  }

  #send(socket: Socket<undefined>, bytes: Buffer): void {
    const sent = socket.write(bytes)
    if (sent < 0) {
      this.#lost(socket)
      return
    }
    this.#unsent = sent < bytes.length ? bytes.subarray(sent) : null
    if (this.#running !== null && this.#running.sent_ms === 0) this.#running.sent_ms = performance.now()
  }

  #lost(socket: Socket<undefined>): void {
    if (socket !== this.#socket) return
    this.#socket = null
    const { cut } = this.#parser.close()
    if (this.#running !== null) this.#finish(cut ? "answer cut" : "connection closed")
  }

  #finish(failure: string | null): void {
    const running = this.#running
    this.#running = null
    running?.end(failure)
  }
}

/** A call that has not ended. */
class Running {
  readonly request: Request
  readonly start_ms: number
  readonly scanner = new EventScanner()
  sent_ms = 0
  status = 0
  events = 0
  #first_ms: number | null = null
  #last_event_ms: number | null = null
  #longest_gap_ms = 0
  #received_bytes = 0
  #json = ""
  readonly #done = Promise.withResolvers<Outcome>()

  constructor(request: Request, start_ms: number) {
    this.request = request
    this.start_ms = start_ms
  }

  get outcome(): Promise<Outcome> {
    return this.#done.promise
  }

  /** How many events these bytes completed. */
  take(bytes: Buffer, now: number): number {
    this.#received_bytes += bytes.length
    if (!this.request.stream) {
      this.#first_ms ??= now
      if (this.#json.length < 65_536) this.#json += bytes.toString("latin1")
      return 0
    }
    const events = this.scanner.feed(bytes)
    if (this.scanner.content_seen) this.#first_ms ??= now
    this.events += events
    return events
  }

  /** Events came now: how long after those before, or null for the first. */
  pass(now: number): number | null {
    const gap_ms = this.#last_event_ms === null ? null : now - this.#last_event_ms
    this.#last_event_ms = now
    this.#longest_gap_ms = Math.max(this.#longest_gap_ms, gap_ms ?? 0)
    return gap_ms
  }

  end(failure: string | null): void {
    const tokens = this.request.stream
      ? this.scanner.completion_tokens
      : Number(COMPLETION_TOKENS.exec(this.#json)?.[1] ?? 0)
    this.#done.resolve({
      start_ms: this.start_ms,
      sent_ms: this.sent_ms,
      end_ms: performance.now(),
      first_ms: this.#first_ms,
      longest_gap_ms: this.#longest_gap_ms,
      events: this.events,
      received_bytes: this.#received_bytes,
      output_tokens: tokens ?? 0,
      failure,
    })
  }
}
