import { Elysia } from "elysia"
import { admit } from "../admission/admit.ts"
import { chatCredential } from "../admission/credential.ts"
import type { Call } from "../call.ts"
import { errorBody, GatewayError } from "../errors.ts"
import type { Gateway } from "../gateway.ts"
import type { Closing } from "../ledger/reservation.ts"
import { collect } from "../meter/body.ts"
import { readJson } from "../meter/reading.ts"
import { Tap } from "../meter/tap.ts"
import { release, settle } from "../settlement/settle.ts"
import { forward } from "../upstream/forward.ts"
import { jsonHeaders, streamHeaders } from "../upstream/headers.ts"
import { Patience } from "../upstream/patience.ts"
import { eventError } from "../upstream/refusal.ts"
import { finish, type Reply } from "../upstream/reply.ts"
import { type Ending, type Failure, failures } from "../wire/call.ts"
import { type ChatRequest, parseChat, wantsUsage } from "../wire/chat.ts"
import { readJsonBody } from "../wire/json.ts"
import { recordIn } from "./call-record.ts"
import * as reference from "./docs/chat-completions.ts"
import { readBody } from "./request-body.ts"
import { requestId } from "./request-id.ts"

/** `POST /v1/chat/completions` and its compatible path (spec 4.1): held, relayed, settled. */
export function chatCompletions(gateway: Gateway) {
  const handle = ({ request }: { request: Request }) => chatCompletion(gateway, request)
  return new Elysia({ name: "chat-completions" })
    .post("/v1/chat/completions", handle, { parse: "none", detail: reference.createChatCompletion })
    .post("/chat/completions", handle, { parse: "none", detail: reference.createChatCompletionCompatible })
}

async function chatCompletion(gateway: Gateway, request: Request): Promise<Response> {
  const arrived_ms = performance.now()
  const id = requestId(request)
  const key = chatCredential(request.headers)
  const chat = parseChat(readJsonBody(await readBody(request, gateway.config.limits)))
  const call = await admit(admitting(gateway), id, key, chat)
  const patience = patienceFor(call, chat, request)
  gateway.sockets.keepOpen(request)
  try {
    gateway.metrics.added("before", performance.now() - arrived_ms)
    const reply = await forward(
      call.model.routes,
      outgoing(call, chat, patience),
      gateway.health,
      gateway.metrics,
    )
    call.upstream = reply.upstream.name
    if (chat.stream !== true || isJson(reply)) {
      return await answerJson(gateway, call, reply, patience, request)
    }
    return answerStream(gateway, call, chat, reply, patience, request)
  } catch (error) {
    gateway.sockets.restore(request)
    throw await abandon(gateway, call, patience, error)
  } finally {
    patience.end()
  }
}

function admitting(gateway: Gateway) {
  const { books, catalog, in_flight, config, health } = gateway
  return {
    books,
    catalog,
    in_flight,
    limits: config.limits,
    ready: (model: Call["model"]) => health.ready(model.routes),
  }
}

/** Until there is an answer, the policy of the first upstream tells what a client's leaving means (D9). */
function patienceFor(call: Call, chat: ChatRequest, request: Request): Patience {
  return new Patience(
    request.signal,
    call.stopped,
    drainOf(call.model.routes[0].upstream, chat.stream === true),
  )
}

function drainOf({ on_disconnect }: Reply["upstream"], stream: boolean): number | null {
  const policy = stream ? on_disconnect.stream : on_disconnect.json
  return policy === "drain" ? on_disconnect.drain_for_ms : null
}

/** What is sent is what was billed: the parsed request, re-serialised, with the upstream's model and usage asked for. */
function outgoing(call: Call, chat: ChatRequest, patience: Patience) {
  const stream = chat.stream === true
  const body = stream ? { ...chat, stream_options: { ...chat.stream_options, include_usage: true } } : chat
  return {
    request_id: call.hold.id,
    path: "/chat/completions",
    stream,
    body: (model: string) => JSON.stringify({ ...body, model }),
    headers: {},
    signal: patience.signal,
  }
}

/** Whether a stream request was answered in JSON (D29); a 204 has no body, whatever its type says (D36). */
function isJson({ status, content_type }: Reply): boolean {
  return content_type === "application/json" && status !== 204
}

/** Rules 1-3: the provider's bytes unchanged, once their settlement is durable (D32), or what was wrong with them. */
async function answerJson(
  gateway: Gateway,
  call: Call,
  reply: Reply,
  patience: Patience,
  request: Request,
): Promise<Response> {
  const body = await collect({
    source: reply.body,
    limit_bytes: gateway.config.limits.response_bytes,
    total_ms: remaining(reply),
    unwanted: patience.signal,
    cancelSource: reply.cancel,
  })
  const evidence = readJson(body.bytes, patience.reason ?? body.ending, body.cut)
  if (evidence.output_bytes > 0) call.noteOutput()
  const { closing, durable } = settle(gateway.books, call, evidence, recordIn(gateway))
  await waitFor(gateway, durable)
  gateway.sockets.restore(request)
  if (closing.outcome === "released") throw refused(closing)
  return new Response(body.bytes, { headers: jsonHeaders(call.hold.id) })
}

/** Why a JSON answer was not one. */
function refused({ failure }: Closing): GatewayError {
  switch (failure) {
    case "usage_missing":
    case "usage_invalid":
    case "upstream_error":
    case "upstream_timeout":
      return new GatewayError(failure)
    default:
      return new GatewayError("overloaded", {
        message: "The call was cut by the gateway; it was not charged.",
      })
  }
}

/** Rules 4-6: headers first, then whole events as they come (D36). */
function answerStream(
  gateway: Gateway,
  call: Call,
  chat: ChatRequest,
  reply: Reply,
  patience: Patience,
  request: Request,
): Response {
  const { stream, limits } = gateway.config
  const drain_ms = drainOf(reply.upstream, true)
  const tap = new Tap({
    source: reply.body ?? new Blob().stream(),
    wants_usage: wantsUsage(chat),
    event_bytes: limits.event_bytes,
    keepalive_ms: stream.keepalive_ms,
    commit_after_ms: stream.commit_after_ms,
    stall_ms: stream.stall_ms,
    idle_ms: reply.upstream.timeouts.idle_ms,
    total_ms: remaining(reply),
    drain_ms: drain_ms === null ? null : patience.remaining(drain_ms),
    settle: (evidence) => {
      const { durable } = settle(gateway.books, call, evidence, recordIn(gateway))
      request.signal.removeEventListener("abort", leave)
      if (evidence.ending !== "client_stalled") gateway.sockets.restore(request)
      return waitFor(gateway, durable)
    },
    errorEvent: (ending, data) => errorEvent(errorOf(ending, data, reply.upstream), call.hold.id),
    cancelSource: reply.cancel,
    finishSource: (reader) => void finish(reader),
    cutClient: () => gateway.sockets.cut(request),
    onOutput: () => call.noteOutput(),
    onKeepalive: () => gateway.metrics.keepalive(),
    onFault: (error) =>
      gateway.log.error({ err: error, request_id: call.hold.id }, "a stream's relay failed"),
  })
  const leave = () => tap.clientLeft()
  call.observe = (ending) => tap.evidence(ending)
  call.stopped.addEventListener("abort", () => tap.stop())
  request.signal.addEventListener("abort", leave)
  if (request.signal.aborted) tap.clientLeft()
  return new Response(tap.body, { headers: streamHeaders(call.hold.id) })
}

/** The last byte waits for the settlement (D32). */
async function waitFor(gateway: Gateway, durable: Promise<void>): Promise<void> {
  const settled_ms = performance.now()
  await durable
  gateway.metrics.added("after", performance.now() - settled_ms)
}

function remaining(reply: Reply): number {
  return reply.upstream.timeouts.total_ms - (performance.now() - reply.started_ms)
}

const encoder = new TextEncoder()

/** Why a stream broke after output: in the provider's own words when it had some (D10). */
function errorOf(ending: Ending, data: string | null, { api_key }: Reply["upstream"]): GatewayError {
  if (data !== null) return eventError(data, api_key)
  if (ending === "gateway_stopped") {
    return new GatewayError("overloaded", {
      message: "The gateway is shutting down; the answer is not whole.",
    })
  }
  return new GatewayError(ending === "upstream_lost" ? "upstream_error" : "upstream_timeout")
}

/** An error as an event that both SDK families read (D10). */
function errorEvent(error: GatewayError, request_id: string): Uint8Array {
  return encoder.encode(`data: ${JSON.stringify({ error: errorBody(error, request_id).error })}\n\n`)
}

/**
 * The exit of a call that got no 2xx: released, with the most specific cause (D28). Resolves with what to answer once
 * that is durable (D32), so that a client that tries again at once does not meet its own hold.
 */
async function abandon(gateway: Gateway, call: Call, patience: Patience, error: unknown): Promise<unknown> {
  if (call.closed) return error
  const reason = patience.signal.aborted ? patience.reason : null
  const failure = reason === "gateway_stopped" ? "no_output" : (reason ?? failureOf(error))
  const { durable } = release(gateway.books, call, failure, reason, recordIn(gateway))
  await waitFor(gateway, durable)
  if (reason === null) return error
  return new GatewayError("overloaded", { message: "The call was cut by the gateway; it was not charged." })
}

function failureOf(error: unknown): Failure {
  if (!(error instanceof GatewayError)) return "internal_error"
  return failures.find((word) => word === error.code) ?? "upstream_error"
}
