import { Socket } from "node:net"
import { sql } from "drizzle-orm"
import { DrizzleQueryError } from "drizzle-orm/errors"
import { PgDialect, type PreparedQueryConfig } from "drizzle-orm/pg-core"
import { PostgresJsSession } from "drizzle-orm/postgres-js"
import type { RowList, Sql } from "postgres"
import { type Address, connect, inSchema } from "./address.ts"
import { Unsent } from "./database-errors.ts"
import type { Row, StatementValues } from "./statement.ts"

export const CONNECT_S = 3

export interface SessionOptions {
  /** True if statements keep their plans under a name. Some transaction poolers do not allow it. */
  readonly prepare: boolean
  /** Called when the connection is lost, or could not be made. No query may follow. */
  onClose(): void
}

type Rows = RowList<Record<string, unknown>[]>

/** A text as Drizzle's prepared query, and the name under which the server has its plan. */
interface Prepared {
  readonly query: { execute(values: Record<string, unknown>): Promise<Rows> }
  name: string | null
}

/**
 * One connection for the statements of calls, opened at the first query and never made again. With several hosts, it goes to the
 * one that takes writes; without one a query rejects with `NoPrimary`. Bun's driver would save 3 to 6 % of a call's CPU
 * (docs/design-card.md).
 */
export class DatabaseSession {
  readonly #options: SessionOptions
  readonly #address: Address
  readonly #client: Sql
  readonly #drizzle: PostgresJsSession<Sql, Record<string, never>, Record<string, never>>
  readonly #prepared = new Map<string, Prepared>()
  readonly #waiting = new Set<(error: Error) => void>()
  #socket: Socket | null = null
  #is_connected = false
  #has_lost_plans = false
  #closed = false

  constructor(address: Address, options: SessionOptions) {
    this.#address = address
    this.#options = options
    this.#client = this.#connect()
    this.#drizzle = new PostgresJsSession(this.#client, new PgDialect(), undefined)
  }

  /** False as long as the server can have received no query. */
  get is_connected(): boolean {
    return this.#is_connected
  }

  /**
   * True if the server did not know the name of a statement: behind a transaction pooler it may be another server each time.
   * The driver then prepares the statement again and runs it, but each of these servers keeps every plan.
   */
  get has_lost_plans(): boolean {
    return this.#has_lost_plans
  }

  /**
   * The server runs statements in the order of these calls, and does not wait until an answer was read. The driver forgets what
   * it has not sent when the connection is lost: then `fail` is called.
   */
  async query(text: string, values: StatementValues, fail: (error: Error) => void): Promise<readonly Row[]> {
    if (this.#closed) throw new Unsent(connectionClosed())
    let prepared = this.#prepared.get(text)
    if (prepared === undefined) {
      prepared = this.#prepare(text, values.length)
      this.#prepared.set(text, prepared)
    }
    this.#waiting.add(fail)
    try {
      const rows = await prepared.query.execute({ ...values })
      const { name } = rows.statement
      this.#has_lost_plans ||= name !== (prepared.name ?? name)
      prepared.name = name
      return rows
    } catch (error) {
      throw error instanceof DrizzleQueryError ? error.cause : error
    } finally {
      this.#waiting.delete(fail)
    }
  }

  /** Queries in flight reject. */
  async end(): Promise<void> {
    this.#closed = true
    // Immediately, so that it stays true that no query was sent.
    if (!this.#is_connected) this.#socket?.destroy()
    await this.#client.end({ timeout: 0 })
    this.#socket?.destroy()
    // Later than the driver's own errors, which say more.
    setImmediate(() => {
      for (const fail of this.#waiting) fail(connectionClosed())
    })
  }

  #prepare(text: string, parameters: number): Prepared {
    const params = Array.from({ length: parameters }, (_, at) => sql.placeholder(String(at)))
    // A text without parameters is sent as it is. The driver names the others; drizzle wants any name.
    const name = this.#options.prepare && parameters > 0 ? "named" : undefined
    const query = this.#drizzle.prepareQuery<PreparedQueryConfig & { execute: Rows }>(
      { sql: inSchema(text, this.#address), params },
      undefined,
      name,
      false,
    )
    return { query, name: null }
  }

  #connect(): Sql {
    const client = connect(this.#address, {
      max: 1,
      max_lifetime: 0,
      connect_timeout: CONNECT_S,
      fetch_types: false,
      onnotice: () => {},
      // The server tells its settings before it takes queries.
      onparameter: () => {
        this.#is_connected = true
      },
      onclose: () => this.#onClose(),
      newSocket: () => this.#newSocket(),
    })
    // StatementValues are texts already: the driver would make `f` of the text `true`.
    client.options.serializers = {}
    return client
  }

  /** Called once, because the driver would connect again without a pause and without end. */
  #newSocket(): Socket {
    if (this.#closed || this.#socket !== null) throw new Unsent(connectionClosed())
    this.#socket = new Socket()
    return this.#socket
  }

  #onClose(): void {
    void this.end()
    this.#options.onClose()
  }
}

function connectionClosed(): Error {
  return Object.assign(new Error("the connection is closed"), { code: "CONNECTION_CLOSED" })
}
