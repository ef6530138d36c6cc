import { type Static, Type } from "@sinclair/typebox"
import { type AnswerSpec, jsonAnswer, operationPath, streamWrites, tokensOf } from "./answer-spec.ts"

/** A whole answer that the provider has given to the gateway. */
export const Generated = Type.Object({
  /** The gateway's id of the call. */
  id: Type.String(),
  prompt_tokens: Type.Integer(),
  cached_tokens: Type.Integer(),
  completion_tokens: Type.Integer(),
})
export type Generated = Static<typeof Generated>

export type AnswerSpecs = Readonly<Record<string, AnswerSpec>>

const JSON_HEADERS = { "content-type": "application/json" }
const SSE_HEADERS = { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" }

export function pathOf(spec_name: string): string {
  return `/${spec_name}`
}

/**
 * The provider that all targets share: each spec has a path of its own, so the provider does not read requests. It
 * records what it generated for the gateway; `GET /generated` returns that record and clears it.
 */
export function startProvider(specs: AnswerSpecs): Bun.Server<undefined> {
  const generated: Generated[] = []
  const responders = new Map(
    Object.entries(specs).map(([name, spec]) => {
      const respond = responderOf(spec)
      const answer = (id: string | null) =>
        respond(() => {
          if (id !== null && spec.kind !== "count") generated.push({ id, ...tokensOf(spec) })
        })
      return [pathOf(name) + operationPath(spec), answer] as const
    }),
  )
  return Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    maxRequestBodySize: 2 ** 31,
    async fetch(request) {
      const path = request.url.slice(request.url.indexOf("/", "http://".length))
      const answer = responders.get(path)
      if (answer !== undefined) {
        await request.arrayBuffer()
        // Only the gateway sends an id.
        return answer(request.headers.get("x-request-id"))
      }
      if (path === "/generated") return Response.json(generated.splice(0))
      return new Response(null, { status: 404 })
    },
  })
}

/** Makes answers; `sent` is called when one was sent whole. */
function responderOf(spec: AnswerSpec): (sent: () => void) => Response | Promise<Response> {
  if (spec.kind === "stream") {
    const writes = streamWrites(spec)
    const { per_second, together } = spec
    return (sent) => {
      const body =
        per_second === null
          ? eagerBody(writes, sent)
          : pacedBody(writes, (1000 * together) / per_second, sent)
      return new Response(body, { headers: SSE_HEADERS })
    }
  }
  const body = jsonAnswer(spec)
  const delay_ms = spec.kind === "json" ? spec.delay_ms : 0
  return async (sent) => {
    if (delay_ms > 0) await Bun.sleep(delay_ms)
    sent()
    return new Response(body, { headers: JSON_HEADERS })
  }
}

/** Writes as fast as the client reads. Each write is a turn of the event loop, so that streams interleave as from a real provider. */
function eagerBody(writes: readonly Uint8Array[], sent: () => void): ReadableStream<Uint8Array> {
  let at = 0
  let left = false
  return new ReadableStream(
    {
      async pull(controller) {
        if (at > 0) await new Promise(setImmediate)
        const write = writes[at]
        if (left || write === undefined) return
        at += 1
        controller.enqueue(write)
        if (at < writes.length) return
        sent()
        controller.close()
      },
      cancel() {
        left = true
      },
    },
    { highWaterMark: 0 },
  )
}

/** The first write immediately, the others on a schedule, whether the client reads them or not. */
function pacedBody(
  writes: readonly Uint8Array[],
  interval_ms: number,
  sent: () => void,
): ReadableStream<Uint8Array> {
  const started_ms = performance.now()
  let at = 0
  let left = false
  return new ReadableStream({
    start(controller) {
      const send = () => {
        const write = writes[at]
        if (left || write === undefined) return
        at += 1
        controller.enqueue(write)
        if (at < writes.length) {
          setTimeout(send, started_ms + at * interval_ms - performance.now())
          return
        }
        sent()
        controller.close()
      }
      send()
    },
    cancel() {
      left = true
    },
  })
}
