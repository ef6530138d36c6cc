import { isObject, parseJson } from "../wire/usage.ts"
/** The value of an attribute; whole numbers are encoded as integers. */
export type AttributeValue = string | number | bigint | boolean | readonly string[]

/** Attributes by name; null and undefined are omitted. */
export type SpanAttributes = Readonly<Record<string, AttributeValue | null | undefined>>

/** OpenTelemetry's numbers of span kinds. */
export const KINDS = { internal: 1, server: 2, client: 3 } as const

export interface Event {
  readonly name: string
  /** Wall clock, in milliseconds, as all times here. */
  readonly at_ms: number
}

export interface TraceSpan {
  readonly trace_id: string
  /** 16 hex digits. */
  readonly span_id: string
  /** Null for the root span of a trace. */
  readonly parent_id: string | null
  /** True if the parent span belongs to another process. */
  readonly remote_parent: boolean
  readonly tracestate: string | null
  readonly name: string
  readonly kind: keyof typeof KINDS
  readonly began_ms: number
  readonly ended_ms: number
  readonly attributes: SpanAttributes
  readonly events: readonly Event[]
  /** True if it failed; the attribute `error.type` has the reason. */
  readonly failed: boolean
}

/** OTLP messages in JSON, as `opentelemetry/proto` version 1 names their fields. 64-bit integers are strings. */

const FAILED = 2
const SAMPLED = 0x001
const HAS_IS_REMOTE = 0x100
const IS_REMOTE = 0x200

export interface SpanOrigin {
  readonly resource: SpanAttributes
  readonly scope: { readonly name: string; readonly version: string }
}

/** The body of one export: an `ExportTraceServiceRequest`. */
export function exportRequest({ resource, scope }: SpanOrigin, spans: readonly TraceSpan[]): string {
  return JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: attributesOf(resource) },
        scopeSpans: [{ scope, spans: spans.map(spanOf) }],
      },
    ],
  })
}

function spanOf(span: TraceSpan) {
  return {
    traceId: span.trace_id,
    spanId: span.span_id,
    ...(span.tracestate !== null && { traceState: span.tracestate }),
    ...(span.parent_id !== null && { parentSpanId: span.parent_id }),
    name: span.name,
    kind: KINDS[span.kind],
    startTimeUnixNano: nanosOf(span.began_ms),
    endTimeUnixNano: nanosOf(span.ended_ms),
    attributes: attributesOf(span.attributes),
    events: span.events.map(({ name, at_ms }) => ({ timeUnixNano: nanosOf(at_ms), name })),
    ...(span.failed && { status: { code: FAILED } }),
    flags: SAMPLED | HAS_IS_REMOTE | (span.remote_parent ? IS_REMOTE : 0),
  }
}

export function attributesOf(attributes: SpanAttributes) {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === null || value === undefined ? [] : [{ key, value: anyValue(value) }],
  )
}

function anyValue(value: AttributeValue) {
  switch (typeof value) {
    case "string":
      return { stringValue: value }
    case "boolean":
      return { boolValue: value }
    case "bigint":
      return { intValue: value.toString() }
    case "number":
      return Number.isSafeInteger(value) ? { intValue: value.toString() } : { doubleValue: value }
    default:
      return { arrayValue: { values: value.map((text) => ({ stringValue: text })) } }
  }
}

/** Nanoseconds since 1970, as text: too large for a number. */
export function nanosOf(time_ms: number): string {
  const whole_ms = Math.floor(time_ms)
  return (BigInt(whole_ms) * 1_000_000n + BigInt(Math.round((time_ms - whole_ms) * 1_000_000))).toString()
}

/** The number of rejected spans in the text of an `ExportTraceServiceResponse`; 0 if it says none. */
export function rejectedSpans(response: string): number {
  const answer = parseJson(response)
  const partial = isObject(answer) && isObject(answer.partialSuccess) ? answer.partialSuccess : {}
  const rejected = Number(partial.rejectedSpans ?? 0)
  return Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0
}
