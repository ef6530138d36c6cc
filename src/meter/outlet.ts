import { LARGE_BYTES } from "../wire/buffers.ts"
import { Parts } from "./parts.ts"

/** Maximum size of a write, because the server copies the part that the client has not taken. */
const WRITE_BYTES = 1_048_576

/** The server's side of a stream. */
interface Writer {
  /** A promise if the client has not taken what was written before. */
  write(bytes: Uint8Array): number | Promise<number>
  flush(): void
  close(): void
}

/** The other end of an outlet: where its events come from. */
export interface OutletSource {
  /** Called when the client takes more. Resolves with true if more may follow. */
  pull(): Promise<boolean>
  clientLeft(): void
  /** Called when waiting bytes were sent, so that their memory can be freed. */
  freeChunks(): void
  /** Called when all was sent, or the client has left. */
  outletEnded(): void
}

/** The client's side of a stream: holds events back, sends them, and ends the stream. */
export class Outlet {
  /** Null until the server asks for the body, or `whole` was called. */
  #writer: Writer | null = null
  /** True if the body is sent in one piece, so its parts are gathered as views. */
  #gathers = false
  readonly #source: OutletSource
  #is_pulling = false
  #closed = false
  /** Lets the server end the answer. */
  #end: (() => void) | null = null
  /** Called when there is something to send, or nothing will come. */
  #ready: (() => void) | null = null
  #fail: ((error: unknown) => void) | null = null
  /** The reason why the relay failed; null while it works. */
  #fault: { readonly error: unknown } | null = null
  /** Resolves when the client has taken what was written; null if it has. */
  #blocked: Promise<void> | null = null
  /** Bytes that wait until the client has taken the last write. If they were written earlier, the server would copy them. */
  #waiting: Uint8Array[] = []
  #attached: (() => void) | null = null
  /** True if the stream is closed when nothing is left to send. */
  #ending = false
  /** Events without evidence, held back until the first output or usage (rule 6); null afterwards. */
  #held: Parts | null = new Parts()
  #written = false
  /** Contiguous bytes of one buffer that were neither held back nor written yet. */
  #run: Run | null = null
  gone_ms: number | null = null
  /** The last time at which bytes were sent or queued; at first the time at which the stream was opened. */
  sent_ms = performance.now()
  sent = false

  readonly #limit_bytes: number

  /** Drops held events beyond `limit_bytes` (D36). Without a buffer, a slow client slows the provider. */
  constructor(limit_bytes: number, source: OutletSource) {
    this.#limit_bytes = limit_bytes
    this.#source = source
  }

  /** Resolves when there is something to send, or nothing will come. Ask for the stream then, so that fewer packets leave. */
  ready(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#fail = reject
      if (this.sent || this.#closed || this.gone) resolve()
      else this.#ready = resolve
      void this.#pullAll()
    })
  }

  /** The body as a stream. Only for the server, which keeps no view of written bytes. */
  stream(): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>({
      type: "direct",
      pull: (controller) => this.#serve(controller).finally(() => this.#source.outletEnded()),
      cancel: () => {
        this.#closed = true
        this.#source.clientLeft()
        this.#end?.()
        this.#source.outletEnded()
      },
    })
  }

  /** All that is sent, once the stream is closed. Rejects when the relay fails. */
  whole(): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.#fail = reject
      const parts: Uint8Array[] = []
      this.#gathers = true
      this.#attach({
        write: (bytes) => parts.push(bytes),
        flush: () => {},
        close: () => {
          resolve(Buffer.concat(parts))
          this.#source.outletEnded()
        },
      })
      void this.#pullAll()
    })
  }

  /** Serves the body. The answer ends when this resolves, and is cut when it rejects because the relay has failed. */
  #serve(writer: Writer): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#end = resolve
      this.#fail = reject
      if (this.#fault !== null) reject(this.#fault.error)
      this.#attach(writer)
      if (!this.#is_pulling) void this.#pullAll()
    })
  }

  /** Asks for more whenever the client has taken what was sent. */
  async #pullAll(): Promise<void> {
    this.#is_pulling = true
    try {
      while (!this.gone && (await this.#source.pull())) while (this.#blocked !== null) await this.#blocked
    } catch (error) {
      this.fail(error)
    }
  }

  #attach(writer: Writer): void {
    this.#writer = writer
    if (this.#closed) this.#close()
    else this.#sendWaiting()
    this.#attached?.()
  }

  /** Cuts the answer, because the relay itself has failed and may never close the stream. */
  fail(error: unknown): void {
    this.#fault = { error }
    this.#fail?.(error)
  }

  /** True if only the gateway's own comments were sent, because there was no evidence (rule 6). */
  get silent(): boolean {
    return this.#held !== null
  }

  /** True if this outlet no longer uses the forwarded bytes. */
  get forwarded(): boolean {
    return !this.#gathers && this.#held === null && this.#run === null && this.#waiting.length === 0
  }

  get gone(): boolean {
    return this.gone_ms !== null
  }

  /** True if the client has taken everything that was sent. */
  get taken(): boolean {
    return this.#blocked === null
  }

  /** Called when the client has left. Drops everything that follows. */
  dropClient(): void {
    this.gone_ms = performance.now()
    this.#run = null
    this.#waiting = []
    this.#ready?.()
    this.#held = this.#held === null ? null : new Parts()
  }

  /** Sends what was held back, at the first evidence. */
  open(): void {
    if (this.#held === null) return
    this.#endRun()
    const held = this.#held
    this.#held = null
    this.forward(held.take())
  }

  /** Queues whole events, to be sent or held back by the next flush. */
  forward(parts: readonly Uint8Array[]): void {
    if (this.gone) return
    for (const part of parts) {
      if (this.#run?.grow(part)) continue
      this.#endRun()
      this.#run = new Run(part)
    }
  }

  /** Writes or holds back the current run: contiguous events, in the common case a view of a whole chunk. */
  #endRun(): void {
    if (this.#run === null) return
    const { whole } = this.#run
    this.#run = null
    if (this.#held === null) this.#write(whole)
    else this.#held.add(whole)
    if ((this.#held?.bytes ?? 0) > this.#limit_bytes) this.#held = new Parts()
  }

  /** Sends what is queued, in one packet if it fits. Returns whether there was anything to send. */
  flush(): boolean {
    this.#endRun()
    if (!this.#written) return false
    this.#written = false
    this.#writer?.flush()
    return true
  }

  send(bytes: Uint8Array): void {
    if (this.gone) return
    this.#endRun()
    this.#write(bytes)
    this.flush()
  }

  #write(bytes: Uint8Array): void {
    if (this.gone) return
    const after_others = this.#written
    this.#written = true
    this.sent = true
    this.sent_ms = performance.now()
    if (this.#writer === null) {
      this.#blocked ??= new Promise((resolve) => {
        this.#attached = resolve
      })
      this.#ready?.()
    }
    if (this.#writer === null || this.#blocked !== null) {
      this.#waiting.push(bytes)
      return
    }
    // Otherwise the server would copy the part to append it to unsent bytes. This matters for many small events (docs/performance.md).
    if (after_others && bytes.byteLength >= LARGE_BYTES) this.#writer.flush()
    const written = this.#writer.write(bytes.subarray(0, WRITE_BYTES))
    if (typeof written !== "number") this.#blocked = written.then(() => this.#sendWaiting())
    if (bytes.byteLength > WRITE_BYTES) this.#write(bytes.subarray(WRITE_BYTES))
  }

  /** Sends waiting bytes once the client has taken what was written. */
  #sendWaiting(): void {
    this.#blocked = null
    const waiting = this.#waiting
    this.#waiting = []
    for (const bytes of waiting) this.#write(bytes)
    this.flush()
    if (this.#ending && this.taken) this.#close()
    this.#source.freeChunks()
  }

  /** Ends the stream cleanly, with `last`. */
  close(last: readonly Uint8Array[]): void {
    if (this.gone) return
    for (const bytes of last) this.#write(bytes)
    this.#ending = true
    if (this.taken) this.#close()
  }

  #close(): void {
    this.#closed = true
    this.#writer?.close()
    this.#ready?.()
    this.#end?.()
  }
}

/** Contiguous views of one buffer, joined into one view at the end. */
class Run {
  readonly #first: Uint8Array
  bytes: number

  constructor(first: Uint8Array) {
    this.#first = first
    this.bytes = first.byteLength
  }

  /** Adds `next` if it continues this run. Returns whether it does. */
  grow(next: Uint8Array): boolean {
    const follows =
      next.buffer === this.#first.buffer && next.byteOffset === this.#first.byteOffset + this.bytes
    if (follows) this.bytes += next.byteLength
    return follows
  }

  get whole(): Uint8Array {
    const { buffer, byteOffset, byteLength } = this.#first
    return this.bytes === byteLength ? this.#first : new Uint8Array(buffer, byteOffset, this.bytes)
  }
}
