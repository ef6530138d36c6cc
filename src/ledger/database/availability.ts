import type { LedgerEvents, LedgerLog } from "../events.ts"
import type { Watch } from "./connection.ts"
import { errorCode, isAnswer, kindOf } from "./database-errors.ts"

export type Availability = ReturnType<typeof watchAvailability>

/** Tracks by the last statement whether the database answers, and logs changes. */
export function watchAvailability(log: LedgerLog, events: LedgerEvents) {
  const now = { answering: true, outages: 0 }
  const watch: Watch = ({ statement: { kind, is_lean }, size, duration_ms, error }) => {
    events.statement?.(kind, size, duration_ms)
    if (error !== null && !is_lean && kindOf(error) === "incomplete")
      log.error({ statement: kind, items: size }, "a statement returned too few rows; retrying it")
    const answers = error === null || isAnswer(error)
    if (answers && !now.answering) log.info({}, "the database is available again")
    if (!answers && now.answering) {
      now.outages += 1
      log.warn({ code: errorCode(error), statement: kind }, "the database is unavailable")
    }
    now.answering = answers
  }
  return Object.assign(now, { watch })
}
