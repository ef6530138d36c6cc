import type { Upstream } from "../../src/config/config.ts"
import type { Closing, Hold } from "../../src/ledger/entries.ts"
import { createMetrics, type Metrics } from "../../src/metrics/metrics.ts"

export const upstream: Upstream = {
  name: "openai",
  family: "chat",
  base_url: "http://127.0.0.1:1",
  api_key: "sk-canary",
  timeouts: { first_byte_ms: 1, idle_ms: 1, total_ms: 1 },
  on_disconnect: { stream: "abort", json: "drain", drain_for_ms: 1 },
}

export const hold: Hold = {
  id: "019f8b1c-6a2e-7000-9c41-2f6d0e5b7a13",
  account_id: "019f8b1c-0000-7000-8b7a-5d1f3c9e2a40",
  key_id: "019f8b1c-2222-7000-9d4e-1a6b8c0f7e32",
  amount_nano: 5_000n,
  model: "gpt-5-mini",
  family: "chat",
  upstream: "openai",
  stream: true,
  price: { input_pico: 1n, cached_input_pico: 1n, output_pico: 1n, per_call_nano: 0n },
  idempotency: null,
}

export const usage = { prompt_tokens: 40, cached_tokens: 8, completion_tokens: 150 }

export const settled: Closing = {
  id: hold.id,
  outcome: "settled",
  charge_nano: 4_321n,
  basis: "usage",
  ending: "completed",
  failure: null,
  notes: [],
  usage,
  upstream: "openai",
  ttft_ms: 300,
  duration_ms: 2_500,
}

export const released: Closing = {
  ...settled,
  outcome: "released",
  charge_nano: 0n,
  basis: "none",
  ending: null,
  failure: "upstream_unavailable",
  usage: null,
  upstream: null,
  ttft_ms: null,
}

/** Metrics that have something to say of everything there is. */
export function everything(metrics: Metrics = createMetrics()): Metrics {
  metrics.watchCalls(() => ({ count: 1, held_nano: 1n }))
  metrics.watchDepths(() => ({ reserve: 1, close: 0, standing: 0, spool: 1 }))
  metrics.watchBreakers(() => [[upstream.name, false]])
  metrics.watchReady(() => true)
  metrics.answered("/v1/chat/completions", 402, "insufficient_balance")
  metrics.keyLimited("in_flight")
  metrics.repeated()
  metrics.attempted(upstream, 200, 40)
  metrics.tokensCounted("claude-sonnet")
  metrics.keepalive()
  metrics.added("before", 2)
  metrics.added("after", 2)
  metrics.settled(hold, { ...settled, charge_nano: hold.amount_nano + 1n })
  metrics.settled(hold, released)
  metrics.statement("reserve", 64, 2)
  metrics.expired(1)
  metrics.spooled()
  metrics.closingIgnored()
  metrics.audited({ checked_at: new Date(), violations: [] })
  metrics.spansExported(1)
  metrics.spansDropped(1, "queue_full")
  return metrics
}
