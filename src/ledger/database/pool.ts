import { drizzle, type PostgresJsDatabase } from "drizzle-orm/postgres-js"
import type { Sql } from "postgres"
import { type Address, connect, inSchema } from "./address.ts"

export interface PoolOptions {
  readonly max: number
  /** Seconds without a statement after which a connection is closed; absent: never. */
  readonly idle_timeout?: number
}

/** Deadline of statements on the other connections of a replaced pool. */
const LAST_S = 2

/** Connections for occasional queries. When one is lost all are replaced: the driver loses later statements. */
export class DatabasePool {
  readonly #address: Address
  readonly #options: PoolOptions
  #client: Sql
  #current: PostgresJsDatabase
  #ended = false
  /** Sends every statement to the pool's current connections. */
  readonly database: PostgresJsDatabase

  constructor(address: Address, options: PoolOptions) {
    this.#address = address
    this.#options = options
    this.#client = this.#open()
    this.#current = this.#bind()
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
    this.#current = this.#bind()
    void client.end({ timeout: LAST_S })
  }

  #bind(): PostgresJsDatabase {
    const client = this.#client
    return drizzle(this.#address.schema === undefined ? client : forSchema(client, this.#address))
  }

  /** Connects at the first statement. No backoff, because a statement waits for the connection. */
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

/** A client, or the client of a transaction, whose texts are those of the address' schema. */
function forSchema<Client extends object>(client: Client, address: Address): Client {
  return new Proxy(client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== "function") return value
      if (name === "unsafe") {
        return (text: string, ...rest: unknown[]): unknown =>
          Reflect.apply(value, target, [inSchema(text, address), ...rest])
      }
      if (name === "begin" || name === "savepoint") {
        return (run: (inner: object) => unknown): unknown =>
          Reflect.apply(value, target, [(inner: object) => run(forSchema(inner, address))])
      }
      return value.bind(target)
    },
  })
}
