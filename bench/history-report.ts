import type { HistoryResults } from "./history.ts"
import { factsOf } from "./report/facts.ts"
import type { Report } from "./report/report.ts"
import { aligned, faultLines } from "./table.ts"

const verdictOf = ({ faults }: HistoryResults) =>
  faults.length === 0 ? "Audit: no violations. All questions within their goals." : "FAILED."

/** The lines of a run over a long history. */
export function historyTable(results: HistoryResults): string {
  return [
    `${results.calls} calls in 92 days; the slowest of five answers`,
    ...aligned(results.rows),
    verdictOf(results),
    ...faultLines(results.faults),
  ].join("\n")
}

export function historyReport(results: HistoryResults): Report {
  const { rows, faults, calls } = results
  return {
    title: "A long history",
    facts: factsOf(results, `${calls} calls in 92 days`),
    verdict: { good: faults.length === 0, text: verdictOf(results), faults, warnings: [] },
    tables: [{ caption: "", head: ["what", "result"], rows }],
    sections: [],
  }
}
