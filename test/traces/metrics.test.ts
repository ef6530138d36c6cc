import { describe, expect, test } from "bun:test"
import { readPushedMetrics } from "../../src/config/pushed-metrics.ts"
import type { Environ } from "../../src/config/values.ts"
import { createMetrics } from "../../src/metrics/metrics.ts"
import { metricsRequest } from "../../src/traces/otlp-metrics.ts"
import { refusalOf } from "../config/small.ts"
import { everything } from "../metrics/everything.ts"
import { parseExposition } from "../metrics/exposition.ts"
import { type CollectedMetric, readMetrics } from "./collector.ts"

/** Metrics that are pushed to a collector: the same ones that Prometheus reads, by the names of OpenTelemetry. */

/** The name and the labels of a series in Prometheus' form; OpenTelemetry's names with dots become those of docs/metrics.md. */
function seriesOf({ name, unit, attributes }: CollectedMetric, suffix = "", more: object = {}): string {
  const has_unit = unit !== "s" || /_seconds(?:_total)?$/.test(name)
  const labels = Object.entries({ ...attributes, ...more }).map(([label, value]) => [
    label.replaceAll(".", "_"),
    String(value),
  ])
  return `${name.replaceAll(".", "_")}${has_unit ? "" : "_seconds"}${suffix} ${JSON.stringify(labels.sort())}`
}

/** All samples of the exposition that stand for a series. */
function samplesOf(metric: CollectedMetric): [series: string, value: number][] {
  if (metric.kind !== "histogram") return [[seriesOf(metric), metric.value]]
  let cumulative = 0
  const buckets = metric.counts.map((count, at): [string, number] => {
    cumulative += count
    return [seriesOf(metric, "_bucket", { le: String(metric.bounds[at] ?? "+Inf") }), cumulative]
  })
  return [...buckets, [seriesOf(metric, "_sum"), metric.value], [seriesOf(metric, "_count"), cumulative]]
}

test("D108 what is pushed is what Prometheus reads: each series, with its labels and its value", async () => {
  const metrics = everything(createMetrics(3))
  const origin = { resource: { "service.name": "edge" }, scope: { name: "tollgate", version: "0" } }
  const pushed = readMetrics(
    await metricsRequest(origin, metrics.families(), { began_ms: 1_000, now_ms: 2_000 }),
  )
  const ours = ([series]: readonly [string, number]) => /^(?:gen_ai|tollgate)_/.test(series)
  const read = parseExposition(await metrics.print()).flatMap(({ samples }) =>
    samples.map(({ name, labels, value }): [string, number] => {
      return [`${name} ${JSON.stringify(Object.entries(labels).sort())}`, value]
    }),
  )
  const said = pushed.flatMap(samplesOf).filter(ours)
  expect(said.length).toBeGreaterThan(200)
  expect(new Map(said)).toEqual(new Map(read.filter(ours)))
  expect(new Set(pushed.map(({ name }) => name))).toContain("gen_ai.server.time_to_first_token")
  const [settled] = pushed.filter(({ name }) => name === "gen_ai.client.operation.duration")
  expect(settled).toMatchObject({
    unit: "s",
    kind: "histogram",
    attributes: { "gen_ai.request.model": "gpt-5-mini", "gen_ai.provider.name": "openai", worker: "3" },
    resource: { "service.name": "edge" },
  })
})

describe("D108 metrics are pushed only where they are asked for", () => {
  const ON = { OTEL_METRICS_EXPORTER: "otlp", OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" }
  const read = (env: Environ) => readPushedMetrics({ env, readFile: () => "" })
  const off: [string, Environ][] = [
    ["not when nothing is set", {}],
    ["not by the endpoint of traces", { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" }],
    ["not when they go nowhere", { ...ON, OTEL_METRICS_EXPORTER: "none" }],
    ["not when all is switched off", { ...ON, OTEL_SDK_DISABLED: "true" }],
  ]
  test.each(off)("%s", (_, env) => {
    expect(read(env)).toBeNull()
  })

  test("to the general endpoint, or to one of their own, with settings of their own", () => {
    expect(read(ON)).toEqual({
      endpoint: "http://127.0.0.1:4318/v1/metrics",
      headers: {},
      gzip: false,
      timeout_ms: 10_000,
      resource: { "service.name": "tollgate" },
      interval_ms: 60_000,
    })
    const own = {
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://there/in",
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: "a=1",
      OTEL_EXPORTER_OTLP_METRICS_HEADERS: "b=2",
      OTEL_METRIC_EXPORT_INTERVAL: "5000",
    }
    expect(read(own)).toMatchObject({ endpoint: "http://there/in", headers: { b: "2" }, interval_ms: 5_000 })
  })

  test("a wrong variable stops the start with its name", () => {
    const fault = (env: Environ) => refusalOf(() => read({ ...ON, ...env }))
    expect(fault({ OTEL_METRICS_EXPORTER: "prometheus" })).toBe(
      "OTEL_METRICS_EXPORTER: expected otlp, or to be unset",
    )
    expect(fault({ OTEL_EXPORTER_OTLP_ENDPOINT: "" })).toBe(
      "OTEL_EXPORTER_OTLP_ENDPOINT: expected an address, because OTEL_METRICS_EXPORTER is set",
    )
    expect(fault({ OTEL_METRIC_EXPORT_INTERVAL: "1m" })).toBe(
      "OTEL_METRIC_EXPORT_INTERVAL: expected an integer from 1 to 999999999",
    )
  })
})
