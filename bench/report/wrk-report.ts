import type { WrkResults } from "../wrk.ts"
import { WRK_HEAD, wrkRow, wrkSentence, wrkVerdict } from "../wrk-table.ts"
import { factsOf } from "./facts.ts"
import type { Report } from "./report.ts"

/** The report of a run with wrk. */
export function wrkReport(results: WrkResults): Report {
  const { scenarios, faults } = results
  return {
    title: "Load with wrk",
    facts: factsOf(results, wrkSentence(results)),
    verdict: { good: faults.length === 0, text: wrkVerdict(results), faults, warnings: [] },
    tables: [{ caption: "", head: WRK_HEAD, rows: scenarios.map(wrkRow) }],
    sections: [],
  }
}
