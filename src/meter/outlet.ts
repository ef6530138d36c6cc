import { Parts } from "./sse.ts"

/** The client's side of a stream: what is held back, what leaves in a row, and how the stream ends there. */
export class Outlet {
  readonly body: ReadableStream<Uint8Array>
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null
  /** Events without evidence, until the first output or usage (rule 6); null afterwards. */
  #held: Parts | null = new Parts()
  /** Bytes that lie in a row in one buffer and have not left. */
  #run: Uint8Array | null = null
  /** When the client left. */
  #gone_ms: number | null = null
  #cancelled = false
  /** When the last bytes were sent; at first, when the stream was opened. */
  #sent_ms = performance.now()
  #sent = false

  /** `pull` is called whenever the client takes more (with backpressure: there is no buffer), `cancel` when it left. */
  constructor(pull: () => Promise<void>, cancel: () => void) {
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller
        },
        pull,
        cancel: () => {
          this.#cancelled = true
          cancel()
        },
      },
      { highWaterMark: 0 },
    )
  }

  /** Whether nothing but comments of our own was sent, because nothing with evidence came (rule 6). */
  get silent(): boolean {
    return this.#held !== null
  }

  get held_bytes(): number {
    return this.#held?.bytes ?? 0
  }

  get sent(): boolean {
    return this.#sent
  }

  get sent_ms(): number {
    return this.#sent_ms
  }

  get gone_ms(): number | null {
    return this.#gone_ms
  }

  get gone(): boolean {
    return this.#gone_ms !== null
  }

  /** Whether the client has taken everything it was offered. */
  get taken(): boolean {
    return (this.#controller?.desiredSize ?? 0) >= 0
  }

  /** The client is gone: whatever comes is dropped. */
  leave(): void {
    this.#gone_ms = performance.now()
    this.#run = null
    this.#held = this.#held === null ? null : new Parts()
  }

  /** The first evidence: what was held back may go. */
  open(): void {
    if (this.#held === null) return
    const held = this.#held
    this.#held = null
    this.forward(held.take())
  }

  /** Holds whole events back, or lines them up to leave. */
  forward(parts: readonly Uint8Array[]): void {
    if (this.gone) return
    for (const part of parts) {
      if (this.#held !== null) this.#held.add(part)
      else if (this.#run !== null && follows(this.#run, part)) {
        const run: Uint8Array = this.#run
        this.#run = new Uint8Array(run.buffer, run.byteOffset, run.byteLength + part.byteLength)
      } else {
        this.flush()
        this.#run = part
      }
    }
  }

  /** Sends what the events of one chunk left in a row: in the common case one view of the whole chunk. */
  flush(): boolean {
    if (this.#run === null) return false
    this.send(this.#run)
    this.#run = null
    return true
  }

  send(bytes: Uint8Array): void {
    if (this.gone) return
    this.#controller?.enqueue(bytes)
    this.#sent = true
    this.#sent_ms = performance.now()
  }

  /** A clean end. */
  close(): void {
    if (!this.gone) this.#controller?.close()
  }

  /** An end for a client that does not take one. */
  drop(reason: string): void {
    if (!this.#cancelled) this.#controller?.error(new Error(reason))
  }
}

/** Whether `next` is the continuation of `view` in the same buffer. */
function follows(view: Uint8Array, next: Uint8Array): boolean {
  return view.buffer === next.buffer && view.byteOffset + view.byteLength === next.byteOffset
}
