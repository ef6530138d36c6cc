import { gunzipSync } from "node:zlib"
import { type Static, type TProperties, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"

/** A collector of OTLP on the loopback: it takes what is posted to it, reads it by the names of `opentelemetry/proto`, and keeps it. */

export interface CollectedSpan {
  readonly trace_id: string
  readonly span_id: string
  readonly parent_id: string
  readonly tracestate: string
  readonly flags: number
  readonly name: string
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number
  readonly began_nano: bigint
  readonly ended_nano: bigint
  readonly attributes: Readonly<Record<string, AttributeValue>>
  readonly events: readonly { readonly name: string; readonly at_nano: bigint }[]
  /** 0 unset, 2 error. */
  readonly status: number
  readonly resource: Readonly<Record<string, AttributeValue>>
  readonly scope: string
}

type AttributeValue = string | bigint | boolean | number | readonly string[]

export interface Posted {
  readonly path: string
  readonly headers: Headers
  readonly bytes: Uint8Array
  /** None in a request for metrics. */
  readonly spans: readonly CollectedSpan[]
  /** None in a request for spans. */
  readonly metrics: readonly CollectedMetric[]
}

/** One series, as Prometheus would call it. */
export interface CollectedMetric {
  readonly name: string
  readonly unit: string
  readonly kind: "sum" | "gauge" | "histogram"
  readonly attributes: Readonly<Record<string, AttributeValue>>
  /** The number; of a histogram, the sum. */
  readonly value: number
  /** Of a histogram. */
  readonly bounds: readonly number[]
  readonly counts: readonly number[]
  readonly resource: Readonly<Record<string, AttributeValue>>
}

export type Answer = (posted: Posted) => Response | Promise<Response>

export interface Collector {
  /** As `OTEL_EXPORTER_OTLP_ENDPOINT` names it. */
  readonly url: string
  readonly posts: readonly Posted[]
  readonly spans: readonly CollectedSpan[]
  readonly metrics: readonly CollectedMetric[]
  /** The most requests that were there at a time. */
  readonly most_at_once: number
  /** How it answers from now on; it takes everything unless this says otherwise. */
  reply(answer: Answer): void
  stop(): Promise<void>
}

const took: Answer = () => Response.json({})

export function startCollector(): Collector {
  const posts: Posted[] = []
  let answer = took
  let at_once = 0
  let most_at_once = 0
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 60,
    async fetch(request) {
      most_at_once = Math.max(most_at_once, ++at_once)
      try {
        const body = new Uint8Array(await request.arrayBuffer())
        const bytes = request.headers.get("content-encoding") === "gzip" ? gunzipSync(body) : body
        const { pathname } = new URL(request.url)
        const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes)
        const are_metrics = pathname.endsWith("/v1/metrics")
        const posted = {
          path: pathname,
          headers: request.headers,
          bytes,
          spans: are_metrics ? [] : readSpans(text),
          metrics: are_metrics ? readMetrics(text) : [],
        }
        posts.push(posted)
        return await answer(posted)
      } finally {
        at_once -= 1
      }
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    posts,
    get spans() {
      return posts.flatMap(({ spans }) => spans)
    },
    get metrics() {
      return posts.flatMap(({ metrics }) => metrics)
    },
    get most_at_once() {
      return most_at_once
    },
    reply(how) {
      answer = how
    },
    stop: () => server.stop(true),
  }
}

const Attributes = Type.Array(
  Type.Object({
    key: Type.String(),
    value: Type.Record(Type.String(), Type.Unknown(), { minProperties: 1, maxProperties: 1 }),
  }),
)
const Nanos = Type.String({ pattern: "^\\d{1,20}$" })
/** What `opentelemetry/proto` says of the messages that are sent; nothing else may be in them. */
const Request = only({
  resourceSpans: Type.Array(
    only({
      resource: only({ attributes: Attributes }),
      scopeSpans: Type.Array(
        only({
          scope: only({ name: Type.String(), version: Type.String() }),
          spans: Type.Array(
            only({
              traceId: Type.String({ pattern: "^[0-9a-f]{32}$" }),
              spanId: Type.String({ pattern: "^[0-9a-f]{16}$" }),
              traceState: Type.Optional(Type.String()),
              parentSpanId: Type.Optional(Type.String({ pattern: "^[0-9a-f]{16}$" })),
              name: Type.String(),
              kind: Type.Integer(),
              startTimeUnixNano: Nanos,
              endTimeUnixNano: Nanos,
              attributes: Attributes,
              events: Type.Array(only({ timeUnixNano: Nanos, name: Type.String() })),
              status: Type.Optional(only({ code: Type.Integer() })),
              flags: Type.Integer(),
            }),
          ),
        }),
      ),
    }),
  ),
})

const Point = {
  attributes: Attributes,
  startTimeUnixNano: Type.Optional(Nanos),
  timeUnixNano: Nanos,
}
const Numbers = { dataPoints: Type.Array(only({ ...Point, asDouble: Type.Number() })) }
const Histogram = only({
  aggregationTemporality: Type.Literal(2),
  dataPoints: Type.Array(
    only({
      ...Point,
      count: Nanos,
      sum: Type.Number(),
      bucketCounts: Type.Array(Nanos),
      explicitBounds: Type.Array(Type.Number()),
    }),
  ),
})
const MetricsRequest = only({
  resourceMetrics: Type.Array(
    only({
      resource: only({ attributes: Attributes }),
      scopeMetrics: Type.Array(
        only({
          scope: only({ name: Type.String(), version: Type.String() }),
          metrics: Type.Array(
            only({
              name: Type.String(),
              description: Type.String(),
              unit: Type.String(),
              sum: Type.Optional(
                only({
                  aggregationTemporality: Type.Literal(2),
                  isMonotonic: Type.Literal(true),
                  ...Numbers,
                }),
              ),
              gauge: Type.Optional(only(Numbers)),
              histogram: Type.Optional(Histogram),
            }),
          ),
        }),
      ),
    }),
  ),
})

/** The series of an `ExportMetricsServiceRequest`. Throws on what the protocol does not name. */
export function readMetrics(request: string): CollectedMetric[] {
  const read: unknown = JSON.parse(request)
  Value.Assert(MetricsRequest, read)
  return read.resourceMetrics.flatMap(({ resource, scopeMetrics }) =>
    scopeMetrics.flatMap(({ metrics }) =>
      metrics.flatMap(({ name, unit, sum, gauge, histogram }) => {
        const head = { name, unit, resource: readAttributes(resource.attributes), bounds: [], counts: [] }
        const kind = sum === undefined ? ("gauge" as const) : ("sum" as const)
        const numbers = (sum ?? gauge)?.dataPoints ?? []
        const observed = histogram?.dataPoints ?? []
        if (sum?.dataPoints.some(({ startTimeUnixNano }) => startTimeUnixNano === undefined))
          throw new Error(`${name} does not say since when it counts`)
        return [
          ...numbers.map(({ attributes, asDouble }) => {
            return { ...head, kind, attributes: readAttributes(attributes), value: asDouble }
          }),
          ...observed.map(({ attributes, count, sum: value, bucketCounts, explicitBounds: bounds }) => {
            const counts = bucketCounts.map(Number)
            if (
              counts.reduce((one, other) => one + other, 0) !== Number(count) ||
              counts.length !== bounds.length + 1
            )
              throw new Error(`the buckets of ${name} do not add up`)
            const kind = "histogram" as const
            return { ...head, kind, attributes: readAttributes(attributes), value, bounds, counts }
          }),
        ]
      }),
    ),
  )
}

function only<P extends TProperties>(properties: P) {
  return Type.Object(properties, { additionalProperties: false })
}

/** The spans of an `ExportTraceServiceRequest`. Throws on what the protocol does not name. */
export function readSpans(request: string): CollectedSpan[] {
  const read: unknown = JSON.parse(request)
  Value.Assert(Request, read)
  return read.resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ scope, spans }) =>
      spans.map((span) => ({
        trace_id: span.traceId,
        span_id: span.spanId,
        tracestate: span.traceState ?? "",
        parent_id: span.parentSpanId ?? "",
        name: span.name,
        kind: span.kind,
        began_nano: BigInt(span.startTimeUnixNano),
        ended_nano: BigInt(span.endTimeUnixNano),
        attributes: readAttributes(span.attributes),
        events: span.events.map(({ name, timeUnixNano }) => ({ name, at_nano: BigInt(timeUnixNano) })),
        status: span.status?.code ?? 0,
        flags: span.flags,
        resource: readAttributes(resource.attributes),
        scope: `${scope.name} ${scope.version}`,
      })),
    ),
  )
}

function readAttributes(pairs: Static<typeof Attributes>): Record<string, AttributeValue> {
  const read = Object.fromEntries(pairs.map(({ key, value }) => [key, readValue(value)]))
  if (Object.keys(read).length < pairs.length) throw new Error("an attribute stands there twice")
  return read
}

function readValue({
  stringValue,
  boolValue,
  intValue,
  doubleValue,
  arrayValue,
}: Readonly<Record<string, unknown>>) {
  if (typeof stringValue === "string") return stringValue
  if (typeof boolValue === "boolean") return boolValue
  if (typeof intValue === "string") return BigInt(intValue)
  if (typeof doubleValue === "number") return doubleValue
  Value.Assert(Texts, arrayValue)
  return arrayValue.values.map(({ stringValue }) => stringValue)
}

const Texts = only({ values: Type.Array(only({ stringValue: Type.String() })) })
