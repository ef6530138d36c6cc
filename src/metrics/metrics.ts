import type { Upstream } from "../config/config.ts"
import type { BudgetUse } from "../ledger/entries.ts"
import { type GrantSums, grantParts } from "../wire/credits.ts"
import { type PriceCounts, priceOrigins } from "../wire/customer-prices.ts"
import type { ChangeBody } from "../wire/operators.ts"
import type { ComparedUsage } from "../wire/reconciliation.ts"
import type { Provider } from "../wire/reconciliation-words.ts"
import type { RecordedRole } from "../wire/roles.ts"
import { callMetrics, OPERATION_S } from "./call-metrics.ts"
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
      const help = "1 if this process accepts new calls (/readyz is 200), otherwise 0."
      registry.gauge("tollgate_ready", help, () => (read() ? 1 : 0))
    },
    /** Sets the source of which shards can be written, which is read at each scrape (D74). */
    watchShards(read: () => readonly (readonly [shard: string, writable: boolean])[]): void {
      const help =
        "1 if new calls of accounts in the shard can be held, otherwise 0. Only with several shards."
      registry.gauges("tollgate_shard_writable{shard}", help, () => flags(read()))
    },
    ...sinkMetrics(registry),
    changed: changeMetrics(registry),
    reconciled: reconciliationMetrics(registry),
    content_type: CONTENT_TYPE,
    print: async (): Promise<string> => registry.print(),
    families: (): readonly MetricFamily[] => registry.families,
  }
}

/** A gauge's values: 1 for true. */
function flags(all: Iterable<readonly [of: string, yes: boolean]>): [value: number, of: string][] {
  return Array.from(all, ([of, yes]) => [yes ? 1 : 0, of])
}

/** Metrics of the sinks of events (D96), whose names come from the operator. */
function sinkMetrics(registry: Registry) {
  const sent = registry.counter(
    "tollgate_event_messages_total{sink,outcome}",
    "Events that this process sent to a sink, by sink and outcome: taken, refused, or skipped because it is refused for ever.",
  )
  return {
    eventSent: (sink: string, outcome: "taken" | "refused" | "skipped", count: number): void =>
      sent.of(sink, outcome).add(count),
    watchSinks(read: () => Iterable<readonly [sink: string, lag_s: number]>): void {
      const help =
        "Age of the oldest event that was not delivered to the sink, 0 if there is none. Only in the process that delivers to it."
      registry.gauges("tollgate_event_lag_seconds{sink}", help, () =>
        Array.from(read(), ([sink, lag_s]) => [lag_s, sink]),
      )
    },
  }
}

/** Metrics of exported and dropped spans (D54). */
function traceMetrics(registry: Registry) {
  const exported = registry.counter(
    "tollgate_trace_spans_exported_total",
    "Spans that the collector accepted.",
  )
  const dropped = registry.counter(
    "tollgate_trace_spans_dropped_total{reason}",
    "Spans that were dropped, by reason: queue_full, refused (by the collector) or unreachable.",
  )
  return {
    spansExported: (count: number): void => exported.of().add(count),
    /** `reason` is a fixed word. */
    spansDropped: (count: number, reason: string): void => dropped.of(reason).add(count),
  }
}

function requestMetrics(registry: Registry) {
  const requests = registry.counter(
    "tollgate_requests_total{route,status}",
    "Requests, by route and status; requests to unknown paths have the route unknown.",
  )
  const errors = registry.counter(
    "tollgate_errors_total{route,code}",
    "Requests that got an error, by route and error code of the gateway.",
  )
  const limited = registry.counter(
    "tollgate_key_limit_refusals_total{limit}",
    "Requests refused because their key reached a limit, by limit.",
  )
  const budgets = registry.counter(
    "tollgate_budget_refusals_total{selector,unit,per}",
    "Calls refused by a budget, by selector, unit and period of the budget that the error names.",
  )
  const changed_prices = registry.counter(
    "tollgate_price_changes_met_total",
    "Holds that were tried again, because a customer price had begun or ended since the process read it.",
  )
  const repeats = registry.counter(
    "tollgate_idempotent_repeats_total",
    "Requests that repeated a call with its Idempotency-Key, including those that got the stored response.",
  )
  const attempts = registry.histogram(
    "tollgate_upstream_attempt_seconds{upstream,outcome}",
    "Duration of upstream attempts, until the response headers or the failure, by upstream and outcome.",
    OPERATION_S,
  )
  const counts = registry.counter("tollgate_token_counts_total{model}", "Successful token counts, by model.")
  const keepalives = registry.counter("tollgate_keepalives_total", "Keepalive comments sent in idle streams.")
  const added_latency = registry.histogram(
    "tollgate_added_latency_seconds{where}",
    "Latency that the gateway adds to a call, by where: before the request to the provider, or between the provider's response and the last byte.",
    OWN_S,
  )
  const added = { before: added_latency.of("before"), after: added_latency.of("after") }
  return {
    /** Counts a request. `route` is its pattern, never its path; `code` is the error code, or null. */
    answered(route: string, status: number, code: string | null): void {
      requests.of(route, String(status)).add()
      if (code !== null) errors.of(route, code).add()
    },
    /** Counts a request rejected by a key's limit (D38). */
    keyLimited: (limit: string): void => limited.of(limit).add(),
    /** Counts a call refused by a budget (D97, D99). */
    budgetReached: ({ selector, unit, period }: Pick<BudgetUse, "selector" | "unit" | "period">): void =>
      budgets.of(selector, unit, period).add(),
    /** Counts a hold that obeyed prices from before a change (D100). */
    pricesChanged: (): void => changed_prices.of().add(),
    /** Counts a repeat: the Idempotency-Key and the body of an earlier request (D43). */
    repeated: (): void => repeats.of().add(),
    /** Records an upstream attempt, up to its response headers. */
    attempted(upstream: Upstream, outcome: number | string, duration_ms: number): void {
      attempts.of(upstream.name, outcomeLabel(outcome)).observe(duration_ms / 1_000)
    },
    tokensCounted(model: string): void {
      counts.of(model).add()
    },
    keepalive: (): void => keepalives.of().add(),
    /** Records the latency that the gateway added before the upstream request, or before the last byte (D32). */
    latencyAdded: (where: "before" | "after", duration_ms: number): void =>
      added[where].observe(duration_ms / 1_000),
    /** Sets the source of the circuit breakers, which is read at each scrape: by upstream, whether it is open (D33). */
    watchBreakers(read: () => Iterable<readonly [upstream: string, open: boolean]>): void {
      const help = "1 if the circuit breaker of the upstream is open in this process, otherwise 0."
      registry.gauges("tollgate_upstream_breaker_open{upstream}", help, () => flags(read()))
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
  const statements = registry.histogram(
    "tollgate_ledger_statement_seconds{kind}",
    "Duration of ledger statements, by kind.",
    OWN_S,
  )
  const batches = registry.histogram(
    "tollgate_ledger_batch_size{kind}",
    "Items per batched ledger statement, by kind.",
    BATCH,
  )
  const expired = registry.counter(
    "tollgate_holds_expired_total",
    "Holds of crashed gateways that this process expired.",
  )
  const spooled = registry.counter(
    "tollgate_ends_spooled_total",
    "Call ends that were written to the spool because the database was unavailable.",
  )
  const ignored = registry.counter(
    "tollgate_ends_ignored_total",
    "Call ends that were ignored because the hold had already ended.",
  )
  const replaced = registry.counter(
    "tollgate_labels_replaced_total",
    "Calls whose end user and tags were replaced, because their account had too many new ones on that day.",
  )
  return {
    /** Counts a statement of `kind` (a fixed word) that served `size` items. */
    statement(kind: string, size: number, duration_ms: number): void {
      statements.of(kind).observe(duration_ms / 1_000)
      batches.of(kind).observe(size)
    },
    expired: (count: number): void => expired.of().add(count),
    spooled: (): void => spooled.of().add(),
    labelsReplaced: (): void => replaced.of().add(),
    /** Counts an end that changed nothing, because the hold had already ended (D13). */
    endIgnored: (): void => ignored.of().add(),
    grants: grantMetrics(registry),
    prices: priceMetrics(registry),
    audited: auditMetrics(registry),
    /** Sets the source of the queue depths and of the spool size (D27), which is read at each scrape. */
    watchDepths(read: () => Depths): void {
      const waiting = "Items that wait in a batch queue of the ledger, by kind of statement."
      registry.gauges("tollgate_ledger_queue_depth{kind}", waiting, () => {
        const { spool: _, ...queues } = read()
        return Object.entries(queues).map(([kind, depth]) => [depth, kind])
      })
      const spooled =
        "Call ends and attempts of this process that are in the spool and not yet in the database."
      registry.gauge("tollgate_spool_ends", spooled, () => read().spool)
    },
  }
}

/** Sums of the grants of all shards (D95). Absent before they were first read. */
function grantMetrics(registry: Registry): (shard: string, sums: GrantSums) => void {
  const shards = new Map<string, GrantSums>()
  const sum = (read: (sums: GrantSums) => number) =>
    [...shards.values()].reduce((all, one) => all + read(one), 0)
  return (shard, sums) => {
    const is_first = shards.size === 0
    shards.set(shard, sums)
    if (!is_first) return
    const open = "Credit grants with money left. Every process has the number of the whole ledger."
    registry.gauge("tollgate_grants_open", open, () => sum((one) => one.open))
    const amounts =
      "Amounts of credit grants, in nano-USD, by part: left (not spent), expired or voided. Every process has the sums of the whole ledger."
    registry.gauges("tollgate_grants_nano_usd{part}", amounts, () =>
      grantParts.map((part) => [sum(({ nano }) => Number(nano[part])), part]),
    )
  }
}

/** Accounts of all shards with customer prices (D100). Absent before they were first counted. */
function priceMetrics(registry: Registry): (shard: string, counts: PriceCounts) => void {
  const shards = new Map<string, PriceCounts>()
  return (shard, counts) => {
    const is_first = shards.size === 0
    shards.set(shard, counts)
    if (!is_first) return
    const help =
      "Accounts with customer prices that apply now, by origin: account or price_list. Every process has the numbers of the whole ledger."
    registry.gauges("tollgate_priced_accounts{origin}", help, () =>
      priceOrigins.map((origin) => [[...shards.values()].reduce((sum, one) => sum + one[origin], 0), origin]),
    )
  }
}

/** Changes by operators (D102). */
function changeMetrics(registry: Registry): (role: RecordedRole, outcome: ChangeBody["outcome"]) => void {
  const changes = registry.counter(
    "tollgate_operator_changes_total{role,outcome}",
    "Changes by operators, by role and outcome: done, refused or unknown.",
  )
  return (role, outcome) => changes.of(role, outcome).add()
}

/** The result of the last audit. Absent before the first one: a 0 would claim that the ledger is consistent. */
function auditMetrics(registry: Registry): (audit: Audited) => void {
  let last: Audited | null = null
  return (audit) => {
    const is_first = last === null
    last = audit
    if (!is_first) return
    const violations = "Violations found by the last audit of this process; absent before the first audit."
    registry.gauge("tollgate_audit_violations", violations, () => last?.violations.length ?? 0)
    const time = "Time of the last audit of this process, as a Unix timestamp; absent before the first audit."
    registry.gauge("tollgate_audit_timestamp_seconds", time, () => (last?.checked_at.getTime() ?? 0) / 1_000)
  }
}

const reconciledParts = ["theirs", "ours", "unexplained", "elsewhere"] as const

/** The last comparison with each provider's usage (D98). Absent before the first one. */
function reconciliationMetrics(
  registry: Registry,
): (provider: Provider, at: Date, compared: ComparedUsage) => void {
  const last = new Map<Provider, { readonly at: Date; readonly amounts: readonly string[] }>()
  return (provider, at, { theirs, ours, unexplained, explained: { elsewhere } }) => {
    const is_first = last.size === 0
    last.set(provider, { at, amounts: [theirs, ours, unexplained, elsewhere] })
    if (!is_first) return
    const amounts =
      "Amounts of the last comparison of this process with a provider's usage, in USD at the configured prices, by provider and part: theirs, ours, unexplained or elsewhere."
    registry.gauges("tollgate_reconciled_usd{provider,part}", amounts, () =>
      [...last].flatMap(([name, one]) =>
        reconciledParts.map((part, index): [number, string, string] => [
          Number(one.amounts[index]),
          name,
          part,
        ]),
      ),
    )
    const time =
      "Time of the last comparison of this process with a provider's usage, as a Unix timestamp, by provider."
    registry.gauges("tollgate_reconciliation_timestamp_seconds{provider}", time, () =>
      [...last].map(([name, one]) => [one.at.getTime() / 1_000, name]),
    )
  }
}
