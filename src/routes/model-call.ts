import { admit, refuseEarly } from "../admission/admit.ts"
import { idempotencyOf } from "../admission/idempotency-key.ts"
import type { Call } from "../call.ts"
import { GatewayError } from "../errors.ts"
import type { Gateway } from "../gateway.ts"
import type { Named, OperationOn, Passed } from "../operation.ts"
import { release } from "../settlement/settle.ts"
import type { Outgoing } from "../upstream/attempt.ts"
import { ClientDeadline, drainFor } from "../upstream/client-deadline.ts"
import { forward } from "../upstream/forward.ts"
import { type Failure, failures, genAiOperation } from "../wire/call.ts"
import type { FieldTexts } from "../wire/field-texts.ts"
import { readJsonBody } from "../wire/json.ts"
import { attemptsIn, noteDurable, recordIn, traceOf } from "./call-record.ts"
import { answerJson, stoppedError } from "./json-answer.ts"
import { replayAnswer } from "./kept-answer.ts"
import { readKeyedBody } from "./request-body.ts"
import { requestId } from "./request-id.ts"
import { answerStream } from "./stream-answer.ts"

/**
 * A call of a model, whatever the operation (D63): held, relayed, settled. `vendor` is the one in the request's path (D21).
 */
export async function modelCall<Body extends Named>(
  gateway: Gateway,
  operation: OperationOn<Body>,
  request: Request,
  vendor: string | null = null,
): Promise<Response> {
  const arrived_ms = performance.now()
  const id = requestId(request)
  const trace = traceOf(gateway, request)
  const { key_hash, bytes } = await readKeyedBody(gateway, request, operation.credential, refuseEarly)
  const idempotency = idempotencyOf(request.headers, operation.name, bytes)
  const passed = operation.passed(request, gateway.config.vendors, vendor)
  const body = operation.parse(readJsonBody(bytes))
  const texts = operation.texts(body)
  trace?.reserving()
  let call: Call
  try {
    call = await admit(gateway, operation, id, key_hash, body, texts, idempotency, passed?.session)
  } catch (error) {
    return await replayAnswer(gateway, key_hash, error)
  }
  call.trace = trace
  trace?.held(call.hold, call.model.name, operation.name)
  const client_deadline = clientDeadlineOf(call, request)
  gateway.sockets.keepOpen(request)
  try {
    gateway.metrics.added("before", performance.now() - arrived_ms)
    const reply = await forward(
      call.model.routes,
      outgoing(call, operation.changes(body), texts, passed, client_deadline),
      gateway.breakers,
      attemptsIn(gateway, id, trace, genAiOperation(operation.name)),
    )
    call.answeredBy(reply.route)
    const answering = { gateway, call, reply, client_deadline, request }
    const form = call.hold.stream ? operation.stream : null
    if (form === null) return await answerJson(answering, operation.wantsCost(body))
    return answerStream(answering, form, {
      usage: operation.wantsUsage(body),
      cost: operation.wantsCost(body),
    })
  } catch (error) {
    gateway.sockets.restore(request)
    throw await abandon(gateway, call, client_deadline, error)
  } finally {
    client_deadline.end()
  }
}

/** Until there is an answer, the policy of the first upstream applies when the client leaves (D9). */
function clientDeadlineOf(call: Call, request: Request): ClientDeadline {
  return new ClientDeadline(
    request.signal,
    call.stopped,
    drainFor(call.model.routes[0].upstream, call.hold.stream),
  )
}

/** The request as it is sent: what was billed, re-serialised, with the upstream's model name and the operation's changes. */
function outgoing(
  { hold, operation }: Call,
  changes: Readonly<Record<string, unknown>>,
  texts: FieldTexts,
  passed: Passed | null,
  client_deadline: ClientDeadline,
): Outgoing {
  return {
    request_id: hold.id,
    key_id: hold.key_id,
    path: passed === null ? operation.path : `${operation.path}${passed.query}`,
    stream: hold.stream,
    body: (model) => texts.with({ ...changes, model }),
    headers: passed === null ? null : passed.headers,
    refusals: operation.refusals,
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
