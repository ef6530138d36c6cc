import { Counter, type Registry } from "prom-client"

/** Why spans were not exported: the queue was full, the collector refused them, or it could not be reached in time. */
export type Drop = "queue_full" | "refused" | "unreachable"

/** What became of the spans of the traces (D54). */
export function traceMetrics(registry: Registry) {
  const registers = [registry]
  const exported = new Counter({
    name: "tollgate_trace_spans_exported_total",
    help: "Spans that the collector took.",
    registers,
  })
  const dropped = new Counter({
    name: "tollgate_trace_spans_dropped_total",
    help: "Spans that were not exported, by reason: queue_full, refused by the collector, or unreachable.",
    labelNames: ["reason"],
    registers,
  })
  return {
    spansExported: (count: number): void => exported.inc(count),
    spansDropped: (count: number, reason: Drop): void => dropped.inc({ reason }, count),
  }
}
