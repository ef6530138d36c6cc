import type { Watch } from "./connection.ts"
import type { LedgerEvents } from "./events.ts"
import type { Log } from "./log.ts"
import { codeOf, isAnswer, troubleOf } from "./trouble.ts"

/** Whether the books answer, by the last statement that ended. Said in the log when it changes. */
export class Pulse {
  readonly #log: Log
  readonly #events: LedgerEvents
  #answering = true

  constructor(log: Log, events: LedgerEvents) {
    this.#log = log
    this.#events = events
  }

  get answering(): boolean {
    return this.#answering
  }

  readonly watch: Watch = ({ kind, size, duration_ms, error }) => {
    this.#events.statement?.(kind, size, duration_ms)
    if (error !== null && troubleOf(error) === "incomplete") {
      this.#log.error(
        { statement: kind, items: size },
        "a statement lost a row on its way; it is tried again",
      )
    }
    if (error === null || isAnswer(error)) {
      if (!this.#answering) this.#log.info({}, "the books answer again")
      this.#answering = true
    } else {
      if (this.#answering) this.#log.warn({ code: codeOf(error), statement: kind }, "the books do not answer")
      this.#answering = false
    }
  }
}
