import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js"
import type { Sql } from "postgres"
import { type Address, connect } from "./address.ts"

export interface PoolOptions {
  /** Connections, at most. */
  readonly max: number
  /** After so many seconds without a statement a connection is closed; left out, never. */
  readonly idle_timeout?: number
}

/** What runs on the other connections of a pool that is given up has so long to end. */
const LAST_S = 2

/**
 * Connections for whoever asks the books now and then. When one of them is lost, all are given up for new ones: the driver
 * would lose the next statement on what is left of a lost connection, and not say so, and from then on every further one.
 */
export class Pool {
  readonly #address: Address
  readonly #options: PoolOptions
  #client: Sql
  #current: PostgresJsDatabase
  #ended = false
  /** Every statement goes to the connections that stand when it is made. */
  readonly database: PostgresJsDatabase

  constructor(address: Address, options: PoolOptions) {
    this.#address = address
    this.#options = options
    this.#client = this.#open()
    this.#current = drizzle(this.#client)
    this.database = new Proxy(this.#current, {
      get: (_, name) => {
        const value: unknown = Reflect.get(this.#current, name)
        return typeof value === "function" ? value.bind(this.#current) : value
      },
    })
  }

  async end(): Promise<void> {
    this.#ended = true
    await this.#client.end({ timeout: 1 })
  }

  #giveUp(client: Sql): void {
    if (this.#ended || client !== this.#client) return
    this.#client = this.#open()
    this.#current = drizzle(this.#client)
    void client.end({ timeout: LAST_S })
  }

  /** Connected to when something is asked. Nobody waits for an attempt, so there is no pause before it. */
  #open(): Sql {
    const client: Sql = connect(this.#address, {
      ...this.#options,
      max_lifetime: 0,
      backoff: () => 0,
      onnotice: () => {},
      onclose: () => this.#giveUp(client),
    })
    return client
  }
}
