import { setTimeout as sleep } from "node:timers/promises"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import type { Tracing } from "../config/tracing.ts"
import { exportRequest, rejectedSpans, type SpanOrigin, type TraceSpan } from "./otlp.ts"

/** Why spans were dropped: the queue was full, the collector rejected them, or it did not accept them in time. */
type Drop = "queue_full" | "refused" | "unreachable"

export interface ExporterOptions {
  readonly tracing: Tracing
  readonly origin: SpanOrigin
  exported(count: number): void
  dropped(count: number, reason: Drop): void
  /** Called once when exports start to fail, with a reason without secrets. */
  failing(reason: string): void
  /** Called when exports work again. */
  recovered(): void
}

/** Statuses after which OTLP allows a retry. */
const TRY_AGAIN: ReadonlySet<number> = new Set([429, 502, 503, 504])
/** The number of attempts per batch, and the first backoff, which doubles. */
const TRIES = 5
const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 30_000
/** The time for the last export when the process ends. */
const FLUSH_MS = 2_000
/** The most that is read of a collector's response. */
const MAX_ANSWER_BYTES = 65_536

const compress = promisify(gzip)

/** The outcome of an export request. */
type Export =
  | { readonly took: true; readonly rejected: number }
  /** `retry_after_ms` is null if a retry would fail too. */
  | { readonly took: false; readonly reason: string; readonly retry_after_ms: number | null }

/**
 * Exports spans to a collector: one request at a time, at most `delay_ms` after the first span. The queue is bounded; spans that do not
 * fit are dropped and counted, so that no call waits for an export or fails because of one (D54).
 */
export class Exporter {
  readonly #options: ExporterOptions
  #waiting: TraceSpan[] = []
  #timer: Timer | undefined
  #running: Promise<void> | null = null
  #is_failing = false
  /** Aborted when the process ends: no more pauses. */
  readonly #stopping = new AbortController()
  /** Aborted when the time for the last export is over: no more requests. */
  readonly #over = new AbortController()

  constructor(options: ExporterOptions) {
    this.#options = options
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
    const { tracing, origin } = this.#options
    const request = exportRequest(origin, spans)
    const body = tracing.gzip ? await compress(request) : request
    for (let pause_ms = FIRST_PAUSE_MS, tries = 1; ; tries++, pause_ms *= 2) {
      const outcome = await this.#post(body)
      if (outcome.took) {
        this.#note(null)
        this.#options.exported(spans.length - outcome.rejected)
        if (outcome.rejected > 0) this.#options.dropped(outcome.rejected, "refused")
        return
      }
      this.#note(outcome.reason)
      if (outcome.retry_after_ms === null) return this.#options.dropped(spans.length, "refused")
      if (tries === TRIES || this.#stopping.signal.aborted)
        return this.#options.dropped(spans.length, "unreachable")
      await this.#pause(Math.min(LONGEST_PAUSE_MS, Math.max(pause_ms, outcome.retry_after_ms)))
    }
  }

  async #post(body: string | Uint8Array<ArrayBuffer>): Promise<Export> {
    const { endpoint, headers, gzip, timeout_ms } = this.#options.tracing
    try {
      const response = await fetch(endpoint, {
        method: "POST",
        headers: {
          ...headers,
          "content-type": "application/json",
          "user-agent": "tollgate",
          ...(gzip ? { "content-encoding": "gzip" } : {}),
        },
        body,
        redirect: "manual",
        signal: AbortSignal.any([this.#over.signal, AbortSignal.timeout(timeout_ms)]),
      })
      // The spans were accepted, even if the response then breaks off.
      const answer = await readAnswer(response).catch(() => "")
      if (response.ok) return { took: true, rejected: rejectedSpans(answer) }
      const reason = `it answers ${response.status}`
      if (!TRY_AGAIN.has(response.status)) return { took: false, reason, retry_after_ms: null }
      return { took: false, reason, retry_after_ms: 1_000 * Number(response.headers.get("retry-after")) || 0 }
    } catch (error) {
      return { took: false, reason: wordOf(error), retry_after_ms: 0 }
    }
  }

  /** Reports the change, not each failure. */
  #note(reason: string | null): void {
    if (reason !== null && !this.#is_failing) this.#options.failing(reason)
    if (reason === null && this.#is_failing) this.#options.recovered()
    this.#is_failing = reason !== null
  }

  /** Ends early if the process ends. */
  #pause(pause_ms: number): Promise<void> {
    return sleep(pause_ms, undefined, { ref: false, signal: this.#stopping.signal }).catch(() => {})
  }
}

/** The text of a short response; empty if it is longer. */
async function readAnswer({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength
    if (bytes > MAX_ANSWER_BYTES) return ""
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** The error code only, because an error message can contain a header value. */
function wordOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown"
  return "code" in error && typeof error.code === "string" ? error.code : error.name
}
