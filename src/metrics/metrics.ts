import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client"
import { callMetrics } from "./calls.ts"
import { ledgerMetrics } from "./ledger.ts"
import { requestMetrics } from "./requests.ts"

/** The metrics of one application, with a registry of its own, so that tests can run several in one process. */
export type Metrics = ReturnType<typeof createMetrics>

/** The sampling interval of the event loop's lag. prom-client's 10 ms would wake an idle process 100 times per second. */
const LAG_SAMPLE_MS = 50
/** Default metrics of prom-client that Bun does not support: they would be 0 or wrong. */
const UNTOLD = [
  "nodejs_eventloop_lag_min_seconds",
  "nodejs_eventloop_lag_mean_seconds",
  "nodejs_eventloop_lag_stddev_seconds",
  "nodejs_active_resources",
  "nodejs_active_resources_total",
  "nodejs_active_handles",
  "nodejs_active_handles_total",
  "nodejs_active_requests",
  "nodejs_active_requests_total",
  "nodejs_heap_space_size_total_bytes",
  "nodejs_heap_space_size_used_bytes",
  "nodejs_heap_space_size_available_bytes",
  "nodejs_gc_duration_seconds",
]

/**
 * With a `worker`, every series has its number as a label. Series of different processes are not summed here, because the end
 * of a process would look like a counter reset.
 *
 * Labels have a bounded number of values (D53): routes are patterns, models and upstreams come from the configuration, and the
 * rest are fixed words. No label contains a key, an account or text from a client or a provider.
 */
export function createMetrics(worker?: number) {
  const registry = new Registry()
  if (worker !== undefined) registry.setDefaultLabels({ worker: String(worker) })
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LAG_SAMPLE_MS })
  for (const name of UNTOLD) registry.removeSingleMetric(name)
  return {
    ...requestMetrics(registry),
    ...callMetrics(registry),
    ...ledgerMetrics(registry),
    ...traceMetrics(registry),
    /** Sets the source of the readiness, which is read at each scrape. */
    watchReady(read: () => boolean): void {
      new Gauge({
        name: "tollgate_ready",
        help: "1 if this process accepts new calls (/readyz is 200), otherwise 0.",
        registers: [registry],
        collect() {
          this.set(read() ? 1 : 0)
        },
      })
    },
    registry,
    content_type: registry.contentType,
    /** All metrics in the Prometheus text format. */
    print: (): Promise<string> => registry.metrics(),
  }
}

/** Metrics of exported and dropped spans (D54). */
export function traceMetrics(registry: Registry) {
  const registers = [registry]
  const exported = new Counter({
    name: "tollgate_trace_spans_exported_total",
    help: "Spans that the collector accepted.",
    registers,
  })
  const dropped = new Counter({
    name: "tollgate_trace_spans_dropped_total",
    help: "Spans that were dropped, by reason: queue_full, refused (by the collector) or unreachable.",
    labelNames: ["reason"],
    registers,
  })
  return {
    spansExported: (count: number): void => exported.inc(count),
    /** `reason` is a fixed word. */
    spansDropped: (count: number, reason: string): void => dropped.inc({ reason }, count),
  }
}
