import type { Tracing } from "../config/tracing.ts"
import type { TraceContext } from "../wire/trace-context.ts"
import { Exporter, type ExporterOptions } from "./exporter.ts"
import { originOf } from "./origin.ts"
import { newSpanId, newTraceId, RecordedTrace } from "./recorded.ts"
import { type Answered, passedOn, type Trace, type Tracer } from "./trace.ts"

interface TracerOptions extends Omit<ExporterOptions, "origin"> {
  /** Null without worker processes. */
  readonly worker: number | null
}

/** Records the traces of a process and exports them over OTLP (D54). */
export class OtlpTracer implements Tracer {
  readonly #tracing: Tracing
  readonly #exporter: Exporter
  readonly #traces = new WeakMap<Request, RecordedTrace>()

  constructor(options: TracerOptions) {
    this.#tracing = options.tracing
    this.#exporter = new Exporter({ ...options, origin: originOf(options.tracing.resource, options.worker) })
  }

  begin(request: Request, request_id: string, context: TraceContext | null): Trace {
    const trace_id = context?.trace_id ?? newTraceId()
    if (!isSampled(this.#tracing.sampler, trace_id, context)) {
      return passedOn(context ?? { trace_id, span_id: newSpanId(), sampled: false, tracestate: null })
    }
    const trace = new RecordedTrace(trace_id, context, request_id, (spans) => this.#exporter.add(spans))
    this.#traces.set(request, trace)
    return trace
  }

  answered(request: Request, answer: Answered): void {
    this.#traces.get(request)?.answered(answer)
  }

  stop(): Promise<void> {
    return this.#exporter.stop()
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
