import type { HistoryResults } from "./history.ts"
import type { AuditResult, CpuResult, FigureResult, Results, ScenarioResult, SideResult } from "./results.ts"
import type { Goal } from "./scenario.ts"
import type { Spread } from "./statistics.ts"

const UNITS = { times: "×", KiB: " KiB" } as const

/** The table of a run for a terminal: figures and goals, the absolute numbers, the audit, and what went wrong. */
export function suiteTable({ scenarios, audit, warnings, faults, duration_s }: Results): string {
  const rows = scenarios.flatMap((scenario) =>
    scenario.figures.map((figure, at) => [
      at === 0 ? scenario.title : "the same",
      figure.name,
      goalText(figure.goal, figure.unit),
      quantity(figure.median, figure.unit),
      `${quantity(figure.min, figure.unit)} to ${quantity(figure.max, figure.unit)}`,
      figure.goal === null ? "" : figure.reached ? "reached" : "missed",
      ...(at > 0 ? [] : cpuCells(scenario)),
    ]),
  )
  return [
    ...aligned([["scenario", "figure", "to reach", "median", "rounds", "", ...CPU_HEAD], ...rows]),
    "",
    ...scenarios.flatMap(absolutes),
    auditSentence(audit),
    ...warnings.map((warning) => `Warning: ${warning}`),
    ...faultLines(faults),
    `${Math.round(duration_s)} s`,
  ].join("\n")
}

/** The columns for the CPU of a scenario's gateway, or of its first side. */
const CPU_HEAD = ["CPU: gateway", "Postgres", "load generator"]

export function cpuCells({ sides }: ScenarioResult): string[] {
  const side = sides.tollgate ?? Object.values(sides)[0]
  if (side === undefined) return CPU_HEAD.map(() => "")
  const { per, cpu } = side
  return [`${us(cpu.target_us)} per ${per}`, eachUs(cpu), per === "pair" ? "" : loadText(cpu)]
}

function auditSentence({ calls, charged, faults }: AuditResult): string {
  if (faults.length > 0) return "Audit: THE MONEY DOES NOT ADD UP."
  return `Audit: ${calls} calls, ${charged} USD, every charge equal to what the provider counted; no hold left open.`
}

function faultLines(faults: readonly string[]): string[] {
  return faults.length === 0 ? [] : ["FAILED", ...faults.map((fault) => `  ${fault}`)]
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

function absolutes({ title, sides, reference }: ScenarioResult): string[] {
  const lines = Object.entries(sides).map(([name, side]) => [`  ${name}`, ...absolute(side)])
  if (reference !== null) lines.push([`  ${reference.name}`, `p50 ${ms(reference.ms.median)}`])
  return [title, ...aligned(lines)]
}

function absolute(side: SideResult): string[] {
  const { per, cpu, latency_ms: latency, time_to_first_token_ms: ttft, inter_chunk_latency_ms: gaps } = side
  const parts = [
    `process ${us(cpu.target_us)}`,
    ...(cpu.postgres_us.length > 0 ? [`Postgres ${eachUs(cpu)}`] : []),
    ...(per === "pair" ? [] : [`load generator ${loadText(cpu)}`]),
  ]
  return [
    latency.count > 0 ? `${perSecond(side.throughput_per_s)} ${per === "pair" ? "pairs" : "calls"}/s` : "",
    gaps.count > 0 ? `${perSecond(side.events_per_s)} events/s` : "",
    latency.count > 0
      ? `p50 ${ms(latency.p50)}  p90 ${ms(latency.p90)}  p99 ${ms(latency.p99)}  max ${ms(latency.max)}`
      : "",
    gaps.count > 0 && ttft.count > 0 ? `TTFT p50 ${ms(ttft.p50)}  p99 ${ms(ttft.p99)}` : "",
    gaps.count > 0 ? `inter-chunk p50 ${ms(gaps.p50)}  p99 ${ms(gaps.p99)}` : "",
    `CPU per ${per}: ${parts.join(", ")}`,
  ]
}

function eachUs({ postgres_us }: CpuResult): string {
  return postgres_us.map(us).join(" + ")
}

function loadText({ load_us, load_share }: CpuResult): string {
  return `${us(load_us)} (${percent(load_share)})`
}

function goalText(goal: Goal, unit: FigureResult["unit"]): string {
  if (goal === null) return "reported"
  return "at_least" in goal ? `≥ ${quantity(goal.at_least, unit)}` : `≤ ${quantity(goal.at_most, unit)}`
}

function quantity(value: number, unit: FigureResult["unit"]): string {
  return Number.isFinite(value) ? `${value.toFixed(2)}${UNITS[unit]}` : "none"
}

/** Milliseconds with three significant digits. */
function ms(value: number): string {
  if (!Number.isFinite(value)) return "none"
  return value >= 100 ? `${value.toFixed(0)} ms` : `${value.toPrecision(3)} ms`
}

/** Microseconds with three significant digits. */
function us({ median }: Spread): string {
  return median >= 100 ? `${median.toFixed(0)} µs` : `${median.toPrecision(3)} µs`
}

/** A share as a percentage. */
export function percent(part: number): string {
  return Number.isFinite(part) ? `${(part * 100).toFixed(0)} %` : "none"
}

/** A rate with three significant digits. */
function perSecond({ median }: Spread): string {
  return median >= 100 ? median.toFixed(0) : median.toPrecision(3)
}

function aligned(rows: readonly (readonly string[])[]): string[] {
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
