import type { Distributed, Results, ScenarioResult, TargetResult } from "../results.ts"
import { targets } from "../rig.ts"
import {
  auditSentence,
  CPU_HEAD,
  cpuCells,
  eachUs,
  goalText,
  ms,
  percent,
  perSecond,
  quantity,
  us,
} from "../table.ts"
import { distribution, overTime } from "./charts.ts"
import { factsOf } from "./facts.ts"
import type { Cell, Chart, Report, Section, Table } from "./report.ts"

const DISTRIBUTIONS: readonly (readonly [Distributed, string])[] = [
  ["request_latency", "Request latency"],
  ["time_to_first_token", "Time to first token"],
  ["inter_chunk_latency", "Inter-chunk latency"],
]
const KIB = 1024

/** The report of a run of scenarios. */
export function suiteReport(results: Results): Report {
  const { audit, warnings, faults, scenarios, size } = results
  return {
    title: "Tollgate benchmark",
    facts: factsOf(results, `${size} run`),
    verdict: { good: faults.length === 0, text: auditSentence(audit), faults, warnings },
    tables: [figuresTable(scenarios)],
    sections: scenarios.map(sectionOf),
  }
}

function figuresTable(scenarios: readonly ScenarioResult[]): Table {
  return {
    caption:
      "Ratios within one run: rounds are interleaved, so both sides of a ratio had the same machine. CPU is user and system time of all processes; the share of the load generator is by the gateway's. Noise is the variation of the direct rounds.",
    head: ["Scenario", "Figure", "To reach", "Median", "Rounds", "", ...CPU_HEAD, "Noise"],
    rows: scenarios.flatMap((scenario) =>
      scenario.figures.map((figure, at): Cell[] => [
        scenario.title,
        figure.name,
        goalText(figure),
        quantity(figure.median, figure.unit),
        `${quantity(figure.min, figure.unit)} to ${quantity(figure.max, figure.unit)}`,
        figure.goal === null
          ? { text: "reported", mark: "none" }
          : { text: figure.reached ? "reached" : "missed", mark: figure.reached ? "good" : "bad" },
        ...(at > 0 ? ["", "", "", ""] : [...cpuCells(scenario), percent(scenario.noise)]),
      ]),
    ),
  }
}

function sectionOf(scenario: ScenarioResult): Section {
  const { title, load, rounds, targets: found, pairs, reference } = scenario
  const tables = found === null ? [] : [targetsTable(found)]
  const alone = reference === null ? "" : `; ${reference.name}: p50 ${ms(reference.ms.median)}`
  if (pairs !== null) {
    tables.push({
      caption: "",
      head: ["", "Hold and settle pairs per second", "Rounds", "CPU/pair", "Postgres"],
      rows: Object.entries(pairs).map(([name, found]) => [
        name,
        perSecond(found.per_s),
        rangeOf(found.per_s),
        us(found.process_us.median),
        eachUs(found),
      ]),
    })
  }
  return {
    title,
    text: `${load}, ${rounds} rounds${alone}`,
    tables,
    charts: found === null ? [] : chartsOf(found),
  }
}

type Found = NonNullable<ScenarioResult["targets"]>

function targetsTable(found: Found): Table {
  return {
    caption: "",
    head: [
      "",
      "Calls/s",
      "Goodput/s",
      "Events/s",
      "Latency p50",
      "p90",
      "p99",
      "max",
      "TTFT p50",
      "p99",
      "Gap p99",
      "Counted",
      "CPU",
      "Postgres",
      "Load generator",
      "of the CPU",
    ],
    rows: Object.entries(found).map(([name, target]) => {
      const {
        request_latency_ms: latency,
        time_to_first_token_ms: ttft,
        inter_chunk_latency_ms: gap,
        cpu,
      } = target
      const has = (count: number, text: string) => (count > 0 ? text : "")
      return [
        name,
        has(latency.count, perSecond(target.request_throughput_per_s)),
        has(latency.count, perSecond(target.goodput_per_s)),
        has(gap.count, perSecond(target.events_per_s)),
        ...[latency.p50, latency.p90, latency.p99, latency.max].map((time) => has(latency.count, ms(time))),
        has(Math.min(gap.count, ttft.count), ms(ttft.p50)),
        has(Math.min(gap.count, ttft.count), ms(ttft.p99)),
        has(gap.count, ms(gap.p99)),
        `per ${cpu.per}`,
        us(cpu.target_us.median),
        has(cpu.postgres_us.median, us(cpu.postgres_us.median)),
        us(cpu.load_us.median),
        percent(cpu.load_share),
      ]
    }),
  }
}

function chartsOf(found: Found): Chart[] {
  const lines = <Value>(values: (target: TargetResult) => readonly Value[]) =>
    Object.entries(found).map(([name, target], at) => ({
      name,
      colour: targets[at] ?? "tollgate",
      values: values(target),
    }))
  const [first] = Object.values(found)
  if (first === undefined) return []
  const is_stream = first.inter_chunk_latency_ms.count > 0
  const held = first.request_latency_ms.count === 0
  const charts = DISTRIBUTIONS.filter(([name]) => first.distributions[name].length > 1)
    .filter(([name]) => is_stream || name === "request_latency")
    .map(([name, title]) =>
      distribution(
        title,
        lines(({ distributions }) => distributions[name]),
      ),
    )
  if (!held)
    charts.push(
      overTime(
        "Throughput",
        "calls/s",
        lines(({ calls_over_time }) => calls_over_time),
      ),
    )
  if (is_stream)
    charts.push(
      overTime(
        "Chunks per second",
        "events/s",
        lines(({ events_over_time }) => events_over_time),
      ),
    )
  if (held) {
    const memory = lines(({ resident_bytes_per_connection_over_time: over_time }) =>
      over_time.map((bytes) => bytes / KIB),
    )
    charts.push({
      ...overTime("Memory per stream", "KiB", memory),
      x: { label: "seconds since the first stream", scale: "linear" },
    })
  }
  return charts.filter(({ places }) => places.length > 1)
}

function rangeOf({ min, max }: { readonly min: number; readonly max: number }): string {
  return `${min.toFixed(0)} to ${max.toFixed(0)}`
}
