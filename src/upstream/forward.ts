import type { Model, Route, Upstream } from "../config/config.ts"
import { GatewayError } from "../errors.ts"
import type { TraceHeaders } from "../wire/trace-context.ts"
import { attempt, type Failure, type Outcome, type Outgoing } from "./attempt.ts"
import type { Finding, Health } from "./health.ts"
import { leftMs, type Reply } from "./reply.ts"

/** Who counts and follows the attempts. */
export interface Attempts {
  /** One attempt begins. What its request says of the trace that it belongs to (D54); null for nothing. */
  attempting?(route: Route): TraceHeaders | null
  /**
   * One attempt is over as far as its headers; `duration_ms` is how long they took. `fault` is what the upstream did
   * wrong, for the log: it holds nothing of what either side said.
   */
  attempted(upstream: Upstream, outcome: Outcome, duration_ms: number, fault: string | null): void
}

/**
 * Tries the routes in their order until one brings a 2xx (D14); upstreams with an open breaker are skipped (D33), and those
 * whose total timeout is over (D31). Throws a `GatewayError`, that of the last one tried; but when `outgoing.signal` is
 * aborted, always and only the signal's reason.
 */
export async function forward(
  routes: Model["routes"],
  outgoing: Outgoing,
  health: Health,
  attempts?: Attempts,
): Promise<Reply> {
  const began_ms = performance.now()
  let last: Failure | null = null
  for (const route of routes) {
    if (leftMs(route.upstream, began_ms) <= 0) continue
    const report = health.enter(route.upstream.name)
    if (report === null) continue
    last?.discard()
    const trace_headers = attempts?.attempting?.(route) ?? null
    const started_ms = performance.now()
    const over = (outcome: Outcome, fault: string | null) => {
      report(findingOf(outcome))
      attempts?.attempted(route.upstream, outcome, performance.now() - started_ms, fault)
    }
    let came: Reply | Failure
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

/** What an outcome says about the upstream's health: no connection, no answer in time and 5xx are failures (D33). */
function findingOf(outcome: Outcome): Finding {
  if (outcome === "abandoned") return "abandoned"
  return typeof outcome === "number" && outcome < 500 ? "answered" : "failed"
}
