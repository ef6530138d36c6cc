import type { Call } from "../call.ts"
import { GatewayError } from "../errors.ts"
import type { Gateway } from "../gateway.ts"
import type { End } from "../ledger/entries.ts"
import { collect } from "../meter/body.ts"
import { bodyWithCost } from "../meter/cost.ts"
import { readJson, readLarge } from "../meter/json-reading.ts"
import { settle } from "../settlement/settle.ts"
import type { ClientDeadline } from "../upstream/client-deadline.ts"
import { jsonHeaders } from "../upstream/headers.ts"
import { type Reply, remainingMs } from "../upstream/reply.ts"
import { noteDurable, recordIn } from "./call-record.ts"
import { keepAnswer } from "./idempotency.ts"

/** A call that a provider answers, and who waits for it. */
export interface Answering {
  readonly gateway: Gateway
  readonly call: Call
  readonly reply: Reply
  readonly client_deadline: ClientDeadline
  readonly request: Request
}

/**
 * Rules 1-3: the provider's bytes unchanged, once their settlement is durable (D32), or the error. If the client asked,
 * valid usage includes the charge (D49).
 */
export async function answerJson(
  { gateway, call, reply, client_deadline, request }: Answering,
  wants_cost: boolean,
): Promise<Response> {
  const { limits } = gateway.config
  const body = await collect({
    source: reply.body,
    length: reply.length,
    limit_bytes: limits.response_bytes,
    read_bytes: limits.response_read_bytes,
    form: call.operation.json,
    total_ms: remainingMs(reply),
    unwanted: client_deadline.signal,
  })
  const ending = client_deadline.reason ?? body.ending
  const evidence =
    body.large === null
      ? readJson(call.operation.json, body.bytes, ending, body.cut, call.asked.limits)
      : readLarge(body.large, ending, body.cut, call.asked.limits)
  if (evidence.output_bytes > 0) call.noteOutput()
  const { end, durable } = settle(gateway.ledger, call, evidence, recordIn(gateway))
  const settled_ms = performance.now()
  const tells_cost = wants_cost && evidence.usage.state === "valid" && !evidence.too_large
  const bytes = tells_cost ? bodyWithCost(body.bytes, end.charge_nano) : body.bytes
  await durable
  noteDurable(gateway, call, settled_ms)
  if (end.outcome === "settled" && !evidence.too_large && call.hold.idempotency !== null)
    await keepAnswer(gateway, call, bytes)
  gateway.sockets.restore(request)
  if (end.outcome === "released") throw refused(end)
  if (evidence.too_large) throw new GatewayError("response_too_large")
  return new Response(bytes, { headers: jsonHeaders(call.hold.id) })
}

/** Why a JSON answer was not one. */
function refused({ failure }: End): GatewayError {
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

/** The error of a call that the gateway stopped before it had anything to charge. */
export function stoppedError(): GatewayError {
  return new GatewayError("overloaded", {
    message:
      "The gateway stopped this call before it was complete. The call was not charged. Retry the request.",
  })
}
