import { Latencies } from "./latencies.ts"
import { AloneAnswer } from "./ledger-load.ts"
import type { Rig } from "./rig.ts"
import { median } from "./statistics.ts"

/** An operation timed alone, to compare the gateway's overhead with. */
export interface Reference {
  readonly name: string
  measure(rig: Rig): Promise<number>
}

const SAMPLES = 200
const JSON_SAMPLES = 20

async function alone(rig: Rig) {
  const { hold, settle } = await rig.ledger.ask(AloneAnswer, { what: "alone", samples: SAMPLES })
  return { hold_ms: Latencies.decode(hold).at(0.5), settle_ms: Latencies.decode(settle).at(0.5) }
}

export const holdStatement: Reference = {
  name: "hold statement alone",
  async measure(rig) {
    const { hold_ms } = await alone(rig)
    return hold_ms
  },
}

export const bothStatements: Reference = {
  name: "hold and settle statements alone",
  async measure(rig) {
    const { hold_ms, settle_ms } = await alone(rig)
    return hold_ms + settle_ms
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
