import { expect, test } from "bun:test"
import { Elysia } from "elysia"
import type { End } from "../../src/ledger/entries.ts"
import type { MeteredCall } from "../../src/metrics/call-metrics.ts"
import { createMetrics, type Metrics } from "../../src/metrics/metrics.ts"
import { metrics as metricsRoute } from "../../src/routes/health.ts"
import { rawClient } from "../support/raw-client.ts"
import { call, everything, released, settled, upstream, usage } from "./everything.ts"
import { parseExposition } from "./exposition.ts"

/** The samples, without comments and what the process itself tells. */
async function samples(metrics: Metrics): Promise<string[]> {
  const lines = (await metrics.print()).split("\n")
  return lines.filter((line) => line !== "" && !/^(#|process_|nodejs_)/.test(line))
}

const GEN_AI = `gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="gpt-5-mini"`

/** Sums, counts and numbers of all that `everything` records. */
const NUMBERS = `
tollgate_requests_total{route="/v1/chat/completions",status="402"} 1
tollgate_requests_total{route="/v1/models",status="200"} 1
tollgate_errors_total{route="/v1/chat/completions",code="insufficient_balance"} 1
tollgate_key_limit_refusals_total{limit="in_flight"} 1
tollgate_budget_refusals_total{selector="group",unit="usd",per="month"} 1
tollgate_price_changes_met_total 1
tollgate_idempotent_repeats_total 1
tollgate_upstream_attempt_seconds_sum{upstream="openai",outcome="200"} 0.04
tollgate_upstream_attempt_seconds_count{upstream="openai",outcome="200"} 1
tollgate_upstream_attempt_seconds_sum{upstream="openai",outcome="unreachable"} 0.001
tollgate_upstream_attempt_seconds_count{upstream="openai",outcome="unreachable"} 1
tollgate_token_counts_total{model="claude-sonnet"} 1
tollgate_keepalives_total 1
tollgate_added_latency_seconds_sum{where="before"} 0.002
tollgate_added_latency_seconds_count{where="before"} 1
tollgate_added_latency_seconds_sum{where="after"} 0.002
tollgate_added_latency_seconds_count{where="after"} 1
tollgate_calls_settled_total{model="gpt-5-mini",operation="chat",basis="usage"} 1
tollgate_calls_released_total{model="gpt-5-mini",operation="chat",failure="upstream_unavailable"} 1
tollgate_calls_ended_total{stream="true",ending="completed"} 1
tollgate_calls_ended_total{stream="true",ending="none"} 1
tollgate_charged_nano_usd_total{model="gpt-5-mini"} 5007
tollgate_overage_nano_usd_total{model="gpt-5-mini"} 7
tollgate_usage_notes_total{model="gpt-5-mini",note="usage_unread"} 2
tollgate_charges_below_cost_total{model="gpt-5-mini"} 1
tollgate_tokens_total{model="gpt-5-mini",kind="prompt"} 40
tollgate_tokens_total{model="gpt-5-mini",kind="cached"} 8
tollgate_tokens_total{model="gpt-5-mini",kind="completion"} 150
gen_ai_client_operation_duration_seconds_sum{${GEN_AI}} 2.5
gen_ai_client_operation_duration_seconds_count{${GEN_AI}} 1
gen_ai_client_operation_duration_seconds_sum{${GEN_AI},error_type="upstream_unavailable"} 2.5
gen_ai_client_operation_duration_seconds_count{${GEN_AI},error_type="upstream_unavailable"} 1
gen_ai_client_token_usage_sum{${GEN_AI},gen_ai_token_type="input"} 40
gen_ai_client_token_usage_count{${GEN_AI},gen_ai_token_type="input"} 1
gen_ai_client_token_usage_sum{${GEN_AI},gen_ai_token_type="output"} 150
gen_ai_client_token_usage_count{${GEN_AI},gen_ai_token_type="output"} 1
gen_ai_server_time_to_first_token_seconds_sum{${GEN_AI}} 0.3
gen_ai_server_time_to_first_token_seconds_count{${GEN_AI}} 1
gen_ai_server_time_per_output_token_seconds_sum{${GEN_AI}} ${2_200 / 149 / 1_000}
gen_ai_server_time_per_output_token_seconds_count{${GEN_AI}} 1
tollgate_ledger_statement_seconds_sum{kind="hold"} 0.002
tollgate_ledger_statement_seconds_count{kind="hold"} 1
tollgate_ledger_batch_size_sum{kind="hold"} 64
tollgate_ledger_batch_size_count{kind="hold"} 1
tollgate_holds_expired_total 3
tollgate_ends_spooled_total 1
tollgate_ends_ignored_total 1
tollgate_labels_replaced_total 0
tollgate_grants_open 2
tollgate_grants_nano_usd{part="left"} 5
tollgate_grants_nano_usd{part="expired"} 7
tollgate_grants_nano_usd{part="voided"} 0
tollgate_priced_accounts{origin="account"} 4
tollgate_priced_accounts{origin="price_list"} 8
tollgate_audit_violations 0
tollgate_audit_timestamp_seconds 2
tollgate_trace_spans_exported_total 12
tollgate_trace_spans_dropped_total{reason="queue_full"} 3
tollgate_event_messages_total{sink="billing",outcome="taken"} 1
tollgate_operator_changes_total{role="billing",outcome="done"} 1
tollgate_reconciled_usd{provider="openai",part="theirs"} 14.3
tollgate_reconciled_usd{provider="openai",part="ours"} 14.17
tollgate_reconciled_usd{provider="openai",part="unexplained"} 0.01
tollgate_reconciled_usd{provider="openai",part="elsewhere"} 0.03
tollgate_reconciled_usd{provider="anthropic",part="theirs"} 14.21
tollgate_reconciled_usd{provider="anthropic",part="ours"} 14.17
tollgate_reconciled_usd{provider="anthropic",part="unexplained"} 0.01
tollgate_reconciled_usd{provider="anthropic",part="elsewhere"} 0.03
tollgate_reconciliation_timestamp_seconds{provider="openai"} 3
tollgate_reconciliation_timestamp_seconds{provider="anthropic"} 2
tollgate_open_holds 2
tollgate_held_nano_usd 32810
tollgate_ledger_queue_depth{kind="hold"} 3
tollgate_ledger_queue_depth{kind="end"} 0
tollgate_ledger_queue_depth{kind="standing"} 0
tollgate_spool_ends 7
tollgate_upstream_breaker_open{upstream="openai"} 1
tollgate_upstream_breaker_open{upstream="spare"} 0
tollgate_ready 1
tollgate_shard_writable{shard="main"} 1
tollgate_shard_writable{shard="two"} 0
tollgate_event_lag_seconds{sink="billing"} 2
`
/** Buckets around values that it records. */
const BUCKETS = [
  `gen_ai_client_operation_duration_seconds_bucket{le="1.28",${GEN_AI}} 0`,
  `gen_ai_client_operation_duration_seconds_bucket{le="2.56",${GEN_AI}} 1`,
  `gen_ai_client_operation_duration_seconds_bucket{le="81.92",${GEN_AI}} 1`,
  `gen_ai_client_token_usage_bucket{le="67108864",${GEN_AI},gen_ai_token_type="output"} 1`,
  `gen_ai_server_time_to_first_token_seconds_bucket{le="0.25",${GEN_AI}} 0`,
  `gen_ai_server_time_to_first_token_seconds_bucket{le="0.5",${GEN_AI}} 1`,
  `gen_ai_server_time_per_output_token_seconds_bucket{le="0.01",${GEN_AI}} 0`,
  `gen_ai_server_time_per_output_token_seconds_bucket{le="0.025",${GEN_AI}} 1`,
  'tollgate_added_latency_seconds_bucket{le="0.001",where="before"} 0',
  'tollgate_added_latency_seconds_bucket{le="0.002",where="before"} 1',
  'tollgate_ledger_batch_size_bucket{le="32",kind="hold"} 0',
  'tollgate_ledger_batch_size_bucket{le="64",kind="hold"} 1',
]

test("D11 D13 D15 D22 D27 D28 D33 D38 D43 D54 D95 D96 D97 D98 D100 D102 is counted, by its labels", async () => {
  const printed = await samples(everything())
  expect(printed.filter((line) => !line.includes("_bucket{"))).toEqual(NUMBERS.trim().split("\n"))
  expect(BUCKETS.filter((line) => !printed.includes(line))).toEqual([])
})

test("a call without tokens, output or overage is counted nowhere it has nothing to say", async () => {
  const metrics = createMetrics()
  metrics.ended(call, released)
  const printed = await samples(metrics)
  expect(
    printed.filter((line) => /tokens_total|token_usage|first_token.*count|overage|settled/.test(line)),
  ).toEqual([])
})

const STREAMED: [string, Partial<MeteredCall>, Partial<End>, string[]][] = [
  ["a JSON answer comes at once: it has no first token", { stream: false }, {}, []],
  ["one token has none after it", {}, { usage: { ...usage, completion_tokens: 1 } }, ["first_token"]],
  ["an estimate is no count of tokens", {}, { basis: "estimate" }, ["first_token"]],
  ["no output, no first token", {}, { ttft_ms: null }, []],
]
test.each(STREAMED)("the latencies of tokens: %s", async (_, held, closed, expected) => {
  const metrics = createMetrics()
  metrics.ended({ ...call, ...held }, { ...settled, ...closed })
  const counts = (await samples(metrics)).flatMap(
    (line) => /^gen_ai_server_time_(?:to|per)_(\w+)_seconds_count/.exec(line)?.[1] ?? [],
  )
  expect(counts).toEqual(expected)
})

test("nothing is said of audits before the first: a 0 would say that the ledger agrees", async () => {
  expect((await samples(createMetrics())).filter((line) => line.includes("audit"))).toEqual([])
})

test("an upstream that is configured no more is not shown any more", async () => {
  const metrics = createMetrics()
  const upstreams: [string, boolean][] = [["gone", true]]
  metrics.watchBreakers(() => upstreams)
  expect(await samples(metrics)).toContain('tollgate_upstream_breaker_open{upstream="gone"} 1')
  upstreams.pop()
  expect((await samples(metrics)).filter((line) => line.includes("gone"))).toEqual([])
})

test("D53 whatever a provider answers, the outcomes of its attempts are few", async () => {
  const metrics = createMetrics()
  for (let status = 0; status < 1_000; status++) metrics.attempted(upstream, status, 1)
  const outcomes = new Set(
    (await samples(metrics)).flatMap(
      (line) => /upstream_attempt_seconds_count.*outcome="(\w+)"/.exec(line)?.[1] ?? [],
    ),
  )
  expect([...outcomes].filter((outcome) => !/^[1-5]\d\d$/.test(outcome)).sort()).toEqual([
    "1xx",
    "2xx",
    "3xx",
    "4xx",
    "5xx",
    "other",
  ])
  expect(outcomes.size).toBeLessThan(70)
  for (const known of ["200", "429", "500", "503", "529"]) expect(outcomes).toContain(known)
})

test("two applications in one process count apart", async () => {
  const [one, two] = [createMetrics(), createMetrics()]
  one.keepalive()
  expect(await samples(one)).toContain("tollgate_keepalives_total 1")
  expect(await samples(two)).toContain("tollgate_keepalives_total 0")
})

test("no label carries a key, an account, a call or a provider's credential", async () => {
  const text = await everything().print()
  for (const secret of [settled.id, "sk-canary"]) expect(text).not.toContain(secret)
})

test("GET /metrics is Prometheus' text format, with the process's own metrics", async () => {
  const app = new Elysia().use(metricsRoute(everything(), null))
  const response = await app.handle(new Request("http://localhost/metrics"))
  expect([response.status, response.headers.get("content-type")]).toEqual([
    200,
    "text/plain; version=0.0.4; charset=utf-8",
  ])
  const names = parseExposition(await response.text()).map(({ name }) => name)
  expect(names).toContain("nodejs_eventloop_lag_p99_seconds")
  expect(names).toContain("process_resident_memory_bytes")
  expect(names.filter((name) => !/^(gen_ai|tollgate|process|nodejs)_/.test(name))).toEqual([])
})

test("thousands of series are printed in parts, between which others get their turn", async () => {
  const metrics = createMetrics()
  const end = { ...settled, outcome: "settled" as const }
  for (let n = 0; n < 1_000; n += 1) metrics.ended({ ...call, model: `model-${n}` }, end)
  let turns = 0
  const count = setInterval(() => (turns += 1), 0)
  const parts = await Array.fromAsync(metrics.parts())
  clearInterval(count)
  expect(turns).toBeGreaterThan(3)
  expect(parts.length).toBeGreaterThan(3)
  const printed = parseExposition(parts.join("")).flatMap(({ samples }) => samples)
  const models = new Set(printed.map(({ labels }) => labels.gen_ai_request_model))
  expect(models.size).toBe(1_001)
})

test("a client that does not read /metrics, or leaves, has little made for it", async () => {
  const made: number[] = []
  const ended: Promise<void>[] = []
  function parts() {
    const { promise, resolve } = Promise.withResolvers<void>()
    const at = made.push(0) - 1
    ended.push(promise)
    return (async function* () {
      try {
        for (let count = 1; count <= 1_000; count += 1) {
          made[at] = count
          yield "x".repeat(65_536)
        }
      } finally {
        resolve()
      }
    })()
  }
  const app = new Elysia().use(metricsRoute({ ...createMetrics(), parts }, null)).listen(0)
  const url = `http://localhost:${app.server?.port}`
  const client = await rawClient({ url })
  client.send("GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n")
  await client.receives("xxx")
  client.stopReading()
  expect(await (await fetch(`${url}/metrics`)).text()).toHaveLength(65_536_000)
  expect(made).toEqual([expect.any(Number), 1_000])
  expect(made[0]).toBeLessThan(500)
  client.reset()
  await ended[0]
  expect(made[0]).toBeLessThan(500)
  await app.stop(true)
})

test("metrics keep no process alive", async () => {
  const source = `
    import { createMetrics } from ${JSON.stringify(import.meta.resolve("../../src/metrics/metrics.ts"))}
    await createMetrics().print()`
  const child = Bun.spawn([process.execPath, "-e", source], { stdout: "inherit", stderr: "inherit" })
  expect(await child.exited).toBe(0)
})
