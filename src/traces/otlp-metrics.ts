import type { MetricFamily, MetricPoint } from "../metrics/registry.ts"
import { mapInTurns } from "../turns.ts"
import { attributesOf, nanosOf, type SpanOrigin } from "./otlp.ts"

/** Metrics as OTLP messages in JSON, as `opentelemetry/proto` version 1 names their fields (D108). */

const CUMULATIVE = 2

/** Names of OpenTelemetry's GenAI conventions, of which Prometheus has another form (D53). All others have one name in both. */
const CONVENTIONS: Readonly<Record<string, string>> = {
  gen_ai_client_operation_duration_seconds: "gen_ai.client.operation.duration",
  gen_ai_client_token_usage: "gen_ai.client.token.usage",
  gen_ai_server_time_to_first_token_seconds: "gen_ai.server.time_to_first_token",
  gen_ai_server_time_per_output_token_seconds: "gen_ai.server.time_per_output_token",
}

/** The time from which the process counts, and the time of the push. */
interface MetricTimes {
  readonly began_ms: number
  readonly now_ms: number
}

/** The body of one push: an `ExportMetricsServiceRequest`. Of thousands of series, it is made in turns of the event loop. */
export async function metricsRequest(
  { resource, scope }: SpanOrigin,
  families: readonly MetricFamily[],
  times: MetricTimes,
): Promise<string> {
  const metrics: string[] = []
  for (const family of families) {
    const points = family.points.filter(({ value }) => typeof value !== "number" || Number.isFinite(value))
    if (points.length > 0) metrics.push(JSON.stringify(await metricOf({ ...family, points }, times)))
  }
  const of = JSON.stringify({ attributes: attributesOf(resource) })
  return `{"resourceMetrics":[{"resource":${of},"scopeMetrics":[{"scope":${JSON.stringify(scope)},"metrics":[${metrics}]}]}]}`
}

async function metricOf({ name, help, type, points }: MetricFamily, times: MetricTimes) {
  const convention = CONVENTIONS[name]
  const dataPoints = await mapInTurns(points, (point) =>
    pointOf(point, type, convention !== undefined, times),
  )
  const head = { name: convention ?? name, description: help, unit: unitOf(name) }
  if (type === "gauge") return { ...head, gauge: { dataPoints } }
  if (type === "histogram") return { ...head, histogram: { aggregationTemporality: CUMULATIVE, dataPoints } }
  return { ...head, sum: { aggregationTemporality: CUMULATIVE, isMonotonic: true, dataPoints } }
}

function pointOf(
  { labels, value }: MetricPoint,
  type: MetricFamily["type"],
  is_convention: boolean,
  { began_ms, now_ms }: MetricTimes,
) {
  const named = labels.map(([name, text]) => [is_convention ? attributeName(name) : name, text] as const)
  const common = {
    attributes: attributesOf(Object.fromEntries(named)),
    ...(type !== "gauge" && { startTimeUnixNano: nanosOf(began_ms) }),
    timeUnixNano: nanosOf(now_ms),
  }
  if (typeof value === "number") return { ...common, asDouble: value }
  const { bounds, counts, cumulative, sum } = value
  return {
    ...common,
    count: String(cumulative.at(-1) ?? 0),
    sum,
    bucketCounts: Array.from(counts, String),
    explicitBounds: bounds,
  }
}

/** `gen_ai.request.model` of `gen_ai_request_model`, `error.type` of `error_type`. */
function attributeName(label: string): string {
  return label.replaceAll("_", ".").replace(/^gen\.ai\./, "gen_ai.")
}

/** In UCUM; empty for a count. */
function unitOf(name: string): string {
  if (name === "gen_ai_client_token_usage") return "{token}"
  if (/_seconds(?:_total)?$/.test(name)) return "s"
  return name.endsWith("_bytes") ? "By" : ""
}
