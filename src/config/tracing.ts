import { type Static, Type } from "@sinclair/typebox"
import type { Fault } from "../wire/fault.ts"
import { ConfigError } from "./config.ts"
import { OtlpTarget, otlpVariables } from "./otlp.ts"
import type { Sources } from "./values.ts"

/** The trace settings (D54), from the OpenTelemetry environment variables. */
export const Tracing = Type.Object({
  ...OtlpTarget.properties,
  /** The share of traces to record, and whether the sampling decision of the client counts. */
  sampler: Type.Object({ parent_based: Type.Boolean(), ratio: Type.Number() }),
  /** The maximum number of queued spans; more are dropped. */
  queue_spans: Type.Integer(),
  /** The maximum number of spans per request, and the maximum delay of a span. */
  batch_spans: Type.Integer(),
  delay_ms: Type.Integer(),
})
export type Tracing = Static<typeof Tracing>

const SAMPLERS: Readonly<Record<string, (ratio: number) => Tracing["sampler"]>> = {
  always_on: () => ({ parent_based: false, ratio: 1 }),
  always_off: () => ({ parent_based: false, ratio: 0 }),
  traceidratio: (ratio) => ({ parent_based: false, ratio }),
  parentbased_always_on: () => ({ parent_based: true, ratio: 1 }),
  parentbased_always_off: () => ({ parent_based: true, ratio: 0 }),
  parentbased_traceidratio: (ratio) => ({ parent_based: true, ratio }),
}

/** Null if no endpoint is set or tracing is off. Throws a `ConfigError` with every invalid variable, without values. */
export function readTracing(sources: Sources): Tracing | null {
  const { env } = sources
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === "true" || env.OTEL_TRACES_EXPORTER === "none") return null
  const faults: Fault[] = []
  const read = otlpVariables("TRACES", sources, (path, expected) => void faults.push({ path, expected }))
  const endpoint = read.endpoint()
  if (endpoint === null && faults.length === 0) return null
  read.oneOf("OTEL_TRACES_EXPORTER", ["otlp"])
  const target = read.target(endpoint ?? "")
  const sampler = read.oneOf("OTEL_TRACES_SAMPLER", Object.keys(SAMPLERS)) ?? "parentbased_always_on"
  const isRatio = (text: string) => /^(?:0|1|[01]?\.\d{1,9})$/.test(text) && Number(text) <= 1
  const ratio = Number(read.text("OTEL_TRACES_SAMPLER_ARG", isRatio, "a number from 0 to 1") ?? 1)
  const queue_spans = read.integer("OTEL_BSP_MAX_QUEUE_SIZE", 2_048)
  const tracing: Tracing = {
    ...target,
    sampler: SAMPLERS[sampler]?.(ratio) ?? { parent_based: true, ratio: 1 },
    queue_spans,
    batch_spans: Math.min(queue_spans, read.integer("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)),
    delay_ms: read.integer("OTEL_BSP_SCHEDULE_DELAY", 5_000),
  }
  if (faults.length > 0) throw new ConfigError(faults)
  return tracing
}
