import type { PushedMetrics } from "../config/pushed-metrics.ts"
import type { MetricFamily } from "../metrics/registry.ts"
import { type CollectorTrouble, collectorAt, FLUSH_MS } from "./collector.ts"
import { originOf } from "./origin.ts"
import { metricsRequest } from "./otlp-metrics.ts"

interface MetricsPushOptions extends CollectorTrouble {
  readonly pushed: PushedMetrics
  /** Null without worker processes. */
  readonly worker: number | null
  families(): readonly MetricFamily[]
}

/** Pushes metrics at each interval and at the end (D108). A failed push is not repeated: counters go on. */
export function pushMetrics({ pushed, worker, families, ...trouble }: MetricsPushOptions) {
  const collector = collectorAt(pushed, trouble)
  const began_ms = Date.now() - process.uptime() * 1_000
  /** Aborted when the time for the last push is over. */
  const over = new AbortController()
  let running: Promise<void> | null = null

  async function push(): Promise<void> {
    const times = { began_ms, now_ms: Date.now() }
    const request = await metricsRequest(originOf(pushed.resource, worker), families(), times)
    await collector.post(await collector.encode(request), over.signal)
  }

  const timer = setInterval(() => {
    // One push at a time: a slow collector gets fewer.
    running ??= push().finally(() => {
      running = null
    })
  }, pushed.interval_ms)
  // The timer must not keep the process alive: the shutdown pushes once more.
  timer.unref()
  return {
    /** Pushes once more, within two seconds. Never rejects. */
    async stop(): Promise<void> {
      clearInterval(timer)
      const late = setTimeout(() => over.abort(), FLUSH_MS)
      await running
      await push()
      clearTimeout(late)
    },
  }
}
