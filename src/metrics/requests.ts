import { Counter, Gauge, type Registry } from "prom-client"
import type { Upstream } from "../config/config.ts"
import { OPERATION_S, OWN_S } from "./buckets.ts"
import { CellCounter, CellHistogram } from "./cells.ts"
import { outcomeLabel } from "./status.ts"

/** What came in and what was asked of the providers. */
export function requestMetrics(registry: Registry) {
  const registers = [registry]
  const requests = new CellCounter({
    name: "tollgate_requests_total",
    help: "Requests answered, by route and status; the route of what is at no address is unknown.",
    labelNames: ["route", "status"],
    registry,
  })
  const errors = new CellCounter({
    name: "tollgate_errors_total",
    help: "Requests answered with an error, by route and the gateway's own code of it.",
    labelNames: ["route", "code"],
    registry,
  })
  const limited = new Counter({
    name: "tollgate_key_limit_refusals_total",
    help: "Requests refused because their key takes as much as it may, by the limit that it met.",
    labelNames: ["limit"],
    registers,
  })
  const repeats = new Counter({
    name: "tollgate_idempotent_repeats_total",
    help: "Requests that repeated a call by its Idempotency-Key, those that were told its kept answer among them.",
    registers,
  })
  const attempts = new CellHistogram({
    name: "tollgate_upstream_attempt_seconds",
    help: "Attempts at a provider until its headers or the lack of them, by upstream and outcome.",
    labelNames: ["upstream", "outcome"],
    buckets: OPERATION_S,
    registry,
  })
  const counts = new CellCounter({
    name: "tollgate_token_counts_total",
    help: "Token counts answered, by model.",
    labelNames: ["model"],
    registry,
  })
  const keepalives = new Counter({
    name: "tollgate_keepalives_total",
    help: "Keepalive comments sent into silent streams.",
    registers,
  })
  const added_latency = new CellHistogram({
    name: "tollgate_added_latency_seconds",
    help: "What the gateway adds to a call, by where: before the provider is asked, or after its answer, before the last byte leaves.",
    labelNames: ["where"],
    buckets: OWN_S,
    registry,
  })
  const added = { before: added_latency.cell("before"), after: added_latency.cell("after") }
  return {
    /** A request was answered. `route` is the pattern of its route, never its path; `code` is that of its error, if it was one. */
    answered(route: string, status: number, code: string | null): void {
      requests.cell(route, String(status)).value += 1
      if (code !== null) errors.cell(route, code).value += 1
    },
    /** A key takes as much as it may (D38); `limit` is a word of the code. */
    keyLimited: (limit: string): void => limited.inc({ limit }),
    /** A request came again with the Idempotency-Key and the body of another (D43). */
    repeated: (): void => repeats.inc(),
    /** An attempt at an upstream is over as far as its headers. */
    attempted(upstream: Upstream, outcome: number | string, duration_ms: number): void {
      attempts.cell(upstream.name, outcomeLabel(outcome)).observe(duration_ms / 1_000)
    },
    tokensCounted(model: string): void {
      counts.cell(model).value += 1
    },
    keepalive: (): void => keepalives.inc(),
    /** What the gateway added to a call before the upstream was asked, or before the answer's last byte left (D32). */
    added: (where: "before" | "after", duration_ms: number): void =>
      added[where].observe(duration_ms / 1_000),
    /** Where the breakers are read whenever the metrics are: by upstream, whether calls are turned away from it (D33). */
    watchBreakers(read: () => Iterable<readonly [upstream: string, open: boolean]>): void {
      new Gauge({
        name: "tollgate_upstream_breaker_open",
        help: "1 while this process turns calls away from an upstream that failed five times in a row, else 0.",
        labelNames: ["upstream"],
        registers,
        collect() {
          this.reset()
          for (const [upstream, open] of read()) this.set({ upstream }, open ? 1 : 0)
        },
      })
    },
  }
}
