import {
  type AnswerSpec,
  jsonAnswer,
  operationPath,
  streamWrites,
  type Tokens,
  tokensOf,
  type Write,
} from "./answer-spec.ts"

export interface Generated extends Tokens {
  /** The gateway's id of the call. */
  readonly id: string
  /** Whether the whole answer was sent, including its usage. */
  readonly whole: boolean
  /** Bytes of content that were sent. */
  readonly output_bytes: number
}

export type AnswerSpecs = Readonly<Record<string, AnswerSpec>>

const JSON_HEADERS = { "content-type": "application/json" }
const SSE_HEADERS = { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" }

export function pathOf(spec_name: string): string {
  return `/${spec_name}`
}

/**
 * The provider that all targets share: each spec has a path of its own, so the provider does not read requests. It
 * records what it generated for the gateway; `GET /generated` returns that record as JSON lines and clears it.
 */
export function startProvider(specs: AnswerSpecs): Bun.Server<undefined> {
  const generated: Generated[] = []
  const note = (entry: Generated) => void generated.push(entry)
  const responders = new Map(
    Object.entries(specs).map(([name, spec]) => [
      pathOf(name) + operationPath(spec),
      responderOf(spec, note),
    ]),
  )
  return Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    maxRequestBodySize: 2 ** 31,
    async fetch(request) {
      const path = request.url.slice(request.url.indexOf("/", "http://".length))
      const responder = responders.get(path)
      if (responder !== undefined) {
        await request.arrayBuffer()
        return responder(request.headers.get("x-request-id"))
      }
      if (path === "/generated") {
        return new Response(
          generated
            .splice(0)
            .map((entry) => `${JSON.stringify(entry)}\n`)
            .join(""),
        )
      }
      return new Response(null, { status: 404 })
    },
  })
}

type Note = (entry: Generated) => void
/** Answers a call; `id` is null when it did not come from the gateway. */
type Responder = (id: string | null) => Response | Promise<Response>

function responderOf(spec: AnswerSpec, note: Note): Responder {
  const tokens = tokensOf(spec)
  if (spec.kind === "stream") {
    const writes = streamWrites(spec)
    const { content_bytes, per_second, together } = spec
    return (id) => {
      const end = (events: number, whole: boolean) => {
        if (id !== null) note({ id, whole, output_bytes: events * content_bytes, ...tokens })
      }
      const body =
        per_second === null ? eagerBody(writes, end) : pacedBody(writes, (1000 * together) / per_second, end)
      return new Response(body, { headers: SSE_HEADERS })
    }
  }
  const body = jsonAnswer(spec)
  const delay_ms = spec.kind === "json" ? spec.delay_ms : 0
  const output_bytes = spec.kind === "json" ? spec.content_bytes : 0
  return async (id) => {
    if (delay_ms > 0) await Bun.sleep(delay_ms)
    if (id !== null && spec.kind === "json") note({ id, whole: true, output_bytes, ...tokens })
    return new Response(body, { headers: JSON_HEADERS })
  }
}

/** Called once per stream: how many events were sent, and whether all were. */
type End = (events: number, whole: boolean) => void

/** Writes as fast as the client reads. Each write is a turn of the event loop, so that streams interleave as from a real provider. */
function eagerBody(writes: readonly Write[], end: End): ReadableStream<Uint8Array> {
  let at = 0
  let events = 0
  let left = false
  return new ReadableStream(
    {
      async pull(controller) {
        if (at > 0) await new Promise(setImmediate)
        const write = writes[at]
        if (left || write === undefined) return
        at += 1
        events += write.events
        controller.enqueue(write.bytes)
        if (at < writes.length) return
        end(events, true)
        controller.close()
      },
      cancel() {
        left = true
        end(events, false)
      },
    },
    { highWaterMark: 0 },
  )
}

/** The first write at once, the others on a schedule, whether the client reads them or not. */
function pacedBody(writes: readonly Write[], interval_ms: number, end: End): ReadableStream<Uint8Array> {
  const started_ms = performance.now()
  let at = 0
  let events = 0
  let left = false
  return new ReadableStream({
    start(controller) {
      const send = () => {
        const write = writes[at]
        if (left || write === undefined) return
        at += 1
        events += write.events
        controller.enqueue(write.bytes)
        if (at < writes.length) {
          setTimeout(send, started_ms + at * interval_ms - performance.now())
          return
        }
        end(events, true)
        controller.close()
      }
      send()
    },
    cancel() {
      left = true
      if (at < writes.length) end(events, false)
    },
  })
}
