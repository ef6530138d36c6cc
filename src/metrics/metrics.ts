import type { Upstream } from "../config/config.ts"
import type { BudgetUse } from "../ledger/entries.ts"
import { type GrantSums, grantParts } from "../wire/credits.ts"
import { type PriceCounts, priceOrigins } from "../wire/customer-prices.ts"
import type { ComparedUsage } from "../wire/reconciliation.ts"
import type { Provider } from "../wire/reconciliation-words.ts"
import { callMetrics, OPERATION_S } from "./call-metrics.ts"
import type { MetricSeries } from "./help.ts"
import { processMetrics } from "./process-metrics.ts"
import { type MetricFamily, Registry } from "./registry.ts"

/** The metrics of one application, with a registry of its own, so that tests can run several in one process. */
export type Metrics = ReturnType<typeof createMetrics>

const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
/** Buckets of the gateway's own latencies: from 125 microseconds to 4 seconds. */
const OWN_S = Array.from({ length: 16 }, (_, power) => 0.000125 * 2 ** power)
/** Buckets of the number of items in a batched ledger statement. */
const BATCH = [1, 2, 4, 8, 16, 32, 64, 128, 256]

/**
 * With a `worker`, every series has its number as a label. Series of different processes are not summed here, because the end
 * of a process would look like a counter reset.
 *
 * Labels have a bounded number of values (D53): routes are patterns, models and upstreams come from the configuration, and the
 * rest are fixed words. No label contains a key, an account or text from a client or a provider.
 */
export function createMetrics(worker?: number) {
  const registry = new Registry(worker === undefined ? {} : { worker: String(worker) })
  processMetrics(registry)
  return {
    ...requestMetrics(registry),
    ...callMetrics(registry),
    ...ledgerMetrics(registry),
    ...traceMetrics(registry),
    watchReady(read: () => boolean): void {
      registry.gauge("tollgate_ready", () => (read() ? 1 : 0))
    },
    /** Sets the source of which shards can be written, which is read at each scrape (D74). */
    watchShards(read: () => readonly (readonly [shard: string, writable: boolean])[]): void {
      registry.gauges("tollgate_shard_writable{shard}", () => flags(read()))
    },
    ...sinkMetrics(registry),
    /** Counts a change by an operator (D102): its role and outcome. */
    changed: counting(registry, "tollgate_operator_changes_total{role,outcome}"),
    reconciled: reconciliationMetrics(registry),
    content_type: CONTENT_TYPE,
    print: (): Promise<string> => registry.print(),
    parts: (): AsyncIterable<string> => registry.parts(),
    families: (): readonly MetricFamily[] => registry.families,
  }
}

/** Counts one more with the values of the labels. */
function counting(registry: Registry, series: MetricSeries) {
  const counter = registry.counter(series)
  return (...of: readonly string[]): void => counter.of(...of).add()
}

/** A gauge's values: 1 for true. */
function flags(all: Iterable<readonly [of: string, yes: boolean]>): [value: number, of: string][] {
  return Array.from(all, ([of, yes]) => [yes ? 1 : 0, of])
}

/** Metrics of the sinks of events (D96), whose names come from the operator. */
function sinkMetrics(registry: Registry) {
  const sent = registry.counter("tollgate_event_messages_total{sink,outcome}")
  return {
    eventSent: (sink: string, outcome: "taken" | "refused" | "skipped", count: number): void =>
      sent.of(sink, outcome).add(count),
    watchSinks(read: () => Iterable<readonly [sink: string, lag_s: number]>): void {
      registry.gauges("tollgate_event_lag_seconds{sink}", () =>
        Array.from(read(), ([sink, lag_s]) => [lag_s, sink]),
      )
    },
  }
}

/** Metrics of exported and dropped spans (D54). */
function traceMetrics(registry: Registry) {
  const exported = registry.counter("tollgate_trace_spans_exported_total")
  const dropped = registry.counter("tollgate_trace_spans_dropped_total{reason}")
  return {
    spansExported: (count: number): void => exported.of().add(count),
    /** `reason` is a fixed word. */
    spansDropped: (count: number, reason: string): void => dropped.of(reason).add(count),
  }
}

function requestMetrics(registry: Registry) {
  const requests = registry.counter("tollgate_requests_total{route,status}")
  const errors = registry.counter("tollgate_errors_total{route,code}")
  const keyLimited = counting(registry, "tollgate_key_limit_refusals_total{limit}")
  const budgetReached = counting(registry, "tollgate_budget_refusals_total{selector,unit,per}")
  const pricesChanged = counting(registry, "tollgate_price_changes_met_total")
  const repeated = counting(registry, "tollgate_idempotent_repeats_total")
  const attempts = registry.histogram("tollgate_upstream_attempt_seconds{upstream,outcome}", OPERATION_S)
  const tokensCounted = counting(registry, "tollgate_token_counts_total{model}")
  const keepalive = counting(registry, "tollgate_keepalives_total")
  const added_latency = registry.histogram("tollgate_added_latency_seconds{where}", OWN_S)
  const added = { before: added_latency.of("before"), after: added_latency.of("after") }
  return {
    /** Counts a request. `route` is its pattern, never its path; `code` is the error code, or null. */
    answered(route: string, status: number, code: string | null): void {
      requests.of(route, String(status)).add()
      if (code !== null) errors.of(route, code).add()
    },
    /** Counts a request rejected by a key's limit (D38). */
    keyLimited,
    /** Counts a call refused by a budget (D97, D99). */
    budgetReached: ({ selector, unit, period }: Pick<BudgetUse, "selector" | "unit" | "period">): void =>
      budgetReached(selector, unit, period),
    /** Counts a hold that obeyed prices from before a change (D100). */
    pricesChanged,
    /** Counts a repeat: the Idempotency-Key and the body of an earlier request (D43). */
    repeated,
    /** Records an upstream attempt, up to its response headers. */
    attempted(upstream: Upstream, outcome: number | string, duration_ms: number): void {
      attempts.of(upstream.name, outcomeLabel(outcome)).observe(duration_ms / 1_000)
    },
    tokensCounted,
    keepalive,
    /** Records the latency that the gateway added before the upstream request, or before the last byte (D32). */
    latencyAdded: (where: "before" | "after", duration_ms: number): void =>
      added[where].observe(duration_ms / 1_000),
    /** Sets the source of the circuit breakers, which is read at each scrape: by upstream, whether it is open (D33). */
    watchBreakers(read: () => Iterable<readonly [upstream: string, open: boolean]>): void {
      registry.gauges("tollgate_upstream_breaker_open{upstream}", () => flags(read()))
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

interface Audited {
  readonly checked_at: Date
  readonly violations: readonly unknown[]
}

/** Queued items by kind of statement, and call ends in the spool. */
type Depths = Readonly<Record<string, number>> & { readonly spool: number }

function ledgerMetrics(registry: Registry) {
  const statements = registry.histogram("tollgate_ledger_statement_seconds{kind}", OWN_S)
  const batches = registry.histogram("tollgate_ledger_batch_size{kind}", BATCH)
  const expired = registry.counter("tollgate_holds_expired_total")
  const spooled = counting(registry, "tollgate_ends_spooled_total")
  const endIgnored = counting(registry, "tollgate_ends_ignored_total")
  const labelsReplaced = counting(registry, "tollgate_labels_replaced_total")
  return {
    /** Counts a statement of `kind` (a fixed word) that served `size` items. */
    statement(kind: string, size: number, duration_ms: number): void {
      statements.of(kind).observe(duration_ms / 1_000)
      batches.of(kind).observe(size)
    },
    expired: (count: number): void => expired.of().add(count),
    spooled,
    labelsReplaced,
    /** Counts an end that changed nothing, because the hold had already ended (D13). */
    endIgnored,
    grants: grantMetrics(registry),
    prices: priceMetrics(registry),
    audited: auditMetrics(registry),
    /** Sets the source of the queue depths and of the spool size (D27), which is read at each scrape. */
    watchDepths(read: () => Depths): void {
      registry.gauges("tollgate_ledger_queue_depth{kind}", () => {
        const { spool: _, ...queues } = read()
        return Object.entries(queues).map(([kind, depth]) => [depth, kind])
      })
      registry.gauge("tollgate_spool_ends", () => read().spool)
    },
  }
}

/** Sums of the grants of all shards (D95). Absent before they were first read. */
function grantMetrics(registry: Registry): (shard: string, sums: GrantSums) => void {
  const shards = new Map<string, GrantSums>()
  const sum = (read: (sums: GrantSums) => number) => sumOf([...shards.values()].map(read))
  registry.gauges("tollgate_grants_open", () => (shards.size === 0 ? [] : [[sum(({ open }) => open)]]))
  registry.gauges("tollgate_grants_nano_usd{part}", () =>
    shards.size === 0 ? [] : grantParts.map((part) => [sum(({ nano }) => Number(nano[part])), part]),
  )
  return (shard, sums) => void shards.set(shard, sums)
}

/** Accounts of all shards with customer prices (D100). Absent before they were first counted. */
function priceMetrics(registry: Registry): (shard: string, counts: PriceCounts) => void {
  const shards = new Map<string, PriceCounts>()
  registry.gauges("tollgate_priced_accounts{origin}", () => {
    const all = [...shards.values()]
    return all.length === 0 ? [] : priceOrigins.map((by) => [sumOf(all.map((one) => one[by])), by])
  })
  return (shard, counts) => void shards.set(shard, counts)
}

const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, one) => sum + one, 0)

/** The result of the last audit. Absent before the first one: a 0 would claim that the ledger is consistent. */
function auditMetrics(registry: Registry): (audit: Audited) => void {
  let last: readonly Audited[] = []
  registry.gauges("tollgate_audit_violations", () => last.map(({ violations }) => [violations.length]))
  registry.gauges("tollgate_audit_timestamp_seconds", () =>
    last.map(({ checked_at }) => [checked_at.getTime() / 1_000]),
  )
  return (audit) => {
    last = [audit]
  }
}

/** The last comparison with each provider's usage (D98). Absent before the first one. */
function reconciliationMetrics(
  registry: Registry,
): (provider: Provider, at: Date, compared: ComparedUsage) => void {
  const last = new Map<Provider, { readonly at: Date; readonly amounts: Readonly<Record<string, string>> }>()
  registry.gauges("tollgate_reconciled_usd{provider,part}", () =>
    [...last].flatMap(([provider, { amounts }]) =>
      Object.entries(amounts).map(([part, amount]) => [Number(amount), provider, part] as const),
    ),
  )
  registry.gauges("tollgate_reconciliation_timestamp_seconds{provider}", () =>
    [...last].map(([provider, { at }]) => [at.getTime() / 1_000, provider]),
  )
  return (provider, at, { theirs, ours, unexplained, explained: { elsewhere } }) =>
    void last.set(provider, { at, amounts: { theirs, ours, unexplained, elsewhere } })
}
