import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client"
import type { Upstream } from "../config/config.ts"
import { callMetrics } from "./call-metrics.ts"
import { BATCH, CellCounter, CellHistogram, OPERATION_S, OWN_S } from "./cells.ts"

/** The metrics of one application, with a registry of its own, so that tests can run several in one process. */
export type Metrics = ReturnType<typeof createMetrics>

/** The sampling interval of the event loop's lag. prom-client's 10 ms would wake an idle process 100 times per second. */
const LAG_SAMPLE_MS = 50
/** Default metrics of prom-client that Bun does not support: they would be 0 or wrong. */
const UNSUPPORTED = [
  "nodejs_eventloop_lag_min_seconds",
  "nodejs_eventloop_lag_mean_seconds",
  "nodejs_eventloop_lag_stddev_seconds",
  "nodejs_active_resources",
  "nodejs_active_resources_total",
  "nodejs_active_handles",
  "nodejs_active_handles_total",
  "nodejs_active_requests",
  "nodejs_active_requests_total",
  "nodejs_heap_space_size_total_bytes",
  "nodejs_heap_space_size_used_bytes",
  "nodejs_heap_space_size_available_bytes",
  "nodejs_gc_duration_seconds",
]

/**
 * With a `worker`, every series has its number as a label. Series of different processes are not summed here, because the end
 * of a process would look like a counter reset.
 *
 * Labels have a bounded number of values (D53): routes are patterns, models and upstreams come from the configuration, and the
 * rest are fixed words. No label contains a key, an account or text from a client or a provider.
 */
export function createMetrics(worker?: number) {
  const registry = new Registry()
  if (worker !== undefined) registry.setDefaultLabels({ worker: String(worker) })
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LAG_SAMPLE_MS })
  for (const name of UNSUPPORTED) registry.removeSingleMetric(name)
  return {
    ...requestMetrics(registry),
    ...callMetrics(registry),
    ...ledgerMetrics(registry),
    ...traceMetrics(registry),
    /** Sets the source of the readiness, which is read at each scrape. */
    watchReady(read: () => boolean): void {
      new Gauge({
        name: "tollgate_ready",
        help: "1 if this process accepts new calls (/readyz is 200), otherwise 0.",
        registers: [registry],
        collect() {
          this.set(read() ? 1 : 0)
        },
      })
    },
    /** Sets the source of which shards can be written, which is read at each scrape (D74). */
    watchShards(read: () => readonly (readonly [shard: string, writable: boolean])[]): void {
      new Gauge({
        name: "tollgate_shard_writable",
        help: "1 if new calls of accounts in the shard can be held, otherwise 0. Only with several shards.",
        labelNames: ["shard"],
        registers: [registry],
        collect() {
          for (const [shard, writable] of read()) this.set({ shard }, writable ? 1 : 0)
        },
      })
    },
    registry,
    content_type: registry.contentType,
    /** All metrics in the Prometheus text format. */
    print: (): Promise<string> => registry.metrics(),
  }
}

/** Metrics of exported and dropped spans (D54). */
function traceMetrics(registry: Registry) {
  const registers = [registry]
  const exported = new Counter({
    name: "tollgate_trace_spans_exported_total",
    help: "Spans that the collector accepted.",
    registers,
  })
  const dropped = new Counter({
    name: "tollgate_trace_spans_dropped_total",
    help: "Spans that were dropped, by reason: queue_full, refused (by the collector) or unreachable.",
    labelNames: ["reason"],
    registers,
  })
  return {
    spansExported: (count: number): void => exported.inc(count),
    /** `reason` is a fixed word. */
    spansDropped: (count: number, reason: string): void => dropped.inc({ reason }, count),
  }
}

/** Metrics of requests and of upstream attempts. */
function requestMetrics(registry: Registry) {
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
    help: "Requests refused because their key reached a limit, by limit.",
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
function outcomeLabel(outcome: number | string): string {
  if (typeof outcome === "string" || KNOWN_STATUSES.has(outcome)) return String(outcome)
  const hundreds = Math.floor(outcome / 100)
  return hundreds >= 1 && hundreds <= 5 ? `${hundreds}xx` : "other"
}

/** The result of an audit. */
interface Audited {
  readonly checked_at: Date
  readonly violations: readonly unknown[]
}

/** Queued items by kind of statement, and call ends in the spool. */
type Depths = Readonly<Record<string, number>> & { readonly spool: number }

/** Metrics of the ledger. */
function ledgerMetrics(registry: Registry) {
  const registers = [registry]
  const statements = new CellHistogram({
    name: "tollgate_ledger_statement_seconds",
    help: "Duration of ledger statements, by kind.",
    labelNames: ["kind"],
    buckets: OWN_S,
    registry,
  })
  const batches = new CellHistogram({
    name: "tollgate_ledger_batch_size",
    help: "Items per batched ledger statement, by kind.",
    labelNames: ["kind"],
    buckets: BATCH,
    registry,
  })
  const expired = new Counter({
    name: "tollgate_holds_expired_total",
    help: "Holds of crashed gateways that this process expired.",
    registers,
  })
  const spooled = new Counter({
    name: "tollgate_ends_spooled_total",
    help: "Call ends that were written to the spool because the database was unavailable.",
    registers,
  })
  const ignored = new Counter({
    name: "tollgate_ends_ignored_total",
    help: "Call ends that were ignored because the hold had already ended.",
    registers,
  })
  const replaced = new Counter({
    name: "tollgate_labels_replaced_total",
    help: "Calls whose end user and tags were replaced, because their account had too many new ones on that day.",
    registers,
  })
  return {
    /** Counts a statement of `kind` (a fixed word) that served `size` items. */
    statement(kind: string, size: number, duration_ms: number): void {
      statements.cell(kind).observe(duration_ms / 1_000)
      batches.cell(kind).observe(size)
    },
    expired: (count: number): void => expired.inc(count),
    spooled: (): void => spooled.inc(),
    labelsReplaced: (): void => replaced.inc(),
    /** Counts an end that changed nothing, because the hold had already ended (D13). */
    endIgnored: (): void => ignored.inc(),
    audited: auditMetrics(registry),
    /** Sets the source of the queue depths and of the spool size (D27), which is read at each scrape. */
    watchDepths(read: () => Depths): void {
      new Gauge({
        name: "tollgate_ledger_queue_depth",
        help: "Items that wait in a batch queue of the ledger, by kind of statement.",
        labelNames: ["kind"],
        registers,
        collect() {
          const { spool, ...queues } = read()
          for (const [kind, depth] of Object.entries(queues)) this.set({ kind }, depth)
        },
      })
      new Gauge({
        name: "tollgate_spool_ends",
        help: "Call ends and attempts of this process that are in the spool and not yet in the database.",
        registers,
        collect() {
          this.set(read().spool)
        },
      })
    },
  }
}

/** The result of the last audit. Absent before the first one: a 0 would claim that the ledger is consistent. */
function auditMetrics(registry: Registry): (audit: Audited) => void {
  const violations = new Gauge({
    name: "tollgate_audit_violations",
    help: "Violations found by the last audit of this process; absent before the first audit.",
    registers: [],
  })
  const last = new Gauge({
    name: "tollgate_audit_timestamp_seconds",
    help: "Time of the last audit of this process, as a Unix timestamp; absent before the first audit.",
    registers: [],
  })
  return (audit) => {
    violations.set(audit.violations.length)
    last.set(audit.checked_at.getTime() / 1_000)
    for (const gauge of [violations, last]) registry.registerMetric(gauge)
  }
}
