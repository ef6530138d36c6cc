import { Elysia } from "elysia"
import { admit, refuseEarly } from "../admission/admit.ts"
import { chatCredential } from "../admission/credential.ts"
import { idempotencyOf } from "../admission/idempotency-key.ts"
import type { Call } from "../call.ts"
import { GatewayError } from "../errors.ts"
import type { Gateway } from "../gateway.ts"
import { release } from "../settlement/settle.ts"
import { ClientDeadline, drainFor } from "../upstream/client-deadline.ts"
import { forward } from "../upstream/forward.ts"
import { type Failure, failures } from "../wire/call.ts"
import { type ChatRequest, parseChat, wantsCost, wantsUsage, withoutOurs } from "../wire/chat.ts"
import { FieldTexts } from "../wire/field-texts.ts"
import { readJsonBody } from "../wire/json.ts"
import { attemptsIn, noteDurable, recordIn, traceOf } from "./call-record.ts"
import * as reference from "./docs/chat-completions.ts"
import { answerJson, stoppedError } from "./json-answer.ts"
import { replayAnswer } from "./kept-answer.ts"
import { readKeyedBody } from "./request-body.ts"
import { requestId } from "./request-id.ts"
import { answerStream } from "./stream-answer.ts"

/** `POST /v1/chat/completions` and its compatible path (spec 4.1): held, relayed, settled. */
export function chatCompletions(gateway: Gateway) {
  const handle = ({ request }: { request: Request }) => chatCompletion(gateway, request)
  return new Elysia({ name: "chat-completions" })
    .post("/v1/chat/completions", handle, reference.createChatCompletion)
    .post("/chat/completions", handle, reference.createChatCompletionCompatible)
}

async function chatCompletion(gateway: Gateway, request: Request): Promise<Response> {
  const arrived_ms = performance.now()
  const id = requestId(request)
  const trace = traceOf(gateway, request)
  const { key_hash, bytes } = await readKeyedBody(gateway, request, chatCredential, refuseEarly)
  const idempotency = idempotencyOf(request.headers, bytes)
  const chat = parseChat(readJsonBody(bytes))
  const texts = new FieldTexts(withoutOurs(chat))
  trace?.reserving()
  let call: Call
  try {
    call = await admit(gateway, id, key_hash, chat, texts, idempotency)
  } catch (error) {
    return await replayAnswer(gateway, error)
  }
  call.trace = trace
  trace?.held(call.hold, call.model.name)
  const client_deadline = clientDeadlineOf(call, chat, request)
  gateway.sockets.keepOpen(request)
  try {
    gateway.metrics.added("before", performance.now() - arrived_ms)
    const reply = await forward(
      call.model.routes,
      outgoing(call, chat, texts, client_deadline),
      gateway.breakers,
      attemptsIn(gateway, id, trace),
    )
    call.answeredBy(reply.route)
    if (chat.stream !== true) {
      return await answerJson({ gateway, call, reply, client_deadline, request }, wantsCost(chat))
    }
    return answerStream(
      { gateway, call, reply, client_deadline, request },
      { usage: wantsUsage(chat), cost: wantsCost(chat) },
    )
  } catch (error) {
    gateway.sockets.restore(request)
    throw await abandon(gateway, call, client_deadline, error)
  } finally {
    client_deadline.end()
  }
}

/** Until there is an answer, the policy of the first upstream applies when the client leaves (D9). */
function clientDeadlineOf(call: Call, chat: ChatRequest, request: Request): ClientDeadline {
  return new ClientDeadline(
    request.signal,
    call.stopped,
    drainFor(call.model.routes[0].upstream, chat.stream === true),
  )
}

/**
 * The request as it is sent: what was billed, re-serialised, with the upstream's model name, and with usage requested.
 */
function outgoing(call: Call, chat: ChatRequest, texts: FieldTexts, client_deadline: ClientDeadline) {
  const stream = chat.stream === true
  const asked = stream ? { stream_options: { ...chat.stream_options, include_usage: true } } : {}
  return {
    request_id: call.hold.id,
    path: "/chat/completions",
    stream,
    body: (model: string) => texts.with({ ...asked, model }),
    headers: null,
    asking: () => client_deadline.asking(),
    signal: client_deadline.signal,
  }
}

/**
 * Ends a call that got no 2xx: releases it with the most specific cause (D28). Resolves with the error for the client
 * once the release is durable (D32), so that an immediate retry does not meet the call's own hold.
 */
async function abandon(
  gateway: Gateway,
  call: Call,
  client_deadline: ClientDeadline,
  error: unknown,
): Promise<unknown> {
  if (call.closed) return error
  const reason = client_deadline.signal.aborted ? client_deadline.reason : null
  const failure = reason === "gateway_stopped" ? "no_output" : (reason ?? failureOf(error))
  const { durable } = release(gateway.ledger, call, failure, reason, recordIn(gateway))
  const settled_ms = performance.now()
  await durable
  noteDurable(gateway, call, settled_ms)
  return reason === null ? error : stoppedError()
}

function failureOf(error: unknown): Failure {
  if (!(error instanceof GatewayError)) return "internal_error"
  return failures.find((word) => word === error.code) ?? "upstream_error"
}
