import type { Sql } from "postgres"
import { type Address, connect, inSchema } from "./address.ts"
import { isAnswer, Overdue } from "./database-errors.ts"
import type { Row, Statement, Values } from "./statement.ts"

/** How long a connection may take to be made. */
const CONNECT_S = 3
/** After a pause of the whole process the reply may be here unread: what is overdue gets one more look. */
const GRACE_MS = 20

/**
 * Plans are kept, and a plan that was made while a table was small reads all of it: so would every call, once the table
 * has grown. All statements of connections find their rows by an index. A transaction pooler may lose the setting; that
 * is slower, and nothing worse.
 */
const BY_INDEX = "SET enable_seqscan = off"

/** Told of every statement that ended: how many items it served, how long it took, and what it failed with. */
export type Watch = (ended: {
  readonly statement: Statement
  readonly size: number
  readonly duration_ms: number
  readonly error: unknown
}) => void

/** Whatever runs statements. */
export interface Runner {
  /**
   * Rejects with what the server or the driver said, or with `Overdue`: then it is unknown whether the statement was or
   * will be done. `size` is how many items it serves.
   */
  run(statement: Statement, values: Values, within_ms: number, size?: number): Promise<readonly Row[]>
}

/**
 * One connection, and a deadline for each statement: the driver has none. The server runs statements in the order in which
 * they are sent, and one that follows does not wait until this process has read the answer before it.
 */
export class Connection implements Runner {
  readonly #address: Address
  readonly #watch: Watch
  readonly #texts = new Map<Statement, string>()
  #client: Sql
  #made = false
  #ended = false

  constructor(address: Address, watch: Watch = () => {}) {
    this.#address = address
    this.#watch = watch
    this.#client = this.#open()
  }

  /** A connection without an answer is given up for a new one, so that what follows does not wait behind this statement. */
  async run(statement: Statement, values: Values, within_ms: number, size = 1): Promise<readonly Row[]> {
    const client = this.#client
    const started_ms = performance.now()
    const overdue = Promise.withResolvers<never>()
    const allowed_ms = this.#made ? within_ms : within_ms + CONNECT_S * 1000
    let timer = setTimeout(() => {
      timer = setTimeout(() => overdue.reject(new Overdue()), GRACE_MS)
    }, allowed_ms)
    let failure: unknown = null
    try {
      const rows = await Promise.race([
        client.unsafe<Row[]>(this.#textOf(statement), [...values], { prepare: true }),
        overdue.promise,
      ])
      // Behind the first statement, which alone tells whether there is a connection; its plan is not kept yet.
      if (!this.#made) void client.unsafe(BY_INDEX).catch(() => {})
      this.#made = true
      return rows
    } catch (error) {
      failure = error
      if (!isAnswer(error)) this.#giveUp(client)
      throw error
    } finally {
      clearTimeout(timer)
      this.#watch({ statement, size, duration_ms: performance.now() - started_ms, error: failure })
    }
  }

  async end(): Promise<void> {
    this.#ended = true
    await this.#client.end({ timeout: 0 })
  }

  /** Its text for this schema; the same string each time. */
  #textOf(statement: Statement): string {
    if (this.#address.schema === undefined) return statement.text
    let text = this.#texts.get(statement)
    if (text === undefined) {
      text = inSchema(statement.text, this.#address)
      this.#texts.set(statement, text)
    }
    return text
  }

  /** The driver would lose the next statement on what is left of a connection that it has lost, and not say so. */
  #giveUp(client: Sql): void {
    if (!this.#ended && client === this.#client) this.#client = this.#open()
    void client.end({ timeout: 0 })
  }

  /** The queues back off, so the driver reconnects without a pause. */
  #open(): Sql {
    this.#made = false
    const client: Sql = connect(this.#address, {
      max: 1,
      fetch_types: false,
      connect_timeout: CONNECT_S,
      backoff: () => 0,
      onnotice: () => {},
      onclose: () => {
        if (client === this.#client) this.#made = false
      },
    })
    return client
  }
}
