import type { Call } from "../call/call.ts"
import { requestId } from "../id.ts"
import type { Gateway } from "../service/gateway.ts"
import type { OnSettled } from "../settlement/settle.ts"
import { passedOn, type Trace } from "../traces/trace.ts"
import type { Attempts } from "../upstream/forward.ts"
import { readTraceContext } from "../wire/trace-context.ts"

/** The trace of a request: recorded here, or only passed on from the client's headers; null for neither (D54). */
export function traceOf({ tracer }: Gateway, request: Request): Trace | null {
  const context = readTraceContext(request.headers)
  if (tracer !== null) return tracer.begin(request, requestId(request), context)
  return context === null ? null : passedOn(context)
}

/**
 * Counts the attempts of one request, and logs a warning for each failed one. `operation`: its name in the GenAI
 * conventions (D54). `call`: null for a token count.
 */
export function recordedAttempts(
  { ledger, metrics, log }: Gateway,
  request_id: string,
  trace: Trace | null,
  operation: string,
  call: Call | null = null,
): Attempts {
  return {
    attempting: (route) => trace?.attempting(route, operation) ?? null,
    lost(attempt) {
      if (call !== null) ledger.shard(call.shard).attempted(call.attemptEntry(attempt))
    },
    attempted(upstream, outcome, duration_ms, fault) {
      metrics.attempted(upstream, outcome, duration_ms)
      trace?.attempted(outcome)
      if (fault === null) return
      const rounded = { fault, duration_ms: Math.round(duration_ms) }
      log.warn({ request_id, upstream: upstream.name, ...rounded }, "upstream attempt failed")
    },
  }
}

/** Counts a call that ended and writes its one line in the log: amounts, tokens and times, never a key or a prompt. */
export function recordIn({ metrics, log, usage_warnings, key_loads, config }: Gateway): OnSettled {
  return (call, end) => {
    const { hold, model, operation, trace } = call
    const upstream = call.upstream ?? model.routes[0].upstream.name
    if (end.notes.includes("usage_implausible")) {
      log.warn(
        { request_id: hold.id, upstream, model: model.name },
        "a provider reported more tokens than the request can cause: the call was charged up to the most that it can cause",
      )
    }
    if (end.notes.includes("unpriced")) {
      log.warn(
        { request_id: hold.id, upstream, model: model.name },
        "a provider reported audio, images, searches or a service tier without a price: the tokens were charged at other prices of the model",
      )
    }
    if (end.outcome === "released" && end.failure === "client_left")
      key_loads.abandoned(hold.key_id, config.limits.per_key)
    usage_warnings.note(call, end, upstream, { log, metrics })
    metrics.ended(
      {
        model: model.name,
        operation: operation.name,
        upstream,
        stream: hold.stream,
        amount_nano: hold.amount_nano,
      },
      end,
    )
    trace?.ended(end, call.upstream)
    log.call(() => ({
      request_id: hold.id,
      trace_id: trace?.id,
      account_id: hold.account_id,
      key_id: hold.key_id,
      model: model.name,
      operation: operation.name,
      upstream,
      stream: hold.stream,
      outcome: end.outcome,
      basis: end.basis,
      ending: end.ending,
      failure: end.failure,
      notes: end.notes,
      usage: end.usage,
      held_nano: hold.amount_nano.toString(),
      charge_nano: end.charge_nano.toString(),
      ttft_ms: end.ttft_ms,
      duration_ms: end.duration_ms,
    }))
  }
}

/** Records how long the last byte waited for the settlement (D32), which began at `settled_ms`. */
export function noteDurable({ metrics }: Gateway, call: Call, settled_ms: number): void {
  metrics.latencyAdded("after", performance.now() - settled_ms)
  call.trace?.durable()
}
