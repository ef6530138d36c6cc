import type { End } from "../../src/ledger/entries.ts"
import type { MeteredCall } from "../../src/metrics/call-metrics.ts"
import { createMetrics, type Metrics } from "../../src/metrics/metrics.ts"
import type { ComparedUsage } from "../../src/wire/reconciliation.ts"
import { anUpstream } from "../support/upstream.ts"

export const upstream = anUpstream({ name: "openai", api_key: "sk-canary" })

export const call: MeteredCall = {
  model: "gpt-5-mini",
  operation: "chat",
  upstream: "openai",
  stream: true,
  amount_nano: 5_000n,
}

export const usage = { prompt_tokens: 40, cached_tokens: 8, completion_tokens: 150 }

export const settled: End = {
  id: "019f8b1c-6a2e-7000-9c41-2f6d0e5b7a13",
  outcome: "settled",
  charge_nano: 4_321n,
  basis: "usage",
  ending: "completed",
  failure: null,
  notes: ["usage_unread"],
  usage,
  terms_id: 1,
  ttft_ms: 300,
  duration_ms: 2_500,
  freed_key_hash: null,
}

export const released: End = {
  ...settled,
  outcome: "released",
  charge_nano: 0n,
  basis: "none",
  ending: null,
  failure: "upstream_unavailable",
  usage: null,
  terms_id: null,
  ttft_ms: null,
}

export const compared: ComparedUsage = {
  rows: [],
  theirs: "14.21",
  ours: "14.17",
  difference: "0.04",
  explained: { attempts: "0", estimates: "0", cut: "0", boundary: "0", elsewhere: "0.03" },
  unexplained: "0.01",
  unmatched: "0.04",
  unmatched_percent: 0.2815,
  has_more: false,
}

/** Metrics that have something to say of everything there is. */
export function everything(metrics: Metrics = createMetrics()): Metrics {
  metrics.watchCalls(() => ({ count: 2, held_nano: 32_810n }))
  metrics.watchDepths(() => ({ hold: 3, end: 0, standing: 0, spool: 7 }))
  metrics.watchBreakers(() => [
    [upstream.name, true],
    ["spare", false],
  ])
  metrics.watchReady(() => true)
  metrics.watchShards(() => [
    ["main", true],
    ["two", false],
  ])
  metrics.answered("/v1/chat/completions", 402, "insufficient_balance")
  metrics.keyLimited("in_flight")
  metrics.budgetReached({ selector: "group", unit: "usd", period: "month" })
  metrics.pricesChanged()
  metrics.repeated()
  metrics.answered("/v1/models", 200, null)
  metrics.attempted(upstream, 200, 40)
  metrics.attempted(upstream, "unreachable", 1)
  metrics.tokensCounted("claude-sonnet")
  metrics.keepalive()
  metrics.latencyAdded("before", 2)
  metrics.latencyAdded("after", 2)
  metrics.belowCost(call.model)
  metrics.ended(call, { ...settled, charge_nano: call.amount_nano + 7n })
  metrics.ended(call, released)
  metrics.statement("hold", 64, 2)
  metrics.expired(3)
  metrics.spooled()
  metrics.endIgnored()
  metrics.grants("main", { open: 2, nano: { left: 5n, expired: 7n, voided: 0n } })
  metrics.prices("main", { account: 2, price_list: 0 })
  metrics.prices("second", { account: 1, price_list: 7 })
  metrics.prices("main", { account: 3, price_list: 1 })
  metrics.audited({ checked_at: new Date(1_000), violations: ["one"] })
  metrics.audited({ checked_at: new Date(2_000), violations: [] })
  metrics.watchSinks(() => [["billing", 2]])
  metrics.eventSent("billing", "taken", 1)
  metrics.changed("billing", "done")
  metrics.reconciled("openai", new Date(1_000), compared)
  metrics.reconciled("anthropic", new Date(2_000), compared)
  metrics.reconciled("openai", new Date(3_000), { ...compared, theirs: "14.3" })
  metrics.spansExported(12)
  metrics.spansDropped(3, "queue_full")
  return metrics
}
