import { type Accepted, acceptCall, errorAfterKeyCheck } from "../admission/accept.ts"
import { admit, type ParsedRequest } from "../admission/admit.ts"
import { describe } from "../admission/describe.ts"
import { hashOf } from "../admission/key.ts"
import { clientLabelsOf } from "../admission/labels.ts"
import type { Call } from "../call/call.ts"
import { GatewayError } from "../errors.ts"
import { requestId } from "../id.ts"
import type { Owner } from "../ledger/entries.ts"
import type { NamedModel, OperationOn, Passed } from "../operations/operation.ts"
import type { Gateway } from "../service/gateway.ts"
import { release } from "../settlement/settle.ts"
import { AnswerWait } from "../upstream/answer-wait.ts"
import { sentTo } from "../upstream/edits.ts"
import { forward, type Outgoing } from "../upstream/forward.ts"
import type { Reply } from "../upstream/reply.ts"
import { type Failure, failures, genAiOperation } from "../wire/call.ts"
import { type FieldTexts, readLargeBody } from "../wire/json.ts"
import { noteDurable, recordedAttempts, recordIn, traceOf } from "./call-record.ts"
import { idempotencyOf, replayAnswer } from "./idempotency.ts"
import { type Answering, answerJson, answerStream, drainPolicy, stoppedError } from "./model-answers.ts"
import { errorWithRate, rateHeaders, withRate } from "./rate-headers.ts"
import { REQUEST_BYTES, readInTurn } from "./request-body.ts"
import { faultOf } from "./routing.ts"

/** The handler of an operation's calls (D63). */
export function answering<Body extends NamedModel>(gateway: Gateway, operation: OperationOn<Body>) {
  return ({ request }: { readonly request: Request }) => modelCall(gateway, operation, request)
}

/** A longer body is kept only as text. */
const KEPT_BODY_BYTES = 16_384

/** Admits, forwards and settles one call. `vendor` is the one in the path of the request (D21). */
export async function modelCall<Body extends NamedModel>(
  gateway: Gateway,
  operation: OperationOn<Body>,
  request: Request,
  vendor: string | null = null,
): Promise<Response> {
  const arrived_ms = performance.now()
  const id = requestId(request)
  const trace = traceOf(gateway, request)
  let accepted: Accepted
  let key_hash = ""
  try {
    const key = operation.credential(request.headers)
    key_hash = hashOf(key)
    const accepting = acceptCall(gateway, key, key_hash, request)
    accepted = accepting instanceof Promise ? await accepting : accepting
  } catch (error) {
    const owner = gateway.ledger.owner(key_hash)
    const fault = errorWithRate(error, gateway, owner?.key_id ?? null, operation.name, request)
    throw countRefusal(gateway, owner, fault)
  }
  let parsed: ParsedRequest<Body>
  let call: Call
  let body_bytes = 0
  try {
    const bytes = await readInTurn(request, gateway.config.limits, accepted.memory)
    body_bytes = bytes.byteLength
    const parsing = parseRequest(gateway, operation, request, vendor, bytes, accepted.memory)
    parsed = parsing instanceof Promise ? await parsing : parsing
    trace?.holding()
    call = await admit(gateway, operation, id, accepted, parsed)
  } catch (error) {
    accepted.releaseSlot()
    const found = await errorAfterKeyCheck(gateway.ledger, key_hash, error)
    const fault = errorWithRate(found, gateway, accepted.owner.key_id, operation.name, request)
    const kept = await replayAnswer(gateway, accepted, fault)
    if (kept === null) throw countRefusal(gateway, accepted.owner, fault)
    return kept
  }
  call.trace = trace
  trace?.held(call.hold, call.model.name, operation.name)
  // One statement may have held many calls, and a large body takes long to print and send.
  if (body_bytes > REQUEST_BYTES) await accepted.memory.read(body_bytes)
  const { body } = parsed
  const wants = { usage: operation.wantsUsage(body), cost: operation.wantsCost(body) }
  const answer_wait = new AnswerWait(request.signal, call.stopped)
  const answer_memory = gateway.memory.answer(call.hold.account_id, gateway.config.limits)
  gateway.sockets.keepOpen(request)
  gateway.metrics.latencyAdded("before", performance.now() - arrived_ms)
  const forwarded = forwardParsed(gateway, operation, call, parsed, answer_wait)
  const asked = { gateway, call, answer_wait, request, answer_memory }
  return answerForwarded(asked, accepted, forwarded, wants)
}

/** Counts a call that is refused before its hold (D80). Returns the error. */
function countRefusal({ ledger }: Gateway, owner: Owner | null, error: unknown): GatewayError {
  const fault = faultOf(error)
  const refusal = { owner: fault.detail.owner ?? owner, code: fault.code }
  fault.detail.count = () => ledger.shard(refusal.owner?.shard ?? 0).refused(refusal)
  fault.detail.count()
  return fault
}

/** Sends a parsed request to its providers in turn. Resolves with the head of the answer. */
async function forwardParsed<Body extends NamedModel>(
  gateway: Gateway,
  operation: OperationOn<Body>,
  call: Call,
  { body, texts, passed }: ParsedRequest<Body>,
  answer_wait: AnswerWait,
): Promise<Reply> {
  return forward(
    call.model.routes,
    outgoing(gateway, call, operation.changes?.(body) ?? {}, texts, passed, answer_wait),
    gateway.breakers,
    recordedAttempts(gateway, call.hold.id, call.trace, genAiOperation(operation.name), call),
  )
}

/**
 * Answers a call as its provider does. The request's body is no parameter, because the runtime keeps the parameters of
 * an async function, but the body's memory is freed once the provider answers (D77).
 */
async function answerForwarded(
  asked: Omit<Answering, "reply">,
  { memory }: Accepted,
  forwarded: Promise<Reply>,
  wants: { readonly usage: boolean; readonly cost: boolean },
): Promise<Response> {
  const { gateway, call, answer_wait, request, answer_memory } = asked
  const { operation } = call
  try {
    const reply = await forwarded
    // The other transport keeps the body until the answer ends.
    if (reply.route.upstream.transport === "direct") memory.free()
    call.answeredBy(reply.route, reply.provider_ids)
    const answering = { ...asked, reply }
    const form = call.hold.stream ? operation.stream : null
    const answer =
      form === null ? await answerJson(answering, wants.cost) : await answerStream(answering, form, wants)
    return withRate(answer, rateHeaders(gateway, call.hold.key_id, operation.name, request, call.rates))
  } catch (error) {
    answer_memory.free()
    gateway.sockets.restore(request)
    throw await releaseUnanswered(gateway, call, answer_wait, error)
  } finally {
    answer_wait.end()
  }
}

/** Reads the body of a call, and its forwarded headers. Throws the first fault in the order of D30. */
function parseRequest<Body extends NamedModel>(
  { config }: Gateway,
  operation: OperationOn<Body>,
  request: Request,
  vendor: string | null,
  bytes: Uint8Array,
  memory: Accepted["memory"],
): ParsedRequest<Body> | Promise<ParsedRequest<Body>> {
  const passed = operation.passed(request, config.vendors, vendor)
  const idempotency = idempotencyOf(request.headers, operation.name, bytes, passed)
  return readLargeBody(
    bytes,
    (object) => {
      const body = operation.parse(object)
      const texts = operation.texts(body)
      const described = describe(operation.name, texts, passed?.headers)
      const client_labels = clientLabelsOf(request.headers, texts, operation.family)
      if (bytes.byteLength > KEPT_BODY_BYTES) texts.release(body)
      return { body, texts, described, idempotency, passed, client_labels }
    },
    (size) => memory.read(size),
  )
}

/** The request to the provider: the measured one, with the upstream's name of the model and the operation's changes. */
function outgoing(
  gateway: Gateway,
  call: Call,
  changes: Readonly<Record<string, unknown>>,
  texts: FieldTexts,
  passed: Passed | null,
  answer_wait: AnswerWait,
): Outgoing {
  const { hold, operation } = call
  return {
    request_id: hold.id,
    account_id: hold.account_id,
    affinity: affinityOf(passed, texts),
    path: passed === null ? operation.path : `${operation.path}${passed.query}`,
    stream: hold.stream,
    body: ({ upstream, model }) => sentTo(upstream, texts, { ...changes, model }),
    headers: passed === null ? null : passed.headers,
    refusals: operation.refusals,
    onAttempt: (upstream) => answer_wait.beginAttempt(drainPolicy(gateway, call, upstream)),
    signal: answer_wait.signal,
  }
}

/**
 * The affinity of a call: its session, cache key or conversation, which calls with the same beginning of the prompt
 * share (D82).
 */
function affinityOf(passed: Passed | null, texts: FieldTexts): string | null {
  const session = passed?.session?.session_id
  if (session !== undefined && session !== null) return session
  for (const name of AFFINE) if (texts.names.includes(name)) return texts.of(name) ?? null
  return null
}

const AFFINE = ["prompt_cache_key", "conversation"] as const

/** Releases a call without a 2xx, with the most specific cause (D28). The error follows once durable (D32). */
async function releaseUnanswered(gateway: Gateway, call: Call, answer_wait: AnswerWait, error: unknown) {
  if (call.closed) return error
  const reason = answer_wait.abandoned
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
