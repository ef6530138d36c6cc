import type { HistoryResults } from "./history.ts"
import type { AuditResult, CpuResult, FigureResult, PairsResult, Results, ScenarioResult } from "./results.ts"
import type { Goal } from "./scenario.ts"
import type { SoakResults } from "./soak.ts"
import type { Spread } from "./statistics.ts"

const UNITS = { times: "×", ms: " ms", KiB: " KiB" } as const

/** The table of a run for a terminal: figures and goals, then the absolute numbers. */
export function suiteTable(results: Results): string {
  const rows = results.scenarios.flatMap((scenario) =>
    scenario.figures.map((figure, at) => [
      at === 0 ? scenario.title : "the same",
      figure.name,
      goalText(figure),
      quantity(figure.median, figure.unit),
      `${quantity(figure.min, figure.unit)} to ${quantity(figure.max, figure.unit)}`,
      figure.goal === null ? "" : figure.reached ? "reached" : "missed",
      ...(at > 0 ? [] : cpuCells(scenario)),
    ]),
  )
  const head = ["scenario", "figure", "to reach", "median", "rounds", "", ...CPU_HEAD]
  return [...aligned([head, ...rows]), "", ...results.scenarios.flatMap(absolutes)].join("\n")
}

/** The columns for the CPU of a scenario's gateway. */
const CPU_HEAD = ["CPU: gateway", "Postgres", "load generator"]

export function cpuCells({ targets, pairs }: ScenarioResult): string[] {
  if (pairs !== null) {
    const [own] = Object.values(pairs)
    return own === undefined
      ? CPU_HEAD.map(() => "")
      : [`${us(own.process_us.median)} per pair`, eachUs(own), ""]
  }
  const gateway = targets === null ? undefined : (targets.tollgate ?? Object.values(targets)[0])
  if (gateway === undefined) return CPU_HEAD.map(() => "")
  const { per, target_us, postgres_us, load_us, load_share } = gateway.cpu
  return [
    `${us(target_us.median)} per ${per}`,
    postgres_us.median === 0 ? "" : us(postgres_us.median),
    `${us(load_us.median)} (${percent(load_share)})`,
  ]
}

/** The last lines of a run: the audit first. */
export function closingLines({
  audit,
  warnings = [],
  faults,
  duration_s,
}: Pick<Results, "audit" | "faults" | "duration_s"> & Partial<Pick<Results, "warnings">>): string {
  return [
    auditSentence(audit),
    ...warnings.map((warning) => `Warning: ${warning}`),
    ...faultLines(faults),
    `${Math.round(duration_s)} s`,
  ].join("\n")
}

function auditSentence({ calls, charged, faults }: AuditResult): string {
  if (faults.length > 0) return "Audit: THE MONEY DOES NOT ADD UP."
  return `Audit: ${calls} calls, ${charged} USD, every charge equal to what the provider counted; no hold left open.`
}

export function faultLines(faults: readonly string[]): string[] {
  return faults.length === 0 ? [] : ["FAILED", ...faults.map((fault) => `  ${fault}`)]
}

export function soakTable(results: SoakResults): string {
  const { slices, figures } = results
  const sliceRows = slices.map(
    ({ calls, left, resident_bytes, json_latency_ms: json, time_to_first_token_ms: ttft }) => [
      `  ${calls}`,
      String(left),
      `${(resident_bytes / 2 ** 20).toFixed(0)} MiB`,
      ...[json.p50, json.p99, ttft.p50, ttft.p99].map(ms),
    ],
  )
  const figureRows = figures.map(({ name, goal, unit, value, reached }) => [
    name,
    goalText({ goal, unit }),
    quantity(value, unit),
    reached ? "reached" : "missed",
  ])
  return [
    ...aligned([["figure", "to reach", "value", ""], ...figureRows]),
    "",
    ...aligned([["  calls", "left", "memory", "JSON p50", "p99", "TTFT p50", "p99"], ...sliceRows]),
    closingLines(results),
  ].join("\n")
}

/** The lines of a run over a long history. */
export function historyTable({ calls, rows, faults }: HistoryResults): string {
  return [
    `${calls} calls in 92 days; the slowest of five answers`,
    ...aligned(rows),
    ...(faults.length === 0
      ? ["Audit: no violations. All questions within their goals."]
      : faultLines(faults)),
  ].join("\n")
}

function absolutes({ title, targets, pairs, reference }: ScenarioResult): string[] {
  const lines: string[][] = []
  for (const [name, found] of Object.entries(targets ?? {})) {
    const { request_latency_ms: latency, time_to_first_token_ms: ttft, inter_chunk_latency_ms: gaps } = found
    lines.push([
      `  ${name}`,
      latency.count > 0 ? `${perSecond(found.request_throughput_per_s)} calls/s` : "",
      found.events_per_s.median > 0 ? `${perSecond(found.events_per_s)} events/s` : "",
      latency.count === 0
        ? ""
        : `p50 ${ms(latency.p50)}  p90 ${ms(latency.p90)}  p99 ${ms(latency.p99)}  max ${ms(latency.max)}`,
      gaps.count > 0 && ttft.count > 0 ? `TTFT p50 ${ms(ttft.p50)}  p99 ${ms(ttft.p99)}` : "",
      gaps.count > 0 ? `inter-chunk p50 ${ms(gaps.p50)}  p99 ${ms(gaps.p99)}` : "",
      cpuText(found.cpu),
    ])
  }
  for (const [name, found] of Object.entries(pairs ?? {}))
    lines.push([`  ${name}`, `${perSecond(found.per_s)} pairs/s`, pairsCpuText(found)])
  if (reference !== null) lines.push([`  ${reference.name}`, `p50 ${ms(reference.ms.median)}`])
  return [title, ...aligned(lines)]
}

/** The CPU of a target and its Postgres for each call or event, and what the load generator adds. */
function cpuText({ per, target_us, postgres_us, load_us, load_share }: CpuResult): string {
  const parts = [
    ...(target_us.median > 0 ? [`process ${us(target_us.median)}`] : []),
    ...(postgres_us.median > 0 ? [`Postgres ${us(postgres_us.median)}`] : []),
    `load generator ${us(load_us.median)}${load_share === null ? "" : ` (${percent(load_share)})`}`,
  ]
  return `CPU per ${per}: ${parts.join(", ")}`
}

function pairsCpuText(found: PairsResult): string {
  return `CPU per pair: process ${us(found.process_us.median)}, Postgres ${eachUs(found)}`
}

export function eachUs({ postgres_us }: PairsResult): string {
  return postgres_us.map(({ median }) => us(median)).join(" + ")
}

function goalText({ goal, unit }: Pick<FigureResult, "goal" | "unit"> & { readonly goal: Goal }): string {
  if (goal === null) return "reported"
  return "at_least" in goal ? `≥ ${quantity(goal.at_least, unit)}` : `≤ ${quantity(goal.at_most, unit)}`
}

function quantity(value: number, unit: FigureResult["unit"]): string {
  return Number.isFinite(value) ? `${value.toFixed(2)}${UNITS[unit]}` : "none"
}

/** Milliseconds with three significant digits. */
export function ms(value: number): string {
  if (!Number.isFinite(value)) return "none"
  return value >= 100 ? `${value.toFixed(0)} ms` : `${value.toPrecision(3)} ms`
}

/** Microseconds with three significant digits. */
export function us(value: number): string {
  return value >= 100 ? `${value.toFixed(0)} µs` : `${value.toPrecision(3)} µs`
}

/** A share as a percentage; empty when it is not known. */
export function percent(part: number | null): string {
  return part === null ? "" : `${(part * 100).toFixed(0)} %`
}

/** A rate with three significant digits. */
export function perSecond({ median }: Spread): string {
  return median >= 100 ? median.toFixed(0) : median.toPrecision(3)
}

export function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = []
  for (const row of rows) {
    for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length)
  }
  return rows.map((row) =>
    row
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join("  ")
      .trimEnd(),
  )
}
