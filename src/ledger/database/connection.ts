import type { Address } from "./address.ts"
import { isAnswer, Overdue, Unsent } from "./database-errors.ts"
import { CONNECT_S, DatabaseSession } from "./session.ts"
import type { Row, Statement, StatementValues } from "./statement.ts"

/** If the process was paused, the reply may already be in the socket buffer: check once more before timing out. */
const GRACE_MS = 20

/**
 * A kept plan that was made while a table was small reads all of it, also once it has grown. Every statement of a connection
 * finds its rows by an index. A transaction pooler may lose the setting, which only costs time.
 */
const BY_INDEX = "SET enable_seqscan = off"

/** Called for every statement that ended, with the number of its items, its duration and its error. */
export type Watch = (ended: {
  readonly statement: Statement
  readonly size: number
  readonly duration_ms: number
  readonly error: unknown
}) => void

export interface Runner {
  /**
   * Rejects with the error of the server or the driver, or with `Overdue` if it is unknown whether the statement was or will be
   * done. `size` is the number of its items.
   */
  run(
    statement: Statement,
    values: StatementValues,
    within_ms: number,
    size?: number,
  ): Promise<readonly Row[]>
}

/**
 * One connection with a deadline for each statement, which the driver lacks. Statements are pipelined: one that follows does
 * not wait for the answer before it.
 */
export class DatabaseConnection implements Runner {
  readonly #address: Address
  readonly #watch: Watch
  #session: DatabaseSession
  /** True if plans are kept by name; false through a pooler that forgets them. */
  #prepare: boolean
  #made = false
  #ended = false

  constructor(address: Address, watch: Watch = () => {}) {
    this.#address = address
    this.#watch = watch
    this.#prepare = address.forgets_plans !== true
    this.#session = this.#open()
  }

  /** Replaces a connection that does not answer, so that later statements do not wait behind this one. */
  async run(
    statement: Statement,
    values: StatementValues,
    within_ms: number,
    size = 1,
  ): Promise<readonly Row[]> {
    const started_ms = performance.now()
    const failed = Promise.withResolvers<never>()
    const allowed_ms = this.#made ? within_ms : within_ms + CONNECT_S * 1000
    let timer = setTimeout(() => {
      timer = setTimeout(() => failed.reject(new Overdue()), GRACE_MS)
    }, allowed_ms)
    let failure: unknown = null
    try {
      return await this.#query(statement, values, failed)
    } catch (error) {
      failure = error
      throw error
    } finally {
      clearTimeout(timer)
      this.#watch({ statement, size, duration_ms: performance.now() - started_ms, error: failure })
    }
  }

  async end(): Promise<void> {
    this.#ended = true
    await this.#session.end()
  }

  async #query(
    { text }: Statement,
    values: StatementValues,
    failed: PromiseWithResolvers<never>,
  ): Promise<readonly Row[]> {
    const session = this.#session
    try {
      const rows = await Promise.race([session.query(text, values, failed.reject), failed.promise])
      // Sent behind the first statement, which alone shows that there is a connection; its plan is not kept yet.
      if (!this.#made && session === this.#session) {
        this.#made = true
        void session.query(BY_INDEX, [], () => {}).catch(() => {})
      }
      if (session.has_lost_plans) {
        this.#prepare = false
        this.#giveUp(session)
      }
      return rows
    } catch (error) {
      const failure = session.is_connected || error instanceof Unsent ? error : new Unsent(error)
      if (!isAnswer(failure)) this.#giveUp(session)
      throw failure
    }
  }

  /** Closes the session; statements in flight reject. */
  #giveUp(session: DatabaseSession): void {
    this.#replace(session)
    void session.end()
  }

  #replace(session: DatabaseSession): void {
    if (!this.#ended && session === this.#session) this.#session = this.#open()
  }

  /** A session does not connect again, because the primary may be another host by then. */
  #open(): DatabaseSession {
    this.#made = false
    const session: DatabaseSession = new DatabaseSession(this.#address, {
      prepare: this.#prepare,
      onClose: () => this.#replace(session),
    })
    return session
  }
}
