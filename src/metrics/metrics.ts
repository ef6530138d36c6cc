import { collectDefaultMetrics, Gauge, Registry } from "prom-client"
import { callMetrics } from "./calls.ts"
import { ledgerMetrics } from "./ledger.ts"
import { requestMetrics } from "./requests.ts"
import { traceMetrics } from "./traces.ts"

/** What one process counts: a registry of its own, so that several applications may live in one process. */
export type Metrics = ReturnType<typeof createMetrics>

/** How often the event loop's lag is sampled; prom-client's 10 ms would wake an idle process a hundred times a second. */
const LAG_SAMPLE_MS = 50
/** Prom-client's own that Bun cannot tell: they would stand at 0, or at nonsense when nothing was sampled between two scrapes. */
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
 * With a `worker`, every series is labelled with its number: series of different processes are never added up here, where the
 * end of one would look like a counter that was reset.
 *
 * Labels are bounded (D53): routes are patterns, models and upstreams names of the configuration, the rest words of the code.
 * Never a key, an account or anything else that a client or a provider says.
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
    /** Where it is read whenever the metrics are whether new calls are taken. */
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
    /** All of it in Prometheus' text format. */
    print: (): Promise<string> => registry.metrics(),
  }
}
