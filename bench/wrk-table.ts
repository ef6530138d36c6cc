import { aligned, faultLines, ms, percent, us } from "./table.ts"
import type { WrkResults, WrkScenarioResult } from "./wrk.ts"

const WRK_HEAD = [
  "scenario",
  "Tollgate / bare",
  "rounds",
  "Tollgate",
  "p50",
  "p99",
  "bare",
  "CPU per call: gateway",
  "Postgres",
  "wrk",
  "bare",
]

function wrkRow({ title, ratio, bare, tollgate }: WrkScenarioResult): string[] {
  return [
    title,
    ratio.median.toFixed(2),
    `${ratio.min.toFixed(2)} to ${ratio.max.toFixed(2)}`,
    `${tollgate.calls_per_s.toFixed(0)}/s`,
    ms(tollgate.p50_ms),
    ms(tollgate.p99_ms),
    `${bare.calls_per_s.toFixed(0)}/s`,
    us(tollgate.process_us),
    us(tollgate.postgres_us),
    `${us(tollgate.wrk_us)} (${percent(tollgate.wrk_us / tollgate.process_us)})`,
    us(bare.process_us),
  ]
}

/** What a run with wrk covered, in words. */
function wrkSentence({ accounts, rounds, command }: WrkResults): string {
  return `${command}; ${accounts} ${accounts === 1 ? "account" : "accounts"}, medians of ${rounds} ${rounds === 1 ? "round" : "rounds"}`
}

/** What the gateway's audit says. */
function wrkVerdict({ faults }: WrkResults): string {
  return faults.length === 0 ? "Audit: no violations, no hold left open." : "Audit: FAILED."
}

export function wrkTable(results: WrkResults): string {
  return [
    wrkSentence(results),
    ...aligned([WRK_HEAD, ...results.scenarios.map(wrkRow)]),
    wrkVerdict(results),
    ...faultLines(results.faults),
  ].join("\n")
}
