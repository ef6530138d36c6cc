import type { PushedMetrics } from "../config/pushed-metrics.ts"
import type { MetricFamily } from "../metrics/registry.ts"
import { Collector, type CollectorTrouble, FLUSH_MS } from "./collector.ts"
import { originOf } from "./origin.ts"
import { metricsRequest } from "./otlp-metrics.ts"

interface MetricsPushOptions extends CollectorTrouble {
  readonly pushed: PushedMetrics
  /** Null without worker processes. */
  readonly worker: number | null
  families(): readonly MetricFamily[]
}

/** Pushes metrics at each interval and at the end (D108). A failed push is not repeated: counters go on. */
export class MetricsPush {
  readonly #options: MetricsPushOptions
  readonly #collector: Collector
  readonly #timer: Timer
  readonly #began_ms = Date.now() - process.uptime() * 1_000
  #running: Promise<void> | null = null
  /** Aborted when the time for the last push is over. */
  readonly #over = new AbortController()

  constructor(options: MetricsPushOptions) {
    this.#options = options
    this.#collector = new Collector(options.pushed, options)
    this.#timer = setInterval(() => this.#start(), options.pushed.interval_ms)
    // The timer must not keep the process alive: the shutdown pushes once more.
    this.#timer.unref()
  }

  /** Pushes once more, within two seconds. Never rejects. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    const timer = setTimeout(() => this.#over.abort(), FLUSH_MS)
    await this.#running
    await this.#push()
    clearTimeout(timer)
  }

  /** One push at a time: a slow collector gets fewer. */
  #start(): void {
    this.#running ??= this.#push().finally(() => {
      this.#running = null
    })
  }

  async #push(): Promise<void> {
    const { pushed, worker, families } = this.#options
    const times = { began_ms: this.#began_ms, now_ms: Date.now() }
    const request = await metricsRequest(originOf(pushed.resource, worker), families(), times)
    await this.#collector.post(await this.#collector.encode(request), this.#over.signal)
  }
}
