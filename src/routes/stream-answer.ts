import type { Upstream } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import { Tap } from "../meter/tap.ts"
import type { EventForm } from "../operation.ts"
import { settle } from "../settlement/settle.ts"
import { drainFor } from "../upstream/client-deadline.ts"
import { streamHeaders } from "../upstream/headers.ts"
import { eventError } from "../upstream/refusal.ts"
import { finish, remainingMs } from "../upstream/reply.ts"
import type { Ending } from "../wire/call.ts"
import { noteDurable, recordIn } from "./call-record.ts"
import type { Answering } from "./json-answer.ts"

/** Rules 4-6: headers first, then whole events as they come (D36). */
export function answerStream(
  { gateway, call, reply, client_deadline, request }: Answering,
  form: EventForm,
  wants: { readonly usage: boolean; readonly cost: boolean },
): Response {
  const { stream, limits } = gateway.config
  const { upstream } = reply.route
  const drain_ms = drainFor(upstream, true)
  const tap = new Tap({
    source: reply.body,
    form,
    json: call.operation.json,
    requested: call.asked.n,
    limits: call.asked.limits,
    wants_usage: wants.usage,
    wants_cost: wants.cost,
    event_bytes: limits.event_bytes,
    response_bytes: limits.response_bytes,
    response_read_bytes: limits.response_read_bytes,
    keepalive_ms: stream.keepalive_ms,
    commit_after_ms: stream.commit_after_ms,
    stall_ms: stream.stall_ms,
    idle_ms: upstream.timeouts.idle_ms,
    total_ms: remainingMs(reply),
    finish_wait_ms: stream.finish_wait_ms,
    drain_ms: drain_ms === null ? null : client_deadline.remaining(drain_ms),
    settle: (evidence) => {
      const { end, durable } = settle(gateway.ledger, call, evidence, recordIn(gateway))
      request.signal.removeEventListener("abort", leave)
      if (evidence.ending !== "client_stalled") gateway.sockets.restore(request)
      const settled_ms = performance.now()
      return durable.then(() => {
        noteDurable(gateway, call, settled_ms)
        return end.charge_nano
      })
    },
    errorEvent: (ending, data) => form.errorEvent(errorOf(ending, data, upstream), call.hold.id),
    withoutSecret: (parts) => withoutSecret(parts, upstream),
    finishSource: () => void finish(reply.body),
    cutClient: () => gateway.sockets.cut(request),
    onOutput: () => call.noteOutput(),
    onKeepalive: () => gateway.metrics.keepalive(),
    onFault: (error) =>
      gateway.log.error({ err: error, request_id: call.hold.id }, "relaying a stream failed"),
  })
  const leave = () => tap.clientLeft()
  call.observe = (ending) => tap.evidence(ending)
  call.stopped.addEventListener("abort", () => tap.stop())
  if (call.stopped.aborted) tap.stop()
  request.signal.addEventListener("abort", leave)
  if (request.signal.aborted) tap.clientLeft()
  tap.start()
  return new Response(tap.body, { headers: streamHeaders(call.hold.id) })
}

/** The bytes of an event with its provider's credential made unreadable, if they hold it (D17). */
function withoutSecret(parts: readonly Uint8Array[], { api_key }: Upstream): readonly Uint8Array[] {
  const bytes = Buffer.concat(parts)
  if (api_key === null || api_key === "" || !bytes.includes(api_key)) return parts
  return [Buffer.from(bytes.toString().replaceAll(api_key, "[redacted]"))]
}

/** Why a stream broke after output: in the provider's own words when it had some (D10). */
function errorOf(ending: Ending, data: string | null, { api_key }: Upstream): GatewayError {
  if (data !== null) return eventError(data, api_key)
  if (ending === "gateway_stopped") {
    return new GatewayError("overloaded", {
      message: "The gateway shut down before the response was complete. Retry the request.",
    })
  }
  return new GatewayError(ending === "upstream_lost" ? "upstream_error" : "upstream_timeout")
}
