import type { LedgerEvents, LedgerLog } from "../events.ts"
import type { Watch } from "./connection.ts"
import { errorCode, isAnswer, kindOf } from "./database-errors.ts"

/** Tracks by the last statement whether the database answers, and logs changes. */
export class Availability {
  readonly #log: LedgerLog
  readonly #events: LedgerEvents
  answering = true
  outages = 0

  constructor(log: LedgerLog, events: LedgerEvents) {
    this.#log = log
    this.#events = events
  }

  readonly watch: Watch = ({ statement, size, duration_ms, error }) => {
    const { kind, is_lean } = statement
    this.#events.statement?.(kind, size, duration_ms)
    if (error !== null && !is_lean && kindOf(error) === "incomplete") {
      this.#log.error({ statement: kind, items: size }, "a statement returned too few rows; retrying it")
    }
    if (error === null || isAnswer(error)) {
      if (!this.answering) this.#log.info({}, "the database is available again")
      this.answering = true
    } else {
      if (this.answering) {
        this.outages += 1
        this.#log.warn({ code: errorCode(error), statement: kind }, "the database is unavailable")
      }
      this.answering = false
    }
  }
}
