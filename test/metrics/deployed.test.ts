import { describe, expect, test } from "bun:test"
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import { testFolder } from "../support/folder.ts"
import { ROOT, textOf } from "../support/repository.ts"
import { everything } from "./everything.ts"
import { type Family, parseExposition } from "./exposition.ts"

/** The alerts and the dashboard in deploy/: they ask for metrics that there are, in words that Prometheus takes. */

const ALERTS = join(ROOT, "deploy/prometheus/alerts.yaml")
const families: readonly Family[] = parseExposition(await everything().print())
const folder = testFolder()

const Rules = Type.Object({
  groups: Type.Array(
    Type.Object({
      rules: Type.Array(
        Type.Object({
          alert: Type.String(),
          expr: Type.String(),
          labels: Type.Object({ severity: Type.Union([Type.Literal("page"), Type.Literal("ticket")]) }),
          annotations: Type.Object({ summary: Type.String() }),
        }),
      ),
    }),
  ),
})
const rules = Value.Parse(Rules, Bun.YAML.parse(readFileSync(ALERTS, "utf8"))).groups.flatMap(
  (group) => group.rules,
)

const Dashboard = Type.Object({
  panels: Type.Array(
    Type.Object({
      id: Type.Number(),
      title: Type.String(),
      gridPos: Type.Object({ x: Type.Number(), y: Type.Number(), w: Type.Number(), h: Type.Number() }),
      targets: Type.Array(Type.Object({ expr: Type.String(), legendFormat: Type.String() })),
    }),
  ),
})
const { panels } = Value.Parse(Dashboard, JSON.parse(textOf("deploy/grafana/dashboard.json")))

/** What a query names that is no metric of ours, or a label or a value of `code` that its metric does not have. */
function unknownIn(query: string): string[] {
  const named = [...query.matchAll(/\b((?:gen_ai|tollgate|nodejs|process)_\w+)(?:\{([^}]*)\})?/g)].filter(
    ([, name = ""]) => !/^gen_ai_(?:request_model|operation_name|provider_name|token_type)$/.test(name),
  )
  return named.flatMap(([, name = "", matchers = ""]) => {
    const family = families.find((one) => one.name === name || one.samples.some((it) => it.name === name))
    if (family === undefined) return [name]
    const labels = new Set(["job", "instance", ...family.samples.flatMap((it) => Object.keys(it.labels))])
    const asked = [...matchers.matchAll(/(\w+)(?:=|!)/g)].map(([, label = ""]) => label)
    return asked.filter((label) => !labels.has(label)).map((label) => `${name}{${label}}`)
  })
}

/** With promtool, if this machine has it. */
function promtool(...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync("promtool", args, { encoding: "utf8" })
  return status === 0 ? "" : stdout + stderr
}
const has_promtool = Bun.which("promtool") !== null
if (!has_promtool) console.warn("SKIPPED: no promtool, so no alert is made to fire")

const queries = [
  ...rules.map(({ alert, expr }) => ({ of: alert, query: expr })),
  ...panels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ of: title, query: expr }))),
]

describe("D53 the queries of the alerts and of the dashboard", () => {
  test("name only metrics and labels that there are", () => {
    expect(queries.length).toBeGreaterThan(40)
    expect(queries.filter(({ query }) => unknownIn(query).length > 0)).toEqual([])
    expect(unknownIn('rate(tollgate_ready_total{worker="1"}[5m]) + tollgate_ready{color="red"}')).toEqual([
      "tollgate_ready_total",
      "tollgate_ready{color}",
    ])
  })

  test.skipIf(!has_promtool)("are queries that Prometheus takes", () => {
    const recorded = queries.map(({ query }, at) => ({
      record: `query_${at}`,
      expr: query.replaceAll("$__rate_interval", "5m"),
    }))
    const file = join(folder, "queries.yaml")
    writeFileSync(file, JSON.stringify({ groups: [{ name: "all", rules: recorded }] }))
    expect(promtool("check", "rules", "--lint=none", file)).toBe("")
    expect(promtool("check", "rules", ALERTS)).toBe("")
  })

  test("are in panels that do not lie over each other", () => {
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
    expect(panels.every(({ gridPos: { x, w } }) => x + w <= 24)).toBe(true)
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
  })
})

/** Of each alert: series by which it fires. `a+bx60`: from a on, b more each minute. */
const FIRING: Readonly<Record<string, readonly (readonly [series: string, values: string])[]>> = {
  TollgateMissing: [],
  TollgateNotReady: [["tollgate_ready{instance='a'}", "0x60"]],
  TollgateShardDown: [["tollgate_shard_writable{shard='two'}", "0x60"]],
  TollgateCallsFail: [
    ["tollgate_errors_total{code='upstream_error'}", "0+6x60"],
    ["tollgate_requests_total{route='/v1/chat/completions'}", "0+60x60"],
  ],
  TollgateAuditFailed: [["tollgate_audit_violations", "1x60"]],
  TollgateSpoolWaits: [["tollgate_spool_ends{instance='a'}", "3x60"]],
  TollgateAuditOld: [["tollgate_audit_timestamp_seconds", "-172900x60"]],
  TollgateUpstreamDown: [["tollgate_upstream_breaker_open{upstream='openai'}", "1x60"]],
  TollgateGatewayCrashed: [["tollgate_holds_expired_total", "0+1x60"]],
  TollgateChargedBelowCost: [["tollgate_charges_below_cost_total{model='m'}", "0+1x60"]],
  TollgateUsageUnclear: [["tollgate_usage_notes_total{model='m',note='usage_unread'}", "0+1x60"]],
  TollgateReportDiffers: [
    ["tollgate_reconciled_usd{provider='openai',part='theirs'}", "100x60"],
    ["tollgate_reconciled_usd{provider='openai',part='unexplained'}", "-0.6x60"],
  ],
  TollgateOverage: [["tollgate_overage_nano_usd_total{model='m'}", "0+1x60"]],
  TollgateCustomersRefused: [["tollgate_errors_total{code='insufficient_balance'}", "0+10x60"]],
  TollgateEventsLate: [["tollgate_event_lag_seconds{sink='billing'}", "601x60"]],
  TollgateSlowAdmission: [
    ["tollgate_added_latency_seconds_bucket{where='before',le='0.25'}", "0x60"],
    ["tollgate_added_latency_seconds_bucket{where='before',le='0.5'}", "0+60x60"],
    ["tollgate_added_latency_seconds_bucket{where='before',le='+Inf'}", "0+60x60"],
  ],
  TollgateLedgerSlow: [["tollgate_ledger_queue_depth{kind='hold'}", "1001x60"]],
  TollgateOverloaded: [["nodejs_eventloop_lag_p99_seconds{instance='a'}", "0.3x60"]],
}

/** Of a gateway that has nothing to alert about. */
const QUIET = [
  ["tollgate_ready{instance='a'}", "1x60"],
  ["tollgate_errors_total{code='upstream_error'}", "0+1x60"],
  ["tollgate_errors_total{code='insufficient_balance'}", "0+6x60"],
  ["tollgate_requests_total{route='/v1/chat/completions'}", "0+60x60"],
  ["tollgate_audit_violations", "0x60"],
  ["tollgate_audit_timestamp_seconds", "-170000x60"],
  ["tollgate_spool_ends{instance='a'}", "0x60"],
  ["tollgate_reconciled_usd{provider='openai',part='theirs'}", "100x60"],
  ["tollgate_reconciled_usd{provider='openai',part='unexplained'}", "-0.4x60"],
  ["tollgate_holds_expired_total", "5x60"],
  ["tollgate_upstream_breaker_open{upstream='openai'}", "0x60"],
  ["tollgate_event_lag_seconds{sink='billing'}", "30x60"],
  ["tollgate_added_latency_seconds_bucket{where='before',le='0.25'}", "0+60x60"],
  ["tollgate_added_latency_seconds_bucket{where='before',le='+Inf'}", "0+60x60"],
] as const

test.skipIf(!has_promtool)("each alert fires by what it is for, and none for a quiet gateway", () => {
  expect(Object.keys(FIRING).sort()).toEqual(rules.map(({ alert }) => alert).sort())
  const testOf = (series: (typeof FIRING)[string], expr: string, samples: readonly object[]) => ({
    interval: "1m",
    input_series: series.map(([name, values]) => ({ series: name, values })),
    promql_expr_test: [{ expr, eval_time: "30m", exp_samples: samples }],
  })
  const firing = Object.entries(FIRING).map(([alert, series]) =>
    testOf(series, `count(ALERTS{alertname="${alert}",alertstate="firing"})`, [{ labels: "{}", value: 1 }]),
  )
  const file = join(folder, "test.yaml")
  const tests = [...firing, testOf(QUIET, 'ALERTS{alertstate="firing"}', [])]
  writeFileSync(file, JSON.stringify({ rule_files: [ALERTS], evaluation_interval: "1m", tests }))
  expect(promtool("test", "rules", file)).toBe("")
})

test("D53 docs/metrics.md says what to do about each alert, and about no other", () => {
  const page = textOf("docs/metrics.md")
  const named = [...page.matchAll(/^\| `(Tollgate\w+)` \| (page|ticket) \|/gm)].map(
    ([, alert, severity]) => `${alert} ${severity}`,
  )
  expect(named).toEqual(rules.map(({ alert, labels }) => `${alert} ${labels.severity}`))
})
