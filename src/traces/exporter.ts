import { setTimeout as sleep } from "node:timers/promises"
import type { Tracing } from "../config/tracing.ts"
import { Collector, type CollectorTrouble, FLUSH_MS } from "./collector.ts"
import { exportRequest, rejectedSpans, type SpanOrigin, type TraceSpan } from "./otlp.ts"

/** Why spans were dropped: the queue was full, the collector rejected them, or it did not accept them in time. */
type Drop = "queue_full" | "refused" | "unreachable"

export interface ExporterOptions extends CollectorTrouble {
  readonly tracing: Tracing
  readonly origin: SpanOrigin
  exported(count: number): void
  dropped(count: number, reason: Drop): void
}

/** The number of attempts per batch, and the first backoff, which doubles. */
const TRIES = 5
const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 30_000
/** Exports spans, one request at a time. What does not fit the queue is dropped, so no call waits (D54). */
export class Exporter {
  readonly #options: ExporterOptions
  readonly #collector: Collector
  #waiting: TraceSpan[] = []
  #timer: Timer | undefined
  #running: Promise<void> | null = null
  /** Aborted when the process ends: no more pauses. */
  readonly #stopping = new AbortController()
  /** Aborted when the time for the last export is over: no more requests. */
  readonly #over = new AbortController()

  constructor(options: ExporterOptions) {
    this.#options = options
    this.#collector = new Collector(options.tracing, options)
  }

  /** Queues all of these spans, or none. */
  add(spans: readonly TraceSpan[]): void {
    const { queue_spans } = this.#options.tracing
    if (this.#waiting.length + spans.length > queue_spans || this.#over.signal.aborted) {
      this.#options.dropped(spans.length, "queue_full")
      return
    }
    this.#waiting.push(...spans)
    if (this.#running === null) this.#schedule()
  }

  /** Exports the queue within two seconds and drops the rest. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    const timer = setTimeout(() => this.#over.abort(), FLUSH_MS)
    if (this.#waiting.length > 0) this.#start()
    await Promise.allSettled([this.#running])
    clearTimeout(timer)
    this.#over.abort()
  }

  #start(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#running ??= this.#run()
  }

  /** A full batch is sent immediately, any other after the delay. */
  #schedule(): void {
    const { batch_spans, delay_ms } = this.#options.tracing
    if (this.#waiting.length >= batch_spans) this.#start()
    else if (this.#waiting.length > 0 && this.#timer === undefined) {
      this.#timer = setTimeout(() => this.#start(), delay_ms)
      // The timer must not keep the process alive: the shutdown flushes the queue.
      this.#timer.unref()
    }
  }

  async #run(): Promise<void> {
    const { batch_spans } = this.#options.tracing
    try {
      do await this.#export(this.#waiting.splice(0, batch_spans))
      while (this.#waiting.length >= (this.#stopping.signal.aborted ? 1 : batch_spans))
    } finally {
      this.#running = null
    }
    this.#schedule()
  }

  async #export(spans: readonly TraceSpan[]): Promise<void> {
    const body = await this.#collector.encode(exportRequest(this.#options.origin, spans))
    for (let pause_ms = FIRST_PAUSE_MS, tries = 1; ; tries++, pause_ms *= 2) {
      const outcome = await this.#collector.post(body, this.#over.signal)
      if (outcome.took) {
        const rejected = rejectedSpans(outcome.answer)
        this.#options.exported(spans.length - rejected)
        if (rejected > 0) this.#options.dropped(rejected, "refused")
        return
      }
      if (outcome.retry_after_ms === null) return this.#options.dropped(spans.length, "refused")
      if (tries === TRIES || this.#stopping.signal.aborted)
        return this.#options.dropped(spans.length, "unreachable")
      await this.#pause(Math.min(LONGEST_PAUSE_MS, Math.max(pause_ms, outcome.retry_after_ms)))
    }
  }

  /** Ends early if the process ends. */
  #pause(pause_ms: number): Promise<void> {
    return sleep(pause_ms, undefined, { ref: false, signal: this.#stopping.signal }).catch(() => {})
  }
}
