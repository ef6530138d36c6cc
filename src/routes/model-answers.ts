import type { AnswerMemory } from "../admission/memory.ts"
import type { Call } from "../call/call.ts"
import type { Upstream } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import type { End } from "../ledger/entries.ts"
import { collect } from "../meter/body.ts"
import { shownBody } from "../meter/cost.ts"
import { readAnswer } from "../meter/json-reading.ts"
import type { RelayOptions } from "../meter/relay-options.ts"
import { StreamRelay } from "../meter/stream-relay.ts"
import { beginsAsObject } from "../meter/whole-answer.ts"
import { assembled } from "../operations/assembled.ts"
import type { EventForm } from "../operations/operation.ts"
import type { Gateway } from "../service/gateway.ts"
import { settle } from "../settlement/settle.ts"
import { type AnswerWait, jsonDrain, streamDrain } from "../upstream/answer-wait.ts"
import { jsonHeaders, streamHeaders } from "../upstream/headers.ts"
import { eventError, redacted } from "../upstream/refusal.ts"
import { drainBody, type Reply, remainingMs } from "../upstream/reply.ts"
import { readers } from "../usage/readers.ts"
import type { UsageRules } from "../usage/reading.ts"
import { freeBuffer, LARGE_BYTES } from "../wire/buffers.ts"
import type { Ending } from "../wire/call.ts"
import { SLICE_BYTES } from "../wire/shape.ts"
import { noteDurable, recordIn } from "./call-record.ts"
import { keepAnswer } from "./idempotency.ts"
import { inParts } from "./in-parts.ts"

/** A call that a provider answers, and the client's request. */
export interface Answering {
  readonly gateway: Gateway
  readonly call: Call
  readonly reply: Reply
  readonly answer_wait: AnswerWait
  readonly request: Request
  /** For a JSON object. Freed by the caller when there is no answer. */
  readonly answer_memory: AnswerMemory
}

/** Least cost of an answer in a turn of the event loop, in bytes (D78). */
const ANSWER_BYTES = 2_048

/** Answers a JSON call (rules 1-3) once it is settled (D32), with the charge if the client asked (D49). */
export async function answerJson(
  { gateway, call, reply, answer_wait, request, answer_memory }: Answering,
  wants_cost: boolean,
): Promise<Response> {
  const { limits } = gateway.config
  const collected = collect({
    source: reply.body,
    length: reply.length,
    limit_bytes: limits.response_bytes,
    read_bytes: limits.response_read_bytes,
    form: call.operation.json,
    total_ms: reply.route.upstream.timeouts.total_ms,
    began_ms: reply.began_ms,
    unwanted: answer_wait.signal,
    memory: answer_memory,
  })
  const body = collected instanceof Promise ? await collected : collected
  const { byteLength } = body.bytes
  const { pace } = gateway.memory
  const turn = pace.read(call.hold.account_id, Math.max(byteLength, ANSWER_BYTES))
  if (turn !== null) await turn
  const nextTurn = () => pace.read(call.hold.account_id)
  const ending = answer_wait.reason ?? body.ending
  const rules = usageRules(call, reply)
  const { json, stream } = call.operation
  const are_events = stream !== null && !body.cut && beginsAsObject(body.bytes) === false
  const events = are_events
    ? await assembled(stream, body.bytes, call.bounds.n, limits.event_bytes, rules, nextTurn)
    : null
  const read =
    events !== null ? { ...events.evidence, ending } : readAnswer(json, body, ending, rules, nextTurn)
  const evidence = read instanceof Promise ? await read : read
  if (evidence.output_bytes > 0) call.noteOutput()
  gateway.hidden_output.note(call.model, evidence.usage)
  const { end, durable } = settle(gateway.ledger, call, evidence, recordIn(gateway))
  const settled_ms = performance.now()
  const is_sent = end.outcome === "settled" && !evidence.too_large
  const charge_nano = wants_cost && evidence.usage.state === "valid" ? end.charge_nano : null
  const { upstream } = reply.route
  const answer = events?.bytes ?? body.bytes
  const shown = is_sent ? shownBody(answer, upstream.pass_cost, charge_nano, evidence.usages) : null
  const bytes = shown !== null && evidence.reports_error === true ? shownFailure(shown, upstream) : shown
  await durable
  noteDurable(gateway, call, settled_ms)
  if (bytes !== null && call.hold.idempotency !== null) await keepAnswer(gateway, call, bytes)
  gateway.sockets.restore(request)
  if (end.outcome === "released") throw unchargedError(end)
  if (bytes === null) throw new GatewayError("response_too_large")
  const init = { headers: jsonHeaders(call.hold.id) }
  if (byteLength < LARGE_BYTES) return new Response(bytes, init)
  if (bytes !== body.bytes) freeBuffer(body.bytes)
  return new Response(
    inParts(bytes, request.signal, () => answer_memory.hold(0)),
    init,
  )
}

/** The rules of the answering upstream for reading usage (D87). */
function usageRules({ bounds }: Call, { route }: Reply): UsageRules {
  return {
    reader: readers[route.upstream.usage],
    limits: bounds.limits,
    writes_for_an_hour: bounds.writes_for_an_hour,
  }
}

/** The error for a call whose answer charges nothing. */
function unchargedError({ failure }: End): GatewayError {
  switch (failure) {
    case "usage_missing":
    case "usage_invalid":
    case "upstream_error":
    case "upstream_timeout":
      return new GatewayError(failure)
    default:
      return stoppedError()
  }
}

/** The error for a call that the gateway stopped before there was a charge. */
export function stoppedError(): GatewayError {
  return new GatewayError("overloaded", {
    message:
      "The gateway stopped this call before it was complete. The call was not charged. Retry the request.",
  })
}

/**
 * From so many calls in flight on, a stream that has arrived whole is sent in one piece (D32), which saves CPU
 * (docs/performance.md). With fewer calls the first event need not wait.
 */
const CALLS_FOR_ONE_PIECE = 16

/** Answers a stream (rules 4-6), by whole events (D36). Not async, which would keep 1 KiB more for each. */
export function answerStream(
  answering: Answering,
  form: EventForm,
  wants: { readonly usage: boolean; readonly cost: boolean },
): Promise<Response> {
  const { gateway, call, reply, answer_wait } = answering
  const relayed = relayOptions(answering, form, wants)
  const stream_relay = new StreamRelay(relayed)
  const headers = streamHeaders(call.hold.id)
  const is_whole = reply.body.arrived && answer_wait.reason === null
  answer_wait.end()
  if (is_whole && gateway.in_flight.size >= CALLS_FOR_ONE_PIECE)
    return stream_relay.outlet.whole().then((bytes) => new Response(bytes, { headers }))
  call.observed = stream_relay
  call.stopped.addEventListener("abort", () => stream_relay.stop())
  if (call.stopped.aborted) stream_relay.stop()
  relayed.watchClient(() => stream_relay.clientLeft())
  stream_relay.start()
  return stream_relay.outlet.ready().then(() => new Response(stream_relay.outlet.stream(), { headers }))
}

/** Milliseconds for which the answer of an upstream is read on once the client has left; null to cut it immediately (D9). */
export function drainPolicy(
  { config, hidden_output }: Gateway,
  call: Call,
  upstream: Upstream,
): number | null {
  const { bounds, hold, model } = call
  if (!hold.stream) return jsonDrain(upstream)
  return streamDrain(upstream, config.stream.leave_wait_ms, () => {
    if (bounds.is_hiding || hidden_output.isOf(model)) return true
    const evidence = call.observed?.evidence("client_left")
    return evidence !== undefined && hidden_output.note(model, evidence.usage)
  })
}

/** The options of the relay of a call's stream. */
function relayOptions(
  { gateway, call, reply, answer_wait, request, answer_memory }: Answering,
  form: EventForm,
  wants: { readonly usage: boolean; readonly cost: boolean },
) {
  const { upstream } = reply.route
  const { config, hidden_output, sockets, memory } = gateway
  /** Milliseconds since its client left, when the provider answered. */
  const { gone_for_ms } = answer_wait
  /** Called when the client leaves; null before `watchClient`. */
  let leave: (() => void) | null = null
  return {
    form,
    source: reply.body,
    json: call.operation.json,
    requested: call.bounds.n,
    usage_rules: usageRules(call, reply),
    wants_usage: wants.usage,
    wants_cost: wants.cost,
    pass_cost: upstream.pass_cost,
    sizes: config.limits,
    memory: answer_memory,
    times: config.stream,
    idle_ms: upstream.timeouts.idle_ms,
    total_ms: remainingMs(reply),
    get drain_ms() {
      const drain_ms = drainPolicy(gateway, call, upstream)
      return drain_ms === null ? null : drain_ms - gone_for_ms
    },
    /** Calls `left` if the client leaves before the settlement, immediately if it has left. */
    watchClient(left: () => void) {
      leave = left
      request.signal.addEventListener("abort", left)
      if (request.signal.aborted) left()
    },
    settle(evidence) {
      hidden_output.note(call.model, evidence.usage)
      const { end, durable } = settle(gateway.ledger, call, evidence, recordIn(gateway))
      if (leave !== null) request.signal.removeEventListener("abort", leave)
      if (evidence.ending !== "client_stalled") sockets.restore(request)
      const settled_ms = performance.now()
      return durable.then(() => {
        noteDurable(gateway, call, settled_ms)
        return end.charge_nano
      })
    },
    errorEvent: (ending, data) => form.errorEvent(errorOf(ending, data, upstream), call.hold.id),
    withoutSecret: (parts) => withoutSecret(parts, upstream),
    finishSource: () => void drainBody(reply.body),
    cutClient: () => sockets.cut(request),
    onOutput: () => call.noteOutput(),
    turn: (bytes) => memory.pace.read(call.hold.account_id, bytes),
    onKeepalive: () => gateway.metrics.keepalive(),
    onFault: (error) =>
      gateway.log.error({ err: error, request_id: call.hold.id }, "relaying a stream failed"),
  } satisfies RelayOptions & { watchClient(left: () => void): void }
}

/** Removes the upstream's secrets from the bytes of an event (D17). Null if it has some and is too long for that. */
export function withoutSecret(
  parts: readonly Uint8Array[],
  { secrets }: Pick<Upstream, "secrets">,
): readonly Uint8Array[] | null {
  const bytes = Buffer.concat(parts)
  if (!secrets.some((secret) => secret !== "" && bytes.includes(secret))) return parts
  if (bytes.byteLength > SLICE_BYTES) return null
  return [Buffer.from(redacted(bytes.toString(), secrets))]
}

/** A charged answer that reports a failure, without the upstream's secrets; null if it has some and is too long. */
function shownFailure(bytes: Uint8Array, upstream: Upstream): Uint8Array | null {
  const parts = withoutSecret([bytes], upstream)
  return parts === null ? null : Buffer.concat(parts)
}

/** The error for a stream that broke after output, in the provider's words if it sent some (D10). */
function errorOf(ending: Ending, data: string | null, { secrets }: Upstream): GatewayError {
  if (data !== null) return eventError(data, secrets)
  if (ending === "gateway_stopped") {
    return new GatewayError("overloaded", {
      message: "The gateway shut down before the response was complete. Retry the request.",
    })
  }
  return new GatewayError(ending === "upstream_lost" ? "upstream_error" : "upstream_timeout")
}
