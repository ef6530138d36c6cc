import type { Tracing } from "../config/tracing.ts"
import type { TraceContext } from "../wire/trace-context.ts"
import { type ExporterOptions, spanExporter } from "./exporter.ts"
import { originOf } from "./origin.ts"
import { newSpanId, newTraceId, RecordedTrace } from "./recorded.ts"
import { passedOn, type Tracer } from "./trace.ts"

interface TracerOptions extends Omit<ExporterOptions, "origin"> {
  /** Null without worker processes. */
  readonly worker: number | null
}

/** Records the traces of a process and exports them over OTLP (D54). */
export function otlpTracer({ worker, ...options }: TracerOptions): Tracer {
  const { resource, sampler } = options.tracing
  const exporter = spanExporter({ ...options, origin: originOf(resource, worker) })
  const traces = new WeakMap<Request, RecordedTrace>()
  return {
    begin(request, request_id, context) {
      const trace_id = context?.trace_id ?? newTraceId()
      if (!isSampled(sampler, trace_id, context)) {
        return passedOn(context ?? { trace_id, span_id: newSpanId(), sampled: false, tracestate: null })
      }
      const trace = new RecordedTrace(trace_id, context, request_id, exporter.add)
      traces.set(request, trace)
      return trace
    },
    answered: (request, answer) => traces.get(request)?.answered(answer),
    stop: exporter.stop,
  }
}

/** The last 14 hex digits of a trace id are random, so sampling uses them. */
const RANDOM_DIGITS = 14

/** True if a trace is recorded: by the decision of the caller if it counts, otherwise by its id. */
export function isSampled(
  { parent_based, ratio }: Tracing["sampler"],
  trace_id: string,
  context: TraceContext | null,
): boolean {
  if (parent_based && context !== null) return context.sampled
  return Number.parseInt(trace_id.slice(-RANDOM_DIGITS), 16) >= (1 - ratio) * 16 ** RANDOM_DIGITS
}
