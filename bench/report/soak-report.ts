import type { SoakResults } from "../soak.ts"
import { auditSentence, goalText, ms, quantity } from "../table.ts"
import { against } from "./charts.ts"
import { factsOf } from "./facts.ts"
import type { Report } from "./report.ts"

const MIB = 1024 ** 2

/** The report of a long run: every line in it should be flat. */
export function soakReport(results: SoakResults): Report {
  const { slices, growth, figures, audit, faults } = results
  const calls = slices.map((slice) => slice.calls)
  const vacuumed = growth.filter((step) => step.vacuumed)
  const past_calls = vacuumed.map((step) => step.calls)
  return {
    title: "Tollgate soak test",
    facts: factsOf(
      results,
      `${calls.at(-1) ?? 0} calls`,
      `${slices.at(-1)?.left ?? 0} streams left by their clients`,
    ),
    verdict: { good: faults.length === 0, text: auditSentence(audit), faults, warnings: [] },
    tables: [
      {
        caption: "What is flat has a ratio near 1.",
        head: ["Figure", "To reach", "Value", ""],
        rows: figures.map(({ name, unit, goal, value, reached }) => [
          name,
          goalText({ goal, unit }),
          quantity(value, unit),
          { text: reached ? "reached" : "missed", mark: reached ? "good" : "bad" },
        ]),
      },
    ],
    sections: [
      {
        title: "The gateway over its calls",
        text: "half JSON, half short streams, at 64 connections; one in eleven is a stream that its client leaves",
        tables: [],
        charts: [
          against("Resident memory", "calls", "MiB", calls, [
            { name: "gateway", colour: "first", values: slices.map((slice) => slice.resident_bytes / MIB) },
          ]),
          against("JSON latency", "calls", "ms", calls, [
            { name: "p50", colour: "first", values: slices.map((slice) => slice.json_latency_ms.p50) },
            { name: "p99", colour: "second", values: slices.map((slice) => slice.json_latency_ms.p99) },
          ]),
          against("Time to first token", "calls", "ms", calls, [
            { name: "p50", colour: "first", values: slices.map((slice) => slice.time_to_first_token_ms.p50) },
            {
              name: "p99",
              colour: "second",
              values: slices.map((slice) => slice.time_to_first_token_ms.p99),
            },
          ]),
        ],
      },
      {
        title: "The ledger over its past",
        text: "one call at a time, and 128 in flight on one account",
        tables: [
          {
            caption: "",
            head: ["Past calls", "", "Hold p50", "p99", "Settle p50", "p99", "Pairs/s"],
            rows: growth.map((step) => [
              String(step.calls),
              step.vacuumed ? "vacuumed" : "as written",
              ms(step.hold_ms.p50),
              ms(step.hold_ms.p99),
              ms(step.settle_ms.p50),
              ms(step.settle_ms.p99),
              step.pairs_per_s.toFixed(0),
            ]),
          },
        ],
        charts: [
          against("Statements alone, p50", "past calls", "ms", past_calls, [
            { name: "hold", colour: "first", values: vacuumed.map((step) => step.hold_ms.p50) },
            { name: "settle", colour: "second", values: vacuumed.map((step) => step.settle_ms.p50) },
          ]),
          against("Pairs per second", "past calls", "pairs/s", past_calls, [
            { name: "batch queues", colour: "first", values: vacuumed.map((step) => step.pairs_per_s) },
          ]),
        ],
      },
    ],
  }
}
