import { setTimeout as sleep } from "node:timers/promises"
import type { Tracing } from "../config/tracing.ts"
import { type CollectorTrouble, collectorAt, FLUSH_MS } from "./collector.ts"
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
export function spanExporter(options: ExporterOptions) {
  const collector = collectorAt(options.tracing, options)
  const waiting: TraceSpan[] = []
  let timer: Timer | undefined
  let running: Promise<void> | null = null
  /** Aborted when the process ends: no more pauses. */
  const stopping = new AbortController()
  /** Aborted when the time for the last export is over: no more requests. */
  const over = new AbortController()

  function start(): void {
    clearTimeout(timer)
    timer = undefined
    running ??= run()
  }

  /** A full batch is sent immediately, any other after the delay. */
  function schedule(): void {
    const { batch_spans, delay_ms } = options.tracing
    if (waiting.length >= batch_spans) start()
    else if (waiting.length > 0 && timer === undefined) {
      timer = setTimeout(start, delay_ms)
      // The timer must not keep the process alive: the shutdown flushes the queue.
      timer.unref()
    }
  }

  async function run(): Promise<void> {
    const { batch_spans } = options.tracing
    try {
      do await send(waiting.splice(0, batch_spans))
      while (waiting.length >= (stopping.signal.aborted ? 1 : batch_spans))
    } finally {
      running = null
    }
    schedule()
  }

  async function send(spans: readonly TraceSpan[]): Promise<void> {
    const body = await collector.encode(exportRequest(options.origin, spans))
    for (let pause_ms = FIRST_PAUSE_MS, tries = 1; ; tries++, pause_ms *= 2) {
      const outcome = await collector.post(body, over.signal)
      if (outcome.took) {
        const rejected = rejectedSpans(outcome.answer)
        options.exported(spans.length - rejected)
        if (rejected > 0) options.dropped(rejected, "refused")
        return
      }
      if (outcome.retry_after_ms === null) return options.dropped(spans.length, "refused")
      if (tries === TRIES || stopping.signal.aborted) return options.dropped(spans.length, "unreachable")
      await pause(Math.min(LONGEST_PAUSE_MS, Math.max(pause_ms, outcome.retry_after_ms)))
    }
  }

  /** Ends early if the process ends. */
  const pause = (pause_ms: number) =>
    sleep(pause_ms, undefined, { ref: false, signal: stopping.signal }).catch(() => {})

  return {
    /** Queues all of these spans, or none. */
    add(spans: readonly TraceSpan[]): void {
      const { queue_spans } = options.tracing
      if (waiting.length + spans.length > queue_spans || over.signal.aborted) {
        options.dropped(spans.length, "queue_full")
        return
      }
      waiting.push(...spans)
      if (running === null) schedule()
    },
    /** Exports the queue within two seconds and drops the rest. Never rejects. */
    async stop(): Promise<void> {
      stopping.abort()
      const late = setTimeout(() => over.abort(), FLUSH_MS)
      if (waiting.length > 0) start()
      await Promise.allSettled([running])
      clearTimeout(late)
      over.abort()
    },
  }
}
