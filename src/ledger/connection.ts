import type { Sql } from "postgres"
import { type Address, connect } from "./address.ts"
import type { Row, Statement, StatementKind, Values } from "./statement.ts"
import { isAnswer, Overdue } from "./trouble.ts"

/** How long a connection may take to be made. */
const CONNECT_S = 3
/** After a pause of the whole process the reply may be here unread: what is overdue gets one more look. */
const GRACE_MS = 20

/** Told of every statement that ended: how many items it served, how long it took, and what it failed with. */
export type Watch = (ended: {
  readonly kind: StatementKind
  readonly size: number
  readonly duration_ms: number
  readonly error: unknown
}) => void

/** One connection that runs one statement at a time, each within a deadline: the driver has none. */
export class Connection {
  readonly #address: Address
  readonly #watch: Watch
  #client: Sql
  #made = false
  #turn: Promise<unknown> = Promise.resolve()
  #ended = false

  constructor(address: Address, watch: Watch = () => {}) {
    this.#address = address
    this.#watch = watch
    this.#client = this.#open()
  }

  /**
   * Rejects with what the server or the driver said, or with `Overdue`: then it is unknown whether the statement was or
   * will be done. A connection without an answer is given up for a new one, so that the next statement does not wait
   * behind this one.
   */
  run(statement: Statement, values: Values, within_ms: number, size = 1): Promise<readonly Row[]> {
    const rows = this.#turn.then(() => this.#measure(statement, values, within_ms, size))
    this.#turn = rows.catch(() => {})
    return rows
  }

  async end(): Promise<void> {
    this.#ended = true
    await this.#client.end({ timeout: 0 })
  }

  async #measure({ kind, text }: Statement, values: Values, within_ms: number, size: number) {
    const started_at = performance.now()
    let failure: unknown = null
    try {
      return await this.#run(text, values, within_ms)
    } catch (error) {
      failure = error
      throw error
    } finally {
      this.#watch({ kind, size, duration_ms: performance.now() - started_at, error: failure })
    }
  }

  async #run(text: string, values: Values, within_ms: number): Promise<readonly Row[]> {
    const client = this.#client
    const overdue = Promise.withResolvers<never>()
    const allowed_ms = this.#made ? within_ms : within_ms + CONNECT_S * 1000
    let timer = setTimeout(() => {
      timer = setTimeout(() => overdue.reject(new Overdue()), GRACE_MS)
    }, allowed_ms)
    try {
      const rows = await Promise.race([
        client.unsafe<Row[]>(text, [...values], { prepare: true }),
        overdue.promise,
      ])
      this.#made = true
      return rows
    } catch (error) {
      if (!isAnswer(error)) this.#giveUp(client)
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  /** The driver would lose the next statement on what is left of a connection that it has lost, and not say so. */
  #giveUp(client: Sql): void {
    if (!this.#ended) this.#client = this.#open()
    void client.end({ timeout: 0 })
  }

  /** Retrying is the lanes' business, so the driver reconnects without a pause. */
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
