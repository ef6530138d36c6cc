import { ProtobufWriter } from "./protobuf.ts"
import { type Attributes, type Event, KINDS, type Span, type Value } from "./span.ts"

/** OTLP messages. The numbers are field numbers of `opentelemetry/proto`, version 1. */

const FAILED = 2
const SAMPLED = 0x001
const HAS_IS_REMOTE = 0x100
const IS_REMOTE = 0x200

/** What all spans of a process share. */
export interface Origin {
  readonly resource: Attributes
  readonly scope: { readonly name: string; readonly version: string }
}

/** The body of one export: an `ExportTraceServiceRequest`. */
export function exportRequest({ resource, scope }: Origin, spans: readonly Span[]): Uint8Array<ArrayBuffer> {
  const writer = new ProtobufWriter()
  writer.message(1, () => {
    writer.message(1, () => writeAttributes(writer, 1, resource))
    writer.message(2, () => {
      writer.message(1, () => {
        writer.text(1, scope.name)
        writer.text(2, scope.version)
      })
      for (const span of spans) writer.message(2, () => writeSpan(writer, span))
    })
  })
  return writer.bytes
}

function writeSpan(writer: ProtobufWriter, span: Span): void {
  writer.hex(1, span.trace_id)
  writer.hex(2, span.span_id)
  if (span.tracestate !== null) writer.text(3, span.tracestate)
  if (span.parent_id !== null) writer.hex(4, span.parent_id)
  writer.text(5, span.name)
  writer.integer(6, KINDS[span.kind])
  writer.fixed64(7, nanosOf(span.began_ms))
  writer.fixed64(8, nanosOf(span.ended_ms))
  writeAttributes(writer, 9, span.attributes)
  for (const event of span.events) writer.message(11, () => writeEvent(writer, event))
  if (span.failed) writer.message(15, () => writer.integer(3, FAILED))
  writer.fixed32(16, SAMPLED | HAS_IS_REMOTE | (span.remote_parent ? IS_REMOTE : 0))
}

function writeEvent(writer: ProtobufWriter, { name, at_ms }: Event): void {
  writer.fixed64(1, nanosOf(at_ms))
  writer.text(2, name)
}

function writeAttributes(writer: ProtobufWriter, field: number, attributes: Attributes): void {
  for (const name in attributes) {
    const value = attributes[name]
    if (value === null || value === undefined) continue
    writer.message(field, () => {
      writer.text(1, name)
      writer.message(2, () => writeValue(writer, value))
    })
  }
}

function writeValue(writer: ProtobufWriter, value: Value): void {
  if (typeof value === "string") writer.text(1, value)
  else if (typeof value === "boolean") writer.integer(2, value ? 1 : 0)
  else if (typeof value === "bigint") writer.integer(3, value)
  else if (typeof value === "number" && Number.isSafeInteger(value)) writer.integer(3, value)
  else if (typeof value === "number") writer.double(4, value)
  else writer.message(5, () => writeTexts(writer, value))
}

function writeTexts(writer: ProtobufWriter, texts: readonly string[]): void {
  for (const text of texts) writer.message(1, () => writer.text(1, text))
}

/** Nanoseconds since 1970, as a bigint: too large for a number. */
function nanosOf(time_ms: number): bigint {
  const whole_ms = Math.floor(time_ms)
  return BigInt(whole_ms) * 1_000_000n + BigInt(Math.round((time_ms - whole_ms) * 1_000_000))
}

/** The number of rejected spans in an `ExportTraceServiceResponse`; 0 if absent. */
export function rejectedSpans(response: Uint8Array): number {
  const partial_success = fieldOf(response, 1)
  const rejected = partial_success instanceof Uint8Array ? fieldOf(partial_success, 1) : null
  return typeof rejected === "number" ? rejected : 0
}

/** The last value of a field, bytes or a number; null if it is absent or the message is malformed. */
function fieldOf(message: Uint8Array, wanted: number): Uint8Array | number | null {
  let found: Uint8Array | number | null = null
  let at = 0
  const varint = () => {
    let value = 0
    for (let scale = 1; at < message.length; scale *= 128) {
      const byte = message[at++] ?? 0
      value += (byte & 127) * scale
      if (byte < 128) break
    }
    return value
  }
  while (at < message.length) {
    const tag = varint()
    const type = tag % 8
    if (type !== 0 && type !== 2) return null
    const number = varint()
    const value = type === 0 ? number : message.subarray(at, at + number)
    if (type === 2) at += number
    if (Math.floor(tag / 8) === wanted) found = value
  }
  return found
}
