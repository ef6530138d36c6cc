import { type Static, Type } from "@sinclair/typebox"
import type { Fault } from "../wire/fault.ts"
import { ConfigError } from "./config.ts"
import { OtlpTarget, otlpVariables } from "./otlp.ts"
import type { Sources } from "./values.ts"

/** The settings of metrics that are pushed (D108), from the OpenTelemetry environment variables. */
export const PushedMetrics = Type.Object({
  ...OtlpTarget.properties,
  interval_ms: Type.Integer(),
})
export type PushedMetrics = Static<typeof PushedMetrics>

/** Null unless asked for by an endpoint of their own or by `OTEL_METRICS_EXPORTER`. Throws a `ConfigError`. */
export function readPushedMetrics(sources: Sources): PushedMetrics | null {
  const { env } = sources
  const exporter = env.OTEL_METRICS_EXPORTER || null
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === "true" || exporter === "none") return null
  if (exporter === null && !env.OTEL_EXPORTER_OTLP_METRICS_ENDPOINT) return null
  const faults: Fault[] = []
  const read = otlpVariables("METRICS", sources, (path, expected) => void faults.push({ path, expected }))
  read.oneOf("OTEL_METRICS_EXPORTER", ["otlp"])
  const endpoint = read.endpoint()
  const target = read.target(endpoint ?? "")
  const interval_ms = read.integer("OTEL_METRIC_EXPORT_INTERVAL", 60_000)
  if (endpoint === null && faults.length === 0)
    faults.push({
      path: "OTEL_EXPORTER_OTLP_ENDPOINT",
      expected: "an address, because OTEL_METRICS_EXPORTER is set",
    })
  if (faults.length > 0) throw new ConfigError(faults)
  return { ...target, interval_ms }
}
