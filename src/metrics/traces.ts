import { Counter, type Registry } from "prom-client"

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
