import { Report } from "./job.ts"
import { Latencies } from "./latencies.ts"
import type { Rig } from "./rig.ts"
import { median } from "./statistics.ts"

/** An operation timed alone, to compare the gateway's overhead with. */
export interface Reference {
  readonly name: string
  measure(rig: Rig): Promise<number>
}

const DURATION_MS = 300
const JSON_SAMPLES = 20

/** Holds and settles one call at a time, each by a statement of its own, with no other load. */
function alone({ ledger }: Rig): Promise<Report> {
  const one = { how: "single", shards: 1, accounts: 1, in_flight: 1, duration_ms: DURATION_MS }
  return ledger.ask(Report, { what: "pairs", ...one })
}

export const holdStatement: Reference = {
  name: "hold statement alone",
  async measure(rig) {
    return Latencies.decode((await alone(rig)).ttft).at(0.5)
  },
}

export const bothStatements: Reference = {
  name: "hold and settle statements alone",
  async measure(rig) {
    return Latencies.decode((await alone(rig)).latency).at(0.5)
  },
}

/** The p50 of parsing `text` as JSON and printing it again. */
export function jsonTurn(text: string): Reference {
  return {
    name: "JSON.parse and JSON.stringify of the body",
    async measure() {
      const times = Array.from({ length: JSON_SAMPLES }, () => {
        const started_ms = performance.now()
        JSON.stringify(JSON.parse(text))
        return performance.now() - started_ms
      })
      return median(times)
    },
  }
}
