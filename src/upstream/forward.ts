import type { Model, Route, Upstream } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import type { TraceHeaders } from "../wire/trace-context.ts"
import { attempt, type FailedAttempt, type Outcome, type Outgoing } from "./attempt.ts"
import type { AttemptResult, CircuitBreakers } from "./circuit-breakers.ts"
import { leftMs, type Reply } from "./reply.ts"

/** Records the attempts of a call, for its log, metrics and trace. */
export interface Attempts {
  /** An attempt begins. Returns the trace headers of its request (D54); null for none. */
  attempting?(route: Route): TraceHeaders | null
  /**
   * An attempt has its response headers, after `duration_ms`, or has failed. `fault` is what the upstream did wrong, for
   * the log: it contains nothing that either side sent.
   */
  attempted(upstream: Upstream, outcome: Outcome, duration_ms: number, fault: string | null): void
}

/**
 * Tries the routes in order until one answers with a 2xx (D14). Skips upstreams with an open circuit breaker (D33), and
 * those whose total timeout has passed (D31). Throws the `GatewayError` of the last attempt, or the reason of
 * `outgoing.signal` if that is aborted.
 */
export async function forward(
  routes: Model["routes"],
  outgoing: Outgoing,
  breakers: CircuitBreakers,
  attempts?: Attempts,
): Promise<Reply> {
  const began_ms = performance.now()
  let last: FailedAttempt | null = null
  for (const route of routes) {
    if (leftMs(route.upstream, began_ms) <= 0) continue
    const report = breakers.enter(route.upstream.name, outgoing.key_id)
    if (report === null) continue
    last?.discard()
    const trace_headers = attempts?.attempting?.(route) ?? null
    const started_ms = performance.now()
    const over = (outcome: Outcome, fault: string | null) => {
      report(attemptResultOf(outcome))
      attempts?.attempted(route.upstream, outcome, performance.now() - started_ms, fault)
    }
    let came: Reply | FailedAttempt
    try {
      came = await attempt(route, outgoing, began_ms, trace_headers)
    } catch (error) {
      over("abandoned", null)
      throw error
    }
    if (came.kind === "reply") {
      over(came.status, null)
      return came
    }
    over(came.outcome, came.fault)
    last = came
    if (!came.passes_on) break
  }
  if (last === null) throw new GatewayError("upstream_unavailable", { cause: "every breaker is open" })
  const error = await last.error()
  outgoing.signal.throwIfAborted()
  throw error
}

/** With these a provider speaks of itself, and not of the request. */
const DOWN: ReadonlySet<number> = new Set([503, 504, 529])

/** How an outcome counts for the circuit breaker (D33). */
function attemptResultOf(outcome: Outcome): AttemptResult {
  if (outcome === "abandoned") return "abandoned"
  if (typeof outcome !== "number" || DOWN.has(outcome)) return "failed"
  return outcome < 500 ? "answered" : "refused"
}
