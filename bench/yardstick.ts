import { AloneAnswer } from "./books.ts"
import { Latencies } from "./latencies.ts"
import type { Rig } from "./rig.ts"
import { median } from "./statistics.ts"

/** Something that is timed by itself, for what a gateway adds to be compared with. */
export interface Yardstick {
  readonly name: string
  measure(rig: Rig): Promise<number>
}

const SAMPLES = 200
const JSON_SAMPLES = 20

async function alone(rig: Rig) {
  const { reserve, close } = await rig.books.ask(AloneAnswer, { what: "alone", samples: SAMPLES })
  return { reserve_ms: Latencies.decode(reserve).at(0.5), close_ms: Latencies.decode(close).at(0.5) }
}

/** The p50 of the statement that holds one call. */
export const reserveStatement: Yardstick = {
  name: "reserve statement alone",
  async measure(rig) {
    const { reserve_ms } = await alone(rig)
    return reserve_ms
  },
}

/** The p50s of the statements that hold and settle one call. */
export const bothStatements: Yardstick = {
  name: "reserve and settle statements alone",
  async measure(rig) {
    const { reserve_ms, close_ms } = await alone(rig)
    return reserve_ms + close_ms
  },
}

/** The p50 of reading `text` as JSON and writing it again. */
export function jsonTurn(text: string): Yardstick {
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
