import { gunzipSync } from "node:zlib"

/** A collector of OTLP on the loopback: it takes what is posted to it, reads it by the numbers of `opentelemetry/proto`, and keeps it. */

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
  readonly attributes: Readonly<Record<string, Value>>
  readonly events: readonly { readonly name: string; readonly at_nano: bigint }[]
  /** 0 unset, 2 error. */
  readonly status: number
  readonly resource: Readonly<Record<string, Value>>
  readonly scope: string
}

type Value = string | bigint | boolean | number | readonly Value[]

export interface Posted {
  readonly path: string
  readonly headers: Headers
  readonly bytes: Uint8Array
  readonly spans: readonly CollectedSpan[]
}

export type Answer = (posted: Posted) => Response | Promise<Response>

export interface Collector {
  /** As `OTEL_EXPORTER_OTLP_ENDPOINT` names it. */
  readonly url: string
  readonly posts: readonly Posted[]
  readonly spans: readonly CollectedSpan[]
  /** The most requests that were there at a time. */
  readonly most_at_once: number
  /** How it answers from now on; it takes everything unless this says otherwise. */
  reply(answer: Answer): void
  stop(): Promise<void>
}

const took: Answer = () =>
  new Response(new Uint8Array(), { headers: { "content-type": "application/x-protobuf" } })

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
        const posted = { path: pathname, headers: request.headers, bytes, spans: readSpans(bytes) }
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
    get most_at_once() {
      return most_at_once
    },
    reply(how) {
      answer = how
    },
    stop: () => server.stop(true),
  }
}

/** The spans of an `ExportTraceServiceRequest`. */
export function readSpans(request: Uint8Array): CollectedSpan[] {
  return fields(request)
    .messages(1)
    .flatMap((of_resource) => {
      const resource = attributes(of_resource.message(1), 1)
      return of_resource.messages(2).flatMap((of_scope) => {
        const named = of_scope.message(1)
        const scope = `${named.text(1)} ${named.text(2)}`
        return of_scope.messages(2).map((span) => ({ ...readSpan(span), resource, scope }))
      })
    })
}

function readSpan(span: Fields) {
  return {
    trace_id: span.hex(1),
    span_id: span.hex(2),
    tracestate: span.text(3),
    parent_id: span.hex(4),
    name: span.text(5),
    kind: Number(span.number(6)),
    began_nano: span.number(7),
    ended_nano: span.number(8),
    attributes: attributes(span, 9),
    events: span.messages(11).map((event) => ({ name: event.text(2), at_nano: event.number(1) })),
    status: Number(span.message(15).number(3)),
    flags: Number(span.number(16)),
  }
}

function attributes(message: Fields, field: number): Record<string, Value> {
  const pairs = message.messages(field).map((pair): [string, Value] => [pair.text(1), value(pair.message(2))])
  const read = Object.fromEntries(pairs)
  if (Object.keys(read).length < pairs.length) throw new Error("an attribute stands there twice")
  return read
}

function value(message: Fields): Value {
  if (message.has(1)) return message.text(1)
  if (message.has(2)) return message.number(2) === 1n
  if (message.has(3)) return BigInt.asIntN(64, message.number(3))
  if (message.has(4)) return message.double(4)
  if (message.has(5)) return message.message(5).messages(1).map(value)
  throw new Error("a value of a kind that there is not")
}

interface Fields {
  has(field: number): boolean
  text(field: number): string
  hex(field: number): string
  /** 0 where there is none. */
  number(field: number): bigint
  double(field: number): number
  /** An empty one where there is none. */
  message(field: number): Fields
  messages(field: number): Fields[]
}

/** A message of protocol buffers, read to its last byte. */
function fields(bytes: Uint8Array): Fields {
  const found = new Map<number, (Uint8Array | bigint)[]>()
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = 0
  const varint = () => {
    let number = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = view.readUInt8(at++)
      number |= BigInt(byte & 127) << shift
      if (byte < 128) return number
    }
  }
  const skip = (length: number) => {
    if (at + length > view.length) throw new Error("a field is cut")
    at += length
    return view.subarray(at - length, at)
  }
  while (at < view.length) {
    const tag = varint()
    const field = Number(tag >> 3n)
    const type = Number(tag & 7n)
    const read = { 0: varint, 1: () => skip(8), 2: () => skip(Number(varint())), 5: () => skip(4) }[type]
    if (read === undefined) throw new Error(`a field of type ${type}`)
    found.set(field, [...(found.get(field) ?? []), read()])
  }
  const last = (field: number) => found.get(field)?.at(-1)
  const bytesOf = (field: number): Buffer => {
    const content = last(field) ?? new Uint8Array()
    if (typeof content === "bigint") throw new Error(`field ${field} is a number`)
    return Buffer.from(content)
  }
  return {
    has: (field) => found.has(field),
    text: (field) => new TextDecoder("utf-8", { fatal: true }).decode(bytesOf(field)),
    hex: (field) => bytesOf(field).toString("hex"),
    number(field) {
      const content = last(field) ?? 0n
      if (typeof content === "bigint") return content
      return content.byteLength === 8
        ? Buffer.from(content).readBigUInt64LE()
        : BigInt(Buffer.from(content).readUInt32LE())
    },
    double: (field) => bytesOf(field).readDoubleLE(),
    message: (field) => fields(bytesOf(field)),
    messages: (field) =>
      (found.get(field) ?? []).map((content) => {
        if (typeof content === "bigint") throw new Error(`field ${field} is a number`)
        return fields(content)
      }),
  }
}
