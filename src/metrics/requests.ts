import { Counter, Gauge, type Registry } from "prom-client"
import type { Upstream } from "../config/config.ts"
import { OPERATION_S, OWN_S } from "./buckets.ts"
import { CellCounter, CellHistogram } from "./cells.ts"

/** Metrics of requests and of upstream attempts. */
export function requestMetrics(registry: Registry) {
  const registers = [registry]
  const requests = new CellCounter({
    name: "tollgate_requests_total",
    help: "Requests, by route and status; requests to unknown paths have the route unknown.",
    labelNames: ["route", "status"],
    registry,
  })
  const errors = new CellCounter({
    name: "tollgate_errors_total",
    help: "Requests that got an error, by route and error code of the gateway.",
    labelNames: ["route", "code"],
    registry,
  })
  const limited = new Counter({
    name: "tollgate_key_limit_refusals_total",
    help: "Requests rejected because their key reached a limit, by limit.",
    labelNames: ["limit"],
    registers,
  })
  const repeats = new Counter({
    name: "tollgate_idempotent_repeats_total",
    help: "Requests that repeated a call with its Idempotency-Key, including those that got the stored response.",
    registers,
  })
  const attempts = new CellHistogram({
    name: "tollgate_upstream_attempt_seconds",
    help: "Duration of upstream attempts, until the response headers or the failure, by upstream and outcome.",
    labelNames: ["upstream", "outcome"],
    buckets: OPERATION_S,
    registry,
  })
  const counts = new CellCounter({
    name: "tollgate_token_counts_total",
    help: "Successful token counts, by model.",
    labelNames: ["model"],
    registry,
  })
  const keepalives = new Counter({
    name: "tollgate_keepalives_total",
    help: "Keepalive comments sent in idle streams.",
    registers,
  })
  const added_latency = new CellHistogram({
    name: "tollgate_added_latency_seconds",
    help: "Latency that the gateway adds to a call, by where: before the request to the provider, or between the provider's response and the last byte.",
    labelNames: ["where"],
    buckets: OWN_S,
    registry,
  })
  const added = { before: added_latency.cell("before"), after: added_latency.cell("after") }
  return {
    /** Counts a request. `route` is its pattern, never its path; `code` is the error code, or null. */
    answered(route: string, status: number, code: string | null): void {
      requests.cell(route, String(status)).value += 1
      if (code !== null) errors.cell(route, code).value += 1
    },
    /** Counts a request rejected by a key's limit (D38). */
    keyLimited: (limit: string): void => limited.inc({ limit }),
    /** Counts a repeat: the Idempotency-Key and the body of an earlier request (D43). */
    repeated: (): void => repeats.inc(),
    /** Records an upstream attempt, up to its response headers. */
    attempted(upstream: Upstream, outcome: number | string, duration_ms: number): void {
      attempts.cell(upstream.name, outcomeLabel(outcome)).observe(duration_ms / 1_000)
    },
    tokensCounted(model: string): void {
      counts.cell(model).value += 1
    },
    keepalive: (): void => keepalives.inc(),
    /** Records the latency that the gateway added before the upstream request, or before the last byte (D32). */
    added: (where: "before" | "after", duration_ms: number): void =>
      added[where].observe(duration_ms / 1_000),
    /** Sets the source of the circuit breakers, which is read at each scrape: by upstream, whether it is open (D33). */
    watchBreakers(read: () => Iterable<readonly [upstream: string, open: boolean]>): void {
      new Gauge({
        name: "tollgate_upstream_breaker_open",
        help: "1 if the circuit breaker of the upstream is open in this process, otherwise 0.",
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

/** The statuses that get their own label. Others are grouped, because a provider could return hundreds of them. */
const KNOWN_STATUSES: ReadonlySet<number> = new Set([
  200, 201, 202, 204, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411,
  412, 413, 414, 415, 421, 422, 424, 425, 429, 431, 451, 498, 499, 500, 501, 502, 503, 504, 505, 507, 508,
  520, 521, 522, 523, 524, 525, 526, 529, 530,
])

/** The outcome of an attempt as a label: a known status, the class of another (`5xx`), or a fixed word. */
export function outcomeLabel(outcome: number | string): string {
  if (typeof outcome === "string" || KNOWN_STATUSES.has(outcome)) return String(outcome)
  const hundreds = Math.floor(outcome / 100)
  return hundreds >= 1 && hundreds <= 5 ? `${hundreds}xx` : "other"
}
